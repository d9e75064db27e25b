"""An endpoint of the OpenAI chat dialect, or of Anthropic's Messages API, whose answers a test scripts, fault by fault."""

import json
import socket
import struct
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def chunk(text=None, finish=None, **delta):
    parts = ({"content": text} if text is not None else {}) | delta
    return {"model": "fake-1", "choices": [{"index": 0, "delta": parts, "finish_reason": finish}]}


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


def says(text, finish="stop", usage=USAGE, done=True):
    """Answer with a stream that brings `text` in pieces."""

    def answer(handler):
        handler.begin_stream()
        half = len(text) // 2
        handler.event(chunk("", role="assistant"))
        for piece in (text[:half], text[half:]):
            handler.event(chunk(piece))
        handler.event(chunk(finish=finish))
        if usage:
            handler.event({"model": "fake-1", "choices": [], "usage": usage})
        if done:
            handler.raw(b"data: [DONE]\n\n")

    return answer


def streams(*events, done=True):
    """Answer with these events, given as objects or raw text."""

    def answer(handler):
        handler.begin_stream()
        for event in events:
            handler.raw(event.encode() if isinstance(event, str) else event) if isinstance(event, str | bytes) else handler.event(event)
        if done:
            handler.raw(b"data: [DONE]\n\n")

    return answer


def status(code, body=None, **headers):
    """Answer with an error status."""

    def answer(handler):
        text = body if isinstance(body, str) else json.dumps({} if body is None else body)
        handler.whole(code, text, {name.replace("_", "-"): value for name, value in headers.items()})

    return answer


def whole(body, kind="application/json"):
    """Answer with one body instead of a stream."""
    return lambda handler: handler.whole(200, body if isinstance(body, str) else json.dumps(body), {"content-type": kind})


def resets(text):
    """Begin an answer, then reset the connection."""

    def answer(handler):
        handler.begin_stream()
        handler.event(chunk(text))
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    return answer


def stalls(endpoint, text):
    """Begin an answer, then say nothing until the client goes or the test ends; `endpoint.gone` is set when the client goes."""

    def answer(handler):
        handler.begin_stream()
        handler.event(chunk(text))
        _wait_for_the_client_to_go(endpoint, handler)

    return answer


def _wait_for_the_client_to_go(endpoint, handler):
    endpoint.stalled.set()
    handler.connection.settimeout(60)
    # A client that goes with bytes unread resets the connection instead of closing it.
    with suppress(ConnectionError):
        if handler.connection.recv(1) != b"":
            return
    endpoint.gone.set()


def resets_at_once():
    """Reset the connection without a word."""

    def answer(handler):
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()
        handler.close_connection = True

    return answer


def closes_at_once():
    """Close the connection without a word."""

    def answer(handler):
        handler.close_connection = True

    return answer


class OpenAISpeech:
    """Scripts answers of the OpenAI chat dialect."""

    path = "/v1/chat/completions"
    refused_field = staticmethod(
        status(400, {"error": {"message": "Unsupported value: 'temperature' does not support 0.5 with this model."}})
    )
    too_long = staticmethod(
        status(400, {"error": {"message": "This model's maximum context length is 16 tokens", "code": "context_length_exceeded"}})
    )
    no_credit = staticmethod(status(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}))
    nothing = staticmethod(streams({"choices": []}))
    error_event = staticmethod(streams(chunk("half"), {"error": {"message": "out of memory"}}))
    cut_json = staticmethod(streams(chunk("half"), 'data: {"choices":[{"del', done=False))
    bad_utf8 = staticmethod(streams(chunk("half"), b'data: {"choices": "\xff"}\n\n', done=False))
    unended = staticmethod(streams(chunk("half"), done=False))

    def begin(self, handler):
        """Begin a stream that has brought four characters."""
        handler.begin_stream()
        handler.event(chunk("half"))

    def says(self, text, finish="stop", usage=USAGE):
        """Answer with a text."""
        return says(text, {"stop": "stop", "length": "length"}[finish], usage)

    def drips(self, text, pause_s):
        """Answer with a text, byte by byte."""

        def answer(handler):
            handler.begin_stream()
            for byte in b"data: " + json.dumps(chunk(text)).encode() + b"\n\n":
                handler.raw(bytes([byte]))
                time.sleep(pause_s)
            handler.event(chunk(finish="stop"))
            handler.event({"choices": [], "usage": USAGE})

        return answer

    def refuses(self, text):
        """Answer with a refusal."""
        return streams(chunk(refusal=text), chunk(finish="content_filter"), {"choices": [], "usage": USAGE})

    def wrong_usage(self, text):
        """Answer with a text and a usage that makes no sense."""
        return says(text, usage={"prompt_tokens": "many", "completion_tokens": -3, "total_tokens": None})


# As in `USAGE`; here the tokens that were read from the cache, or written to it, are not part of `input_tokens`.
MESSAGE_USAGE = {"input_tokens": 63, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 7, "output_tokens": 1}


def message_events(*blocks, stop="end_turn", usage=MESSAGE_USAGE, output_tokens=20):
    """Events of a message of blocks, each given as its type and the pieces of its text."""
    yield {"type": "message_start", "message": {"type": "message", "model": "fake-1", "content": [], "usage": usage}}
    yield {"type": "ping"}
    for index, (kind, pieces) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": {"type": kind, kind: ""}}
        for piece in pieces:
            yield {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: piece}}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": output_tokens} if usage else {}}
    yield {"type": "message_stop"}


def message(*blocks, **parts):
    """Answer with a message; see `message_events`."""
    return named(*message_events(*blocks, **parts))


def named(*events):
    """Answer with events that have names, as Anthropic's have."""

    def answer(handler):
        handler.begin_stream()
        for event in events:
            handler.raw(event) if isinstance(event, bytes) else handler.named_event(event)

    return answer


def _fails(code, kind, text):
    return status(code, {"type": "error", "error": {"type": kind, "message": text}})


class AnthropicSpeech:
    """Scripts answers of the Messages API."""

    path = "/v1/messages"
    refused_field = staticmethod(_fails(400, "invalid_request_error", "`temperature` is deprecated for this model."))
    too_long = staticmethod(_fails(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"))
    no_credit = staticmethod(_fails(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."))
    _half = tuple(message_events(("text", ["half"])))[:4]
    nothing = staticmethod(named({"type": "ping"}, {"type": "message_stop"}))
    error_event = staticmethod(named(*_half, {"type": "error", "error": {"type": "api_error", "message": "out of memory"}}))
    cut_json = staticmethod(named(*_half, b'data: {"type": "content_blo'))
    bad_utf8 = staticmethod(named(*_half, b'data: {"type": "\xff"}\n\n'))
    unended = staticmethod(named(*_half))

    def begin(self, handler):
        """Begin a stream that has brought four characters."""
        handler.begin_stream()
        for event in self._half:
            handler.named_event(event)

    def says(self, text, finish="stop", usage=MESSAGE_USAGE):
        """Answer with a text."""
        half = len(text) // 2
        stop = {"stop": "end_turn", "length": "max_tokens"}[finish]
        return message(("text", [text[:half], text[half:]]), stop=stop, usage=usage)

    def drips(self, text, pause_s):
        """Answer with a text, byte by byte."""

        def answer(handler):
            handler.begin_stream()
            for event in message_events(("text", [text])):
                for byte in b"data: " + json.dumps(event).encode() + b"\n\n":
                    handler.raw(bytes([byte]))
                    if event["type"] == "content_block_delta":
                        time.sleep(pause_s)

        return answer

    def refuses(self, text):
        """Answer with a refusal."""
        return message(("text", [text]), stop="refusal")

    def wrong_usage(self, text):
        """Answer with a text and a usage that makes no sense."""
        return message(("text", [text]), usage={"input_tokens": "many"}, output_tokens=-3)


def resets_midway(speech):
    """Begin an answer, then reset the connection."""

    def answer(handler):
        speech.begin(handler)
        resets_at_once()(handler)

    return answer


def falls_silent(endpoint, speech):
    """Begin an answer, then say nothing until the client goes; see `stalls`."""

    def answer(handler):
        speech.begin(handler)
        _wait_for_the_client_to_go(endpoint, handler)

    return answer


class Endpoint:
    """Answers requests in the order of `answers`; keeps what it was asked in `requests`."""

    def __init__(self):
        self.answers = deque()
        self.requests, self.paths = [], []
        self.models = ["fake-1", "fake-2"]
        self.stalled, self.gone = threading.Event(), threading.Event()
        self.connections = set()
        self.at_once = self.most_at_once = 0
        self._counting = threading.Lock()

    @contextmanager
    def counted(self, client):
        """Count a request that is under way, by the client's address."""
        with self._counting:
            self.connections.add(client)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            yield
        finally:
            with self._counting:
                self.at_once -= 1

    def script(self, *answers):
        self.connections.clear()
        self.most_at_once = 0
        self.answers.clear()
        self.requests.clear()
        self.paths.clear()
        self.models = ["fake-1", "fake-2"]
        self.stalled.clear()
        self.gone.clear()
        self.answers.extend(answers)

    @property
    def prompts(self):
        """What was asked by POST."""
        return [body for method, _, body in self.requests if method == "POST"]


class Handler(BaseHTTPRequestHandler):
    """Answers one request from the script of its server's endpoint."""

    protocol_version = "HTTP/1.1"

    @property
    def fake(self):
        return self.server.fake

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.fake.counted(self.client_address):
            self.fake.requests.append(("POST", dict(self.headers.items()), body))
            self.fake.paths.append(self.path)
            answers = self.fake.answers
            answer = answers.popleft() if answers else status(599, {"error": {"message": "the script has ended"}})
            answer(self)

    def do_GET(self):
        self.fake.paths.append(self.path)
        self.fake.requests.append(("GET", dict(self.headers.items()), None))
        if callable(self.fake.models):
            self.fake.models(self)
        else:
            self.whole(200, json.dumps({"data": [{"id": name} for name in self.fake.models]}), {})

    def begin_stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        self.raw(b": a comment that keeps the connection alive\n\n")

    def event(self, value):
        self.raw(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n")

    def named_event(self, value):
        self.raw(b"event: " + value["type"].encode() + b"\n")
        self.event(value)

    def raw(self, data):
        self.wfile.write(data)
        self.wfile.flush()

    def whole(self, code, text, headers):
        self.send_response(code)
        for name, value in ({"content-type": "application/json"} | headers).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.raw(text.encode())

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    """Serves one endpoint on a free port."""

    daemon_threads = True

    def __init__(self, fake):
        super().__init__(("127.0.0.1", 0), Handler)
        self.fake = fake


@contextmanager
def endpoint():
    """Run an endpoint on a free port; its base URL is `url`."""
    fake = Endpoint()
    server = Server(fake)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
