import re

import pytest
from adaexplore_controller.config import ENVIRONMENT_PREFIX, ControllerConfig
from authorities import OTHER_TOKEN, TOKEN, Authority, secret_file

from adaexplore.runtime.config import ConfigError, load_config

ADDRESSES = {f"ADAEXPLORE_CONTROLLER_{name}_ADDRESS": "127.0.0.1:1" for name in ("GENERATOR", "EVALUATOR", "MEMORY")}


def _load(argv=(), **more):
    return load_config(ControllerConfig, ENVIRONMENT_PREFIX, [str(word) for word in argv], ADDRESSES | more)


def test_the_peers_are_called_with_the_given_files(tmp_path):
    authority = Authority(tmp_path)
    pair, token = authority.issue("controller"), secret_file(tmp_path / "token", TOKEN)
    files = ["--peer-ca-file", authority.file, "--peer-cert-file", pair.cert, "--peer-key-file", pair.key, "--peer-token-file", token]
    security = _load(files, ADAEXPLORE_CONTROLLER_MEMORY_ADDRESS="memory.example:1").peer_security("memory")
    assert (security.ca_file, security.cert_file, security.key_file) == (authority.file, pair.cert, pair.key)
    assert security.bearer("memory.example:1").metadata() == (("authorization", f"Bearer {TOKEN}"),)


def test_a_token_for_peers_beyond_loopback_needs_tls_or_a_word(tmp_path):
    given = {
        "ADAEXPLORE_CONTROLLER_PEER_TOKEN_FILE": str(secret_file(tmp_path / "token", TOKEN)),
        "ADAEXPLORE_CONTROLLER_MEMORY_ADDRESS": "memory.example:1",
    }
    with pytest.raises(ConfigError, match=r"not sent to memory.example:1 in plaintext.*set --peer-ca-file, or say --peer-insecure-call"):
        _load(**given)
    assert _load(["--peer-insecure-call", "plaintext"], **given).peer_security("memory").insecure_call == "plaintext"


def test_a_peer_may_have_a_token_of_its_own_and_the_others_share_one(tmp_path):
    shared, own = secret_file(tmp_path / "token", TOKEN), secret_file(tmp_path / "own", OTHER_TOKEN)
    config = _load(["--peer-token-file", shared, "--evaluator-token-file", own])
    assert {name: config.peer_security(name).token_file for name in ("generator", "evaluator", "memory")} == {
        "generator": shared,
        "evaluator": own,
        "memory": shared,
    }
    beyond = {"ADAEXPLORE_CONTROLLER_EVALUATOR_ADDRESS": "evaluator.example:1"}
    with pytest.raises(ConfigError, match=r"not sent to evaluator.example:1 in plaintext"):
        _load(["--evaluator-token-file", own], **beyond)
    _load(["--memory-token-file", own], **beyond)


def test_wrong_files_for_the_peers_are_listed_at_once(tmp_path):
    authority = Authority(tmp_path)
    pair = authority.issue("controller")
    with pytest.raises(ConfigError) as caught:
        _load(["--peer-cert-file", pair.cert, "--peer-token-file", tmp_path / "nowhere"])
    expected = ("--peer-cert-file .*needs --peer-ca-file too", "--peer-token-file .*No such file")
    assert len(caught.value.problems) == 2
    for words, problem in zip(expected, caught.value.problems, strict=True):
        assert re.search(words, problem)
