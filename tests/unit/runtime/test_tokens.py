import hashlib

import pytest
from authorities import OTHER_TOKEN, TOKEN, secret_file

from adaexplore.runtime.credentials import CredentialError
from adaexplore.runtime.errors import UnauthenticatedError
from adaexplore.runtime.tokens import Callers, read_callers


def _sent(token, scheme="Bearer"):
    return [("user-agent", "x"), ("authorization", f"{scheme} {token}")]


def _callers(path, refused=None):
    return Callers(path, (refused if refused is not None else []).append)


def test_a_caller_is_known_by_its_token_or_the_digest_of_it(tmp_path):
    digest = hashlib.sha256(OTHER_TOKEN.encode()).hexdigest()
    callers = _callers(secret_file(tmp_path / "tokens", f"# fleet\n\nalice:{TOKEN}\n  bob.ci-1:sha256:{digest.upper()}  \n"))
    assert callers.name_of(_sent(TOKEN)) == "alice"
    assert callers.name_of(_sent(OTHER_TOKEN, "bearer")) == "bob.ci-1"


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ([], "TOKEN_MISSING"),
        (_sent(OTHER_TOKEN), "TOKEN_WRONG"),
        (_sent(TOKEN[:-1]), "TOKEN_WRONG"),
        (_sent(""), "TOKEN_WRONG"),
        (_sent(TOKEN, "Basic"), "TOKEN_WRONG"),
        (_sent(TOKEN) + _sent(TOKEN), "TOKEN_WRONG"),
        (_sent(f"sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}"), "TOKEN_WRONG"),
    ],
)
def test_any_other_caller_is_refused_with_a_reason(metadata, reason, tmp_path):
    callers = _callers(secret_file(tmp_path / "tokens", f"alice:{TOKEN}"))
    with pytest.raises(UnauthenticatedError) as caught:
        callers.name_of(metadata)
    assert caught.value.reason == reason
    assert TOKEN not in str(caught.value)


def test_two_tokens_of_one_caller_hold_side_by_side_until_one_is_taken_out(tmp_path):
    path = secret_file(tmp_path / "tokens", f"alice:{TOKEN}\nalice:{OTHER_TOKEN}")
    callers = _callers(path)
    assert {callers.name_of(_sent(token)) for token in (TOKEN, OTHER_TOKEN)} == {"alice"}
    secret_file(path, f"alice:{OTHER_TOKEN}")
    assert callers.name_of(_sent(OTHER_TOKEN)) == "alice"
    with pytest.raises(UnauthenticatedError):
        callers.name_of(_sent(TOKEN))


def test_a_changed_file_that_is_malformed_leaves_the_former_in_force_and_is_told(tmp_path):
    path, refused = secret_file(tmp_path / "tokens", f"alice:{TOKEN}"), []
    callers = _callers(path, refused)
    secret_file(path, OTHER_TOKEN)
    assert callers.name_of(_sent(TOKEN)) == "alice"
    assert len(refused) == 1
    assert "line 1" in refused[0]
    assert OTHER_TOKEN not in refused[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# nobody", "holds no line NAME:TOKEN"),
        (f"{TOKEN}\nbad name:{TOKEN}", "line 1 must be NAME:TOKEN .*; line 2 must be NAME:TOKEN"),
        ("alice:short", "line 1 must have a token of at least 16"),
        (f"alice:{TOKEN} # hers", "line 1 must have a token of at least 16 printable characters without spaces"),
        ("alice:sha256:abc", "line 1 must have 64 hexadecimal digits"),
    ],
)
def test_a_malformed_file_is_refused_by_line_and_never_quoted(text, words, tmp_path):
    with pytest.raises(CredentialError, match=words) as caught:
        read_callers(secret_file(tmp_path / "tokens", text))
    assert TOKEN not in str(caught.value)
    assert "short" not in str(caught.value)
