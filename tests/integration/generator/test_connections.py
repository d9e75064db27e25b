"""Connections to an endpoint: used again where that is safe, closed where a call is left, HTTP/2 where TLS offers it."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.events
import pytest
import trustme
from adaexplore_generator.providers import connections
from adaexplore_generator.providers.limits import Limits
from contract.generator.chat_endpoints import PROMPT, SAMPLING, subject
from integration.generator.fake_endpoint import USAGE, closes_at_once, endpoint, falls_silent, says, whole

from adaexplore.runtime.errors import AbortedError

WHOLE = {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}], "usage": USAGE}


@pytest.fixture(scope="module")
def fake():
    with endpoint() as running:
        yield running


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a slow host a second may pass between two calls in a row."""
    monkeypatch.setattr(connections, "_REUSED_WITHIN_S", 60.0)


@asynccontextmanager
async def asking(fake, **settings):
    endpoint = subject("openai", fake).endpoint(model="m", **settings)
    try:
        yield lambda: endpoint.complete(PROMPT, SAMPLING, lambda _: None)
    finally:
        await endpoint.close()


async def test_calls_in_a_row_share_a_connection_and_calls_at_once_do_not(fake):
    fake.script(*[whole(WHOLE)] * 6)
    async with asking(fake) as ask:
        for _ in range(3):
            await ask()
        assert len(fake.connections) == 1
        await asyncio.gather(*(ask() for _ in range(3)))
        assert len(fake.connections) == 3


async def test_a_connection_that_the_other_side_closed_is_not_used_again(fake):
    fake.script(says("fine"), says("fine"))  # each closes its connection at the end
    async with asking(fake) as ask:
        assert [(await ask()).text for _ in range(2)] == ["fine", "fine"]
    assert len(fake.connections) == 2


async def test_a_call_that_met_a_closing_connection_is_not_made_twice(fake):
    fake.script(whole(WHOLE), closes_at_once(), whole(WHOLE))
    async with asking(fake) as ask:
        await ask()
        with pytest.raises(AbortedError, match="broke off"):
            await ask()
        assert len(fake.prompts) == 2
        assert (await ask()).text == "fine"


async def test_one_call_that_is_left_costs_no_other_its_connection(fake):
    speech = subject("openai", fake).speech
    fake.script(falls_silent(fake, speech), speech.drips("fine" * 20, 0.005))
    async with asking(fake) as ask:
        leaving = asyncio.create_task(ask())
        assert await asyncio.to_thread(fake.stalled.wait, 20)
        staying = asyncio.create_task(ask())
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).text == "fine" * 20
    assert await asyncio.to_thread(fake.gone.wait, 20)


class Http2Server:
    """Answers requests over HTTP/2; `hang` lets it begin an answer and stop."""

    def __init__(self):
        self.connections = self.requests = 0
        self.hang, self.left = False, asyncio.Event()

    async def serve(self, reader, writer):
        self.connections += 1
        talk = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        talk.initiate_connection()
        writer.write(talk.data_to_send())
        try:
            while data := await reader.read(65536):
                for event in talk.receive_data(data):
                    if isinstance(event, h2.events.StreamEnded):
                        self._answer(talk, event.stream_id)
                writer.write(talk.data_to_send())
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.left.set()
            writer.close()

    def _answer(self, talk, stream):
        self.requests += 1
        choice = {"delta": {"content": "fine"}, "finish_reason": None if self.hang else "stop"}
        chunks = [{"choices": [choice]}, {"choices": [], "usage": USAGE}]
        talk.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
        for chunk in chunks:
            talk.send_data(stream, b"data: " + json.dumps(chunk).encode() + b"\n\n")
        if not self.hang:
            talk.end_stream(stream)


@asynccontextmanager
async def http2_server(monkeypatch, tmp_path):
    authority, server = trustme.CA(), Http2Server()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2"])
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.url = f"https://localhost:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()


async def test_http2_is_spoken_where_tls_offers_it_and_its_connection_used_again(monkeypatch, tmp_path):
    async with http2_server(monkeypatch, tmp_path) as server, asking(server) as ask:
        replies = [await ask() for _ in range(3)]
    assert {(reply.text, reply.usage.input_tokens) for reply in replies} == {("fine", 100)}
    assert (server.requests, server.connections) == (3, 1)


async def test_a_call_over_http2_that_is_left_tells_the_other_side_at_once(monkeypatch, tmp_path):
    async with http2_server(monkeypatch, tmp_path) as server:
        server.hang = True
        endpoint, heard = subject("openai", server).endpoint(model="m", limits=Limits()), asyncio.Event()
        call = asyncio.create_task(endpoint.complete(PROMPT, SAMPLING, lambda _: heard.set()))
        await asyncio.wait_for(heard.wait(), 20)
        call.cancel()
        await asyncio.wait_for(server.left.wait(), 20)
        await endpoint.close()
