import typer
from typer.testing import CliRunner

from adaexplore.cli.connection import connecting
from adaexplore.cli.failures import in_flags
from adaexplore.client.security import VARIABLES, security_from


def _run(monkeypatch, *words):
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("ADAEXPLORE_CA_FILE", "/from/variable.pem")
    app, seen = typer.Typer(), []

    @app.command()
    @connecting
    def call(name: str, count: int = typer.Option(1, min=1)) -> None:
        """Call."""
        seen.append((name, count, security_from()))

    done = CliRunner().invoke(app, list(words))
    return done, seen


def test_a_connecting_command_takes_its_own_options_and_those_of_the_connection(monkeypatch):
    done, [(name, count, security)] = _run(monkeypatch, "x", "--count", "2", "--token-file", "/token", "--ca-file", "/given.pem")
    assert done.exit_code == 0, done.output
    assert (name, count, str(security.token_file), str(security.ca_file)) == ("x", 2, "/token", "/given.pem")


def test_without_options_the_variables_hold(monkeypatch):
    _, [(_, _, security)] = _run(monkeypatch, "x")
    assert (str(security.ca_file), security.cert_file) == ("/from/variable.pem", None)


def test_a_token_has_no_option_since_argument_lists_are_public(monkeypatch):
    done, seen = _run(monkeypatch, "x", "--token", "secret")
    assert done.exit_code == 2
    assert seen == []


def test_a_message_names_options_and_leaves_paths_alone():
    assert in_flags("set ca_file (ca_file) for /x/ca_file.pem") == "set --ca-file (--ca-file) for /x/ca_file.pem"
