import re
from pathlib import Path

import pytest
from authorities import TOKEN, Authority, secret_file
from pydantic import Field, SecretStr

from adaexplore.runtime.config import ConfigError, ServiceConfig, load_config


class _Config(ServiceConfig):
    api_key: SecretStr | None = None
    workers: int = Field(1, ge=1)
    fast: bool = False


def _load(argv=(), environ=None):
    return load_config(_Config, "ADAEXPLORE_TEST_", argv, environ or {})


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_default():
    assert _load().workers == 1
    assert _load(environ={"ADAEXPLORE_TEST_WORKERS": "2"}).workers == 2
    assert _load(["--workers", "3"], {"ADAEXPLORE_TEST_WORKERS": "2"}).workers == 3


def test_all_problems_are_listed_at_once_by_flag_and_variable():
    with pytest.raises(ConfigError) as caught:
        _load(["--workers", "0", "--nope"], {"ADAEXPLORE_TEST_TYPO": "1", "ADAEXPLORE_TEST_DRAIN_S": "soon"})
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    for part in ("--nope", "ADAEXPLORE_TEST_TYPO", "--workers (ADAEXPLORE_TEST_WORKERS)", "--drain-s (ADAEXPLORE_TEST_DRAIN_S)"):
        assert part in text


def test_a_secret_has_no_flag_and_does_not_show_in_the_text():
    for argv in (["--api-key", "sk-hidden"], ["--api-key=sk-hidden"], ["sk-hidden"]):
        with pytest.raises(ConfigError, match=r"no such flag|belong to no flag") as caught:
            _load(argv)
        assert "sk-hidden" not in str(caught.value)
    config = _load(environ={"ADAEXPLORE_TEST_API_KEY": "sk-hidden"})
    assert config.api_key.get_secret_value() == "sk-hidden"
    assert "sk-hidden" not in repr(config)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":1", "::1:80", ""])
def test_a_malformed_address_is_refused(address):
    with pytest.raises(ConfigError, match=r"--listen \("):
        _load(["--listen", address])


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.8.0.1:1", "localhost:1", "[::1]:1"])
def test_loopback_needs_no_protection(address):
    assert _load(["--listen", address]).listen == address


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    authority = Authority(folder)
    pair = authority.issue("server")
    return {
        "tls": ["--tls-cert-file", str(pair.cert), "--tls-key-file", str(pair.key)],
        "tokens": ["--tokens-file", str(secret_file(folder / "tokens", f"alice:{TOKEN}"))],
        "ca": ["--tls-client-ca-file", str(authority.file)],
    }


@pytest.mark.parametrize("address", ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "example.org:80"])
@pytest.mark.parametrize(
    ("given", "lacking", "word"),
    [
        ((), "no TLS .*--tls-cert-file, --tls-key-file.* and no tokens .*--tokens-file", "plaintext-and-anonymous"),
        (("tokens",), "no TLS", "plaintext"),
        (("tls",), "no tokens", "anonymous"),
        (("tls", "ca"), "no tokens", "anonymous"),
    ],
)
def test_beyond_loopback_what_is_missing_is_named_with_the_word_that_allows_it(address, given, lacking, word, files):
    flags = ["--listen", address, *(flag for name in given for flag in files[name])]
    with pytest.raises(ConfigError, match=f"--listen {re.escape(address)} is beyond loopback and has {lacking}") as caught:
        _load(flags)
    assert str(caught.value).endswith(f"say --insecure-listen {word}")
    assert _load([*flags, "--insecure-listen", word]).listen == address


@pytest.mark.parametrize("word", ["plaintext", "anonymous"])
def test_a_word_allows_only_what_it_says(word):
    with pytest.raises(ConfigError, match="plaintext-and-anonymous"):
        _load(["--listen", "0.0.0.0:1", "--insecure-listen", word])


def test_with_tls_and_tokens_any_address_may_be_bound(files):
    config = _load(["--listen", "0.0.0.0:1", *files["tls"], *files["tokens"], *files["ca"]])
    assert config.insecure_listen == "no"


def test_probes_may_be_answered_anywhere():
    assert _load(["--probe-listen", "0.0.0.0:8080"]).probe_listen == "0.0.0.0:8080"
    with pytest.raises(ConfigError, match="--probe-listen"):
        _load(["--probe-listen", "8080"])


def test_all_problems_of_files_are_listed_at_once(tmp_path):
    authority = Authority(tmp_path)
    expired, other = authority.issue("expired", days=-1), authority.issue("other")
    other.key.chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        _load(
            ["--tls-cert-file", str(expired.cert), "--tls-key-file", str(other.key), "--tls-client-ca-file", str(tmp_path / "nowhere")],
            {"ADAEXPLORE_TEST_TOKENS_FILE": str(secret_file(tmp_path / "tokens", "alice"))},
        )
    for part in (
        "--tls-cert-file (ADAEXPLORE_TEST_TLS_CERT_FILE): Value error, .* expired on",
        "--tls-key-file .*chmod 0640",
        "--tls-client-ca-file .*No such file",
        "--tokens-file .*line 1",
    ):
        assert any(re.search(part.replace("(", r"\(").replace(")", r"\)"), problem) for problem in caught.value.problems)
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (lambda pair, other, ca: ["--tls-cert-file", pair.cert], "--tls-key-file .*is needed beside --tls-cert-file"),
        (lambda pair, other, ca: ["--tls-key-file", pair.key], "--tls-key-file .*needs --tls-cert-file too"),
        (lambda pair, other, ca: ["--tls-client-ca-file", ca], "needs --tls-cert-file and --tls-key-file too"),
        (lambda pair, other, ca: ["--tls-cert-file", pair.cert, "--tls-key-file", other.key], "does not belong to the certificate"),
    ],
)
def test_files_that_do_not_go_together_are_refused(flags, words, tmp_path):
    authority = Authority(tmp_path)
    with pytest.raises(ConfigError, match=words):
        _load([str(flag) for flag in flags(authority.issue("server"), authority.issue("other"), authority.file)])


def test_an_empty_variable_of_a_file_is_a_setting_left_out():
    assert _load(environ={"ADAEXPLORE_TEST_TOKENS_FILE": "", "ADAEXPLORE_TEST_PROBE_LISTEN": ""}).tokens_file is None


def test_a_boolean_is_a_switch_and_a_home_is_expanded():
    config = _load(["--fast", "--state-dir", "~/x"])
    assert config.fast
    assert config.state_dir == Path("~/x").expanduser()
