"""TLS, client certificates and tokens between real servers and real clients."""

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta

import grpc
import pytest
import structlog
from authorities import OTHER_TOKEN, TOKEN, Authority, secret_file
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from integration.runtime.servers import API, Servicer, running_server

from adaexplore.client.memory import AsyncMemoryClient, MemoryClient
from adaexplore.client.security import PLAINTEXT, ChannelSecurity
from adaexplore.memory.v1 import error_reason_pb2, memory_pb2, memory_pb2_grpc
from adaexplore.runtime.errors import NotFoundError, ResourceExhaustedError, UnauthenticatedError, UnavailableError
from adaexplore.runtime.listeners import BindError, ServerCertificates, TlsFiles, bind
from adaexplore.runtime.logging import configure_logging

REQUEST = memory_pb2.GetSkillRequest(name="skills/a")
ALLOWED = (("authorization", f"Bearer {TOKEN}"),)
LIMIT_BYTES = 4 * 1024 * 1024
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


class Files:
    def __init__(self, folder):
        self.ours, self.theirs = Authority(folder, "ours"), Authority(folder, "theirs")
        self.server = self.ours.issue("server")
        self.client = self.ours.issue("client", "alice@example.org")
        self.stranger = self.theirs.issue("stranger", "eve@example.org")
        self.tokens = secret_file(folder / "tokens", f"alice:{TOKEN}")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def log():
    stream = io.StringIO()
    configure_logging("info", "json", "memory", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def _tls(pair, **more):
    return {"tls_cert_file": pair.cert, "tls_key_file": pair.key} | more


async def _answers(address, security):
    """The servicer knows no skill, so that NOT_FOUND is the answer of a call that arrived."""
    async with AsyncMemoryClient(address, security) as client:
        with pytest.raises(NotFoundError):
            await client.get_skill(REQUEST, timeout_s=10)


async def _refused(kind, address, security):
    async with AsyncMemoryClient(address, security) as client:
        with pytest.raises(kind) as caught:
            await client.get_skill(REQUEST, timeout_s=10)
    assert "\n" not in caught.value.message
    return caught.value


async def test_tls_and_a_token_let_both_kinds_of_clients_in_and_the_log_names_the_caller(files, log):
    security = ChannelSecurity(ca_file=files.ours.file, token=TOKEN)
    async with running_server(**_tls(files.server, tokens_file=files.tokens)) as (address, _, _):
        await _answers(address, security)

        def call():
            with MemoryClient(address, security) as client:
                client.get_skill(REQUEST, timeout_s=10)

        with pytest.raises(NotFoundError):
            await asyncio.to_thread(call)
        refused = await _refused(UnauthenticatedError, address, ChannelSecurity(ca_file=files.ours.file))
    lines = log()
    assert refused.reason == "TOKEN_MISSING"
    assert [(line["code"], line.get("caller")) for line in lines if line["event"] == "rpc"] == [
        ("NOT_FOUND", "alice"),
        ("NOT_FOUND", "alice"),
        ("UNAUTHENTICATED", None),
    ]
    assert TOKEN not in json.dumps(lines)


async def test_a_missing_or_wrong_token_is_refused_with_a_reason_of_the_api(files):
    async with running_server(tokens_file=files.tokens) as (address, _, _):
        await _answers(address, ChannelSecurity(token=TOKEN))
        for security, reason in ((PLAINTEXT, "TOKEN_MISSING"), (ChannelSecurity(token=OTHER_TOKEN), "TOKEN_WRONG")):
            error = await _refused(UnauthenticatedError, address, security)
            assert (error.reason, error.domain) == (reason, "memory.adaexplore")
            assert f"ERROR_REASON_{reason}" in error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_name


async def test_health_needs_no_token_and_reflection_does(files):
    requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
    async with running_server(tokens_file=files.tokens) as (address, _, _), grpc.aio.insecure_channel(address) as channel:
        assert (await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())).status == SERVING
        reflect = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [answer async for answer in reflect(iter(requests))]
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert len([answer async for answer in reflect(iter(requests), metadata=ALLOWED)]) == 1


async def test_a_changed_tokens_file_holds_for_the_next_call(tmp_path):
    path = secret_file(tmp_path / "tokens", f"alice:{TOKEN}")
    async with running_server(tokens_file=path) as (address, _, _):
        await _answers(address, ChannelSecurity(token=TOKEN))
        secret_file(path, f"alice:{OTHER_TOKEN}")
        assert (await _refused(UnauthenticatedError, address, ChannelSecurity(token=TOKEN))).reason == "TOKEN_WRONG"
        await _answers(address, ChannelSecurity(token=OTHER_TOKEN))


def _client(files, pair, token=""):
    return ChannelSecurity(ca_file=files.ours.file, cert_file=pair.cert, key_file=pair.key, token=token)


async def _check_refusals(address, expected):
    errors = await asyncio.gather(*(_refused(UnavailableError, address, security) for security, _, _ in expected))
    for error, (_, reason, words) in zip(errors, expected, strict=True):
        assert (error.reason, error.domain) == (reason, "client.adaexplore")
        assert words in error.message


async def test_with_client_certificates_only_those_of_the_authority_are_let_in(files):
    expected = (
        (ChannelSecurity(ca_file=files.ours.file), "CLIENT_CERTIFICATE_REFUSED", "demands a client certificate"),
        (_client(files, files.stranger), "CLIENT_CERTIFICATE_REFUSED", "stranger.pem"),
    )
    async with running_server(**_tls(files.server, tls_client_ca_file=files.ours.file)) as (address, _, _):
        await _answers(address, _client(files, files.client))
        await _check_refusals(address, expected)


async def test_a_client_takes_up_its_renewed_certificate_and_a_broken_one_not(tmp_path, log):
    ours, next_ours = Authority(tmp_path, "ours"), Authority(tmp_path, "next")
    both = tmp_path / "both.pem"
    both.write_text(ours.file.read_text() + next_ours.file.read_text())
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(both.read_text())
    pair, servicer = ours.issue("client"), Servicer()
    security = ChannelSecurity(ca_file=both, cert_file=pair.cert, key_file=pair.key)
    server = running_server(servicer, **_tls(ours.issue("server"), tls_client_ca_file=trusted))
    async with server as (address, _, _), AsyncMemoryClient(address, security) as client:
        call = asyncio.create_task(client.get_skill(memory_pb2.GetSkillRequest(name="held"), timeout_s=30))
        await servicer.held_call_arrived.wait()
        trusted.write_text(next_ours.file.read_text())
        pair.cert.write_text("half written")
        with pytest.raises(NotFoundError):  # the connection that is open stays
            await client.get_skill(REQUEST, timeout_s=10)
        renewed = next_ours.issue("renewed")
        secret_file(pair.key, renewed.key.read_text())
        renewed.cert.replace(pair.cert)
        # The server lets only the new certificate in from here on, so that the answers tell which one was shown.
        for _ in range(2):
            with pytest.raises(NotFoundError):
                await client.get_skill(REQUEST, timeout_s=10)
        servicer.let_go.set()
        await call
        ours_again = ours.issue("again")
        secret_file(pair.key, ours_again.key.read_text())
        ours_again.cert.replace(pair.cert)
        with pytest.raises(UnavailableError) as caught:
            await client.get_skill(REQUEST, timeout_s=10)
    assert caught.value.reason == "CLIENT_CERTIFICATE_REFUSED"
    events = [(line["event"], line["level"]) for line in log() if "certificate of the client" in line["event"]]
    assert events[0] == ("changed certificate of the client not used; the former one stays", "error")
    assert events[-1] == ("certificate of the client renewed", "info")


def _uses(files, address, pair):
    """Call with a client that stays, before and after its certificate is renewed."""
    with MemoryClient(address, _client(files, pair)) as client:
        for authority in (files.ours, files.ours, files.theirs):
            renewed = authority.issue("next")
            secret_file(pair.key, renewed.key.read_text())
            renewed.cert.replace(pair.cert)
            try:
                client.get_skill(REQUEST, timeout_s=10)
            except (NotFoundError, UnavailableError) as error:
                yield type(error)


async def test_a_synchronous_client_takes_up_its_renewed_certificate_too(files):
    pair = files.ours.issue("turning")
    async with running_server(**_tls(files.server, tls_client_ca_file=files.ours.file)) as (address, _, _):
        seen = await asyncio.to_thread(lambda: list(_uses(files, address, pair)))
    assert seen == [NotFoundError, NotFoundError, UnavailableError]


async def test_each_failed_handshake_says_what_to_do(files):
    expected = (
        (PLAINTEXT, "TLS_EXPECTED", "probably speaks TLS"),
        (ChannelSecurity(ca_file=files.theirs.file), "AUTHORITY_UNKNOWN", "theirs.pem; give the file of the authority"),
        (ChannelSecurity(ca_file=files.ours.file, server_name="other.example"), "CERTIFICATE_NAME_WRONG", "server_name"),
    )
    plaintext = ((ChannelSecurity(ca_file=files.ours.file), "TLS_NOT_SPOKEN", "does not speak TLS"),)
    async with running_server(**_tls(files.server)) as (address, _, _), running_server() as (other, _, _):
        await asyncio.gather(_check_refusals(address, expected), _check_refusals(other, plaintext))


async def test_another_name_of_the_server_can_be_expected(files):
    named = files.ours.issue("named", "memory.adaexplore.svc")
    async with running_server(**_tls(named)) as (address, _, _):
        await _answers(address, ChannelSecurity(ca_file=files.ours.file, server_name="memory.adaexplore.svc"))


async def test_a_renewed_certificate_is_taken_up_without_a_restart_and_a_broken_one_is_not(files, tmp_path, log):
    theirs = Authority(tmp_path)
    pair = files.ours.issue("rotating")
    security, other = (ChannelSecurity(ca_file=authority.file) for authority in (files.ours, theirs))
    async with running_server(**_tls(pair)) as (address, _, _):
        await _answers(address, security)
        pair.cert.write_text("half written")
        await _answers(address, security)
        renewed = theirs.issue("renewed", days=7)
        secret_file(pair.key, renewed.key.read_text())
        renewed.cert.replace(pair.cert)
        await _answers(address, other)
        assert (await _refused(UnavailableError, address, security)).reason == "AUTHORITY_UNKNOWN"
    events = [(line["event"], line["level"]) for line in log() if "certificate" in line["event"]]
    assert ("changed certificate not used; the former one stays", "error") in events
    assert events[-2:] == [("certificate renewed", "info"), ("certificate expires soon", "warning")]


async def test_a_certificate_that_expires_while_it_is_served_is_told_to_the_caller(files):
    expired = files.ours.issue("expired", days=-1)
    server = grpc.aio.server()
    before = datetime.now(UTC) - timedelta(days=1.5)
    address = bind(server, "127.0.0.1:0", "", ServerCertificates(TlsFiles(expired.cert, expired.key), lambda: before).credentials())
    await server.start()
    error = await _refused(UnavailableError, address, ChannelSecurity(ca_file=files.ours.file))
    await server.stop(None)
    assert error.reason == "CERTIFICATE_EXPIRED"


async def test_probes_are_answered_in_plaintext_on_their_own_port_and_follow_the_drain(files, log):
    settings = _tls(files.server, tokens_file=files.tokens, tls_client_ca_file=files.ours.file, probe_listen="127.0.0.1:0", drain_s=60)
    servicer = Servicer()
    async with running_server(servicer, **settings) as (address, stop, _):
        probe = next(line["probe_address"] for line in log() if line["event"] == "serving")
        async with grpc.aio.insecure_channel(probe) as channel, AsyncMemoryClient(address, _client(files, files.client, TOKEN)) as client:
            check = health_pb2_grpc.HealthStub(channel).Check
            assert (await check(health_pb2.HealthCheckRequest())).status == SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await memory_pb2_grpc.MemoryServiceStub(channel).GetSkill(REQUEST)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            call = asyncio.create_task(client.get_skill(memory_pb2.GetSkillRequest(name="slow"), timeout_s=30))
            await servicer.slow_call_arrived.wait()
            stop.set()
            while (await check(health_pb2.HealthCheckRequest(service=API))).status != NOT_SERVING:
                assert not call.done()
            call.cancel()


async def test_a_busy_port_of_the_probes_is_said_in_one_line():
    async with running_server() as (address, _, _):
        with pytest.raises(BindError, match="choose another --probe-listen"):
            async with running_server(probe_listen=address):
                pass


async def test_a_message_above_the_limit_is_refused_by_either_side_with_the_limit(files):
    large = memory_pb2.GetSkillRequest(name="x" * 100_000_000)
    async with running_server(tokens_file=files.tokens) as (address, _, _):
        async with AsyncMemoryClient(address, ChannelSecurity(token=TOKEN)) as client:
            with pytest.raises(ResourceExhaustedError, match=r"the request has 100,0.* above the limit of 4,194,304 bytes") as caught:
                await client.get_skill(large, timeout_s=60)
        assert caught.value.reason == "MESSAGE_TOO_LARGE"
        assert caught.value.metadata["limit_bytes"] == str(LIMIT_BYTES)
        async with grpc.aio.insecure_channel(address) as careless:
            with pytest.raises(grpc.aio.AioRpcError) as raw:
                await memory_pb2_grpc.MemoryServiceStub(careless).GetSkill(large, timeout=60, metadata=ALLOWED)
        assert raw.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert str(LIMIT_BYTES) in raw.value.details()
        await _answers(address, ChannelSecurity(token=TOKEN))
