import pytest
from authorities import TOKEN, Authority, secret_file

from adaexplore.client.memory import MemoryClient
from adaexplore.client.security import ChannelSecurity, security_from
from adaexplore.runtime.credentials import CredentialError


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def test_variables_describe_the_security_and_the_token_does_not_show(tmp_path):
    found = security_from(
        {"ADAEXPLORE_CA_FILE": "/ca.pem", "ADAEXPLORE_TOKEN": TOKEN, "ADAEXPLORE_KEY_FILE": "", "ADAEXPLORE_INSECURE_CALL": "plaintext"}
    )
    assert (str(found.ca_file), found.key_file, found.token, found.insecure_call) == ("/ca.pem", None, TOKEN, "plaintext")
    assert TOKEN not in repr(found)
    with pytest.raises(CredentialError, match="ADAEXPLORE_INSECURE_CALL"):
        security_from({"ADAEXPLORE_INSECURE_CALL": "yes"})


@pytest.mark.parametrize("address", ["memory.example:7001", "10.0.0.1:7001", "dns:///memory:1"])
def test_a_token_stays_on_the_machine_unless_tls_is_spoken_or_words_allow_it(address, authority):
    with pytest.raises(CredentialError, match=f"not sent to {address} in plaintext") as caught:
        MemoryClient(address, ChannelSecurity(token=TOKEN))
    assert TOKEN not in str(caught.value)
    for allowed in (ChannelSecurity(token=TOKEN, ca_file=authority.file), ChannelSecurity(token=TOKEN, insecure_call="plaintext")):
        assert allowed.bearer(address).metadata() == (("authorization", f"Bearer {TOKEN}"),)


@pytest.mark.parametrize("address", ["127.0.0.1:7001", "localhost:7001", "[::1]:7001"])
def test_on_loopback_a_token_needs_no_tls(address):
    assert ChannelSecurity(token=TOKEN).bearer(address).metadata()


def test_a_token_file_is_read_again_when_it_changes(tmp_path):
    path = secret_file(tmp_path / "token", "one")
    bearer = ChannelSecurity(token_file=path).bearer("localhost:1")
    secret_file(path, "two")
    assert bearer.metadata() == (("authorization", "Bearer two"),)


def test_settings_that_do_not_go_together_are_refused(authority, tmp_path):
    pair, expired = authority.issue("client"), authority.issue("expired", days=-1)
    for wrong, words in (
        (ChannelSecurity(ca_file=authority.file, cert_file=pair.cert), "need each other"),
        (ChannelSecurity(cert_file=pair.cert, key_file=pair.key), "set ca_file too"),
        (ChannelSecurity(server_name="memory"), "set ca_file too"),
        (ChannelSecurity(ca_file=tmp_path / "nowhere"), "No such file"),
        (ChannelSecurity(ca_file=authority.file, cert_file=expired.cert, key_file=expired.key), "expired on"),
        (ChannelSecurity(token="two words"), "printable ASCII"),
    ):
        with pytest.raises(CredentialError, match=words):
            MemoryClient("127.0.0.1:1", wrong)
