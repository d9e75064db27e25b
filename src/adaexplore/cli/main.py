"""The `adaexplore` command: assembles the command groups and turns every error into one line and an exit code."""

from __future__ import annotations

import sys
from typing import Any

import typer

from adaexplore.cli import answering, audit, db, doctor, evaluate, lab, optimize, profile, rules, search, serve
from adaexplore.cli.failures import ExitCode, exit_with, print_error

# Typer carries its own copy of click from some version on; its base error is found through the one it exports.
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]
app = typer.Typer(
    name="adaexplore",
    help="Turn a PyTorch program into a fast, proven-correct GPU kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 a service or this machine failed, 2 wrong input, 3 invalid task, 4 kernel failed or rejected, "
    "5 inconclusive, 130 interrupted. --debug before the command adds tracebacks.",
)
app.command("optimize")(optimize.optimize)
app.command("evaluate")(evaluate.evaluate)
app.command("profile")(profile.profile)
app.command("audit")(audit.audit)
app.command("serve")(serve.serve)
app.add_typer(db.app, name="db")
app.add_typer(search.app, name="search")
app.add_typer(answering.app, name="generator")
app.add_typer(rules.app, name="rules")
app.add_typer(lab.app, name="lab")
app.command("doctor")(doctor.doctor)


@app.callback()
def _options(debug: bool = typer.Option(False, "--debug", help="Print tracebacks.")) -> None:
    """Turn a PyTorch program into a fast, proven-correct GPU kernel."""


def main() -> None:
    """Run the command line; every error ends in one line on standard error and a documented exit code."""
    debug = "--debug" in sys.argv
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        sys.exit(int(ExitCode.INTERRUPTED))
    except USAGE_ERROR as error:
        error.show()
        if "--json" in sys.argv:
            print_error(error.format_message(), ExitCode.USAGE)
        sys.exit(int(ExitCode.USAGE))
    except KeyboardInterrupt:
        sys.exit(int(ExitCode.INTERRUPTED))
    except BaseExceptionGroup as group:
        exit_with(_first(group), debug=debug)
    except Exception as error:
        exit_with(error, debug=debug)
    sys.exit(code if isinstance(code, int) else 0)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
