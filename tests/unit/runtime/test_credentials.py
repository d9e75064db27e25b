from datetime import UTC, datetime, timedelta

import pytest
from authorities import Authority, secret_file

from adaexplore.runtime.credentials import CredentialError, Reloading, read_authorities, read_chain, read_key, read_secret, read_token

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority):
    return authority.issue("server")


def test_a_certificate_is_read_with_its_end_and_its_key(pair):
    chain, expires = read_chain(pair.cert, NOW)
    assert timedelta(days=89) < expires - NOW < timedelta(days=91)
    assert read_key(pair.key, chain) == pair.key.read_bytes()


def test_a_certificate_is_refused_after_its_end_and_before_its_beginning(pair):
    with pytest.raises(CredentialError, match=r"expired on .*; renew it"):
        read_chain(pair.cert, NOW + timedelta(days=91))
    with pytest.raises(CredentialError, match="not valid before"):
        read_chain(pair.cert, NOW - timedelta(days=30))


def test_a_key_of_another_certificate_is_refused(authority, pair):
    with pytest.raises(CredentialError, match="does not belong to the certificate"):
        read_key(authority.issue("other").key, pair.cert.read_bytes())


@pytest.mark.parametrize("read", [read_key, read_authorities, lambda path: read_chain(path, NOW)])
def test_a_file_that_is_something_else_is_refused_without_quoting_it(read, tmp_path):
    with pytest.raises(CredentialError, match="in PEM form") as caught:
        read(secret_file(tmp_path / "file", "hunter2"))
    assert "hunter2" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CredentialError, match=r"nowhere.pem: No such file"):
        read_authorities(tmp_path / "nowhere.pem")


@pytest.mark.parametrize(("mode", "remedy"), [(0o644, "0640"), (0o604, "0600"), (0o660, "0640"), (0o777, "0740")])
def test_a_secret_that_others_can_read_or_change_is_refused_with_the_command_that_closes_it(mode, remedy, tmp_path):
    path = secret_file(tmp_path / "key", "x")
    path.chmod(mode)
    with pytest.raises(CredentialError, match=f"mode {mode:04o}.*run: chmod {remedy} {path}"):
        read_secret(path)
    path.chmod(int(remedy, 8))
    assert read_secret(path) == b"x"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_a_secret_may_be_open_to_its_group_as_kubernetes_mounts_it(mode, tmp_path):
    path = secret_file(tmp_path / "key", "x")
    path.chmod(mode)
    assert read_secret(path) == b"x"


@pytest.mark.parametrize("text", ["", "two words", "two\nlines", "näme"])
def test_a_token_file_holds_one_token_and_nothing_else(text, tmp_path):
    assert read_token(secret_file(tmp_path / "token", "abc\n")) == "abc"
    with pytest.raises(CredentialError, match="must hold one token"):
        read_token(secret_file(tmp_path / "token", text))


def test_a_changed_file_is_read_once_and_one_that_cannot_be_used_leaves_the_former(tmp_path):
    path, refused, reads = secret_file(tmp_path / "token", "one"), [], []

    def read():
        reads.append(path)
        return read_token(path)

    file = Reloading([path], read, refused.append)
    assert (file.refresh(), len(reads)) == (False, 1)
    secret_file(path, "two")
    assert (file.refresh(), file.refresh(), file.content, len(reads)) == (True, False, "two", 2)
    secret_file(path, "not a token")
    assert (file.refresh(), file.refresh(), file.content, len(refused)) == (False, False, "two", 1)
    path.unlink()
    assert (file.refresh(), file.content, len(refused)) == (False, "two", 2)
    secret_file(path, "three")
    assert (file.refresh(), file.content) == (True, "three")
