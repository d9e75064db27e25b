"""Server interceptor: tokens, one canonical log line per RPC, typed errors to rich statuses, deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
import structlog
from grpc_status import rpc_status

from adaexplore.runtime.deadlines import remaining_s
from adaexplore.runtime.errors import DeadlineError, InternalError, ServiceError, UnauthenticatedError
from adaexplore.runtime.tokens import Callers

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
# Probes have no token, and learn nothing but whether the service is ready.
_ANONYMOUS = "/grpc.health.v1.Health/"
_QUIET = "/grpc.reflection."


class RpcInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every handler of a server.

    Args:
        domain: Domain of the errors' `ErrorInfo`, for example `evaluator.adaexplore`.
        max_deadline_s: Longest time a unary call may take, in seconds; streams have no limit but their own deadline.
        callers: Who may call; anybody if absent. Health checks need no token.

    """

    def __init__(self, domain: str, max_deadline_s: float, callers: Callers | None = None) -> None:
        self._domain = domain
        self._max_deadline_s = max_deadline_s
        self._callers = callers
        self._log = structlog.get_logger()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return the handler with its behaviour wrapped, or one that refuses a caller without a token; health passes through."""
        method = handler_call_details.method
        if method.startswith(_ANONYMOUS):
            return await continuation(handler_call_details)
        begin = partial(_Line, self._log, method)
        if self._callers:
            try:
                begin = partial(begin, caller=self._callers.name_of(handler_call_details.invocation_metadata))
            except UnauthenticatedError as error:
                # A handler of streams serves methods of every kind, and does not wait for the request.
                return grpc.stream_stream_rpc_method_handler(self._stream(_refusing(error), begin))
        handler = await continuation(handler_call_details)
        return handler if handler is None or method.startswith(_QUIET) else self._wrapped(handler, begin)

    def _wrapped(self, handler: Handler, begin: Callable[[], _Line]) -> Handler:
        forms = handler.request_deserializer, handler.response_serializer
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(handler.unary_unary, begin), *forms)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(handler.unary_stream, begin), *forms)
        return handler

    def _unary(self, behaviour: Any, begin: Callable[[], _Line]) -> Callable[[Any, Context], Awaitable[Any]]:
        async def call(request: Any, context: Context) -> Any:
            line = begin()
            try:
                async with asyncio.timeout(remaining_s(context, self._max_deadline_s)):
                    response = await behaviour(request, context)
            except BaseException as error:
                await self._fail(error, context, line)
            line.write("OK")
            return response

        return call

    def _stream(self, behaviour: Any, begin: Callable[[], _Line]) -> Callable[[Any, Context], AsyncIterator[Any]]:
        async def call(request: Any, context: Context) -> AsyncIterator[Any]:
            line = begin()
            messages = 0
            try:
                async for response in behaviour(request, context):
                    messages += 1
                    yield response
            except BaseException as error:
                await self._fail(error, context, line)
            line.write("OK", messages=messages)

        return call

    async def _fail(self, error: BaseException, context: Context, line: _Line) -> NoReturn:
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            line.write("CANCELLED")
            raise error
        if isinstance(error, grpc.aio.AbortError):
            line.write("ABORTED_BY_HANDLER")
            raise error
        if isinstance(error, TimeoutError):
            error = DeadlineError("the deadline passed before the answer was ready; ask again with a longer one")
        if not isinstance(error, ServiceError):
            line.defect(error)
            error = InternalError("a defect of the service; its log has the details")
        line.write(error.code.name, reason=error.reason, message=error.message)
        await context.abort_with_status(rpc_status.to_status(error.to_status(self._domain)))
        raise AssertionError("abort_with_status always raises")


def _refusing(error: ServiceError) -> Callable[[Any, Context], AsyncIterator[Any]]:
    async def refuse(_request: Any, _context: Context) -> AsyncIterator[Any]:
        raise error
        yield

    return refuse


class _Line:
    """The canonical line of one call."""

    def __init__(self, log: Any, method: str, **facts: object) -> None:
        self._log, self._method, self._facts, self._start_s = log, method, facts, time.monotonic()

    def write(self, code: str, **facts: object) -> None:
        elapsed_ms = round((time.monotonic() - self._start_s) * 1e3, 3)
        self._log.info("rpc", method=self._method, code=code, elapsed_ms=elapsed_ms, **self._facts, **facts)

    def defect(self, error: BaseException) -> None:
        self._log.error("defect", method=self._method, **self._facts, exc_info=error)
