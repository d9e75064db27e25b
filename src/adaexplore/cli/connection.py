"""Options of every command that calls services: how it proves itself to running ones."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import typer

from adaexplore.client.security import VARIABLES

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_PANEL = "Services that run elsewhere"
_OPTIONS: dict[str, tuple[Any, str]] = {
    "ca_file": (Path, "Authorities of the services' certificates, PEM; TLS is spoken if given."),
    "cert_file": (Path, "Certificate of this client with its chain, PEM."),
    "key_file": (Path, "Key of that certificate, PEM."),
    "server_name": (str, "Name in the services' certificates, where it is not the host of the address."),
    "token_file": (Path, "File that holds the token; ADAEXPLORE_TOKEN holds it where there is no file."),
    "insecure_call": (str, "`plaintext` lets the token go beyond loopback without TLS."),
}


def connecting(command: CommandT) -> CommandT:
    """Return a command with the options that say how to call services that run elsewhere.

    Each option is a variable too (`ADAEXPLORE_CA_FILE`, …); what is given on the command line is put there, where `addresses` finds it.
    """

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        for name in _OPTIONS:
            if (value := options.pop(name)) is not None:
                os.environ[VARIABLES[name]] = str(value)
        return command(*args, **options)

    signature = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=kind | None,
            default=typer.Option(None, help=f"{text} [{VARIABLES[name]}]", rich_help_panel=_PANEL),
        )
        for name, (kind, text) in _OPTIONS.items()
    ]
    described = cast(Any, run)
    described.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])
    described.__annotations__ = {item.name: item.annotation for item in described.__signature__.parameters.values()}
    return cast(CommandT, run)
