"""The way in: what every request passes, whatever it asks for, and what the server tells about itself."""

import asyncio
import json
import sys
import time
import traceback

from prometheus_client import Counter, Gauge, Histogram
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.limits import Limits

_LINGER = 16  # times the largest body: read and thrown away, so that the client hears why it is refused
_GONE = 499  # in logs: the client left before the answer, as nginx writes it
_REQUESTS = Counter("dragoman_requests", "Requests answered", ["path", "status"])
_SECONDS = Histogram("dragoman_request_seconds", "From a request's arrival to the end of its answer", ["path"])
_IN_FLIGHT = Gauge("dragoman_requests_in_flight", "Requests being answered", multiprocess_mode="livesum")


class Gate:
    """An ASGI application around another: limits size, number and time of POST requests; logs and counts all requests.

    A body is read whole before its request counts, so that slow clients keep nobody out.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            await (self._admit if scope["method"] == "POST" else self._app)(scope, receive, answer)
        except HTTPException as refused:
            await explain(refused)(scope, receive, answer)
        except Exception:
            traceback.print_exc()
            if not status:
                await explain(HTTPException(500, "Internal error: the server's log says more"))(scope, receive, answer)
        _log(scope, status or _GONE, time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body is not too large or slow, unless too many others are being answered."""
        seconds = self._limits.max_seconds
        try:
            body = await asyncio.wait_for(self._read(receive), seconds)
        except asyncio.TimeoutError:
            raise HTTPException(408, f"The request took more than {seconds} seconds", {"Connection": "close"}) from None
        if body is None:
            return
        if self._in_flight >= self._limits.max_requests:
            raise HTTPException(503, "The server is busy: try again in a second", {"Retry-After": "1"})
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return parts.pop() if parts else await receive()

        self._in_flight += 1
        _IN_FLIGHT.inc()
        work, leave = asyncio.ensure_future(self._app(scope, replay, send)), asyncio.ensure_future(receive())
        try:
            await asyncio.wait({work, leave}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            elif not leave.done():
                raise HTTPException(504, f"The translation took more than {seconds} seconds")
        finally:  # what nobody waits for any more is not translated
            work.cancel()
            leave.cancel()
            self._in_flight -= 1
            _IN_FLIGHT.dec()

    async def _read(self, receive: Receive) -> bytes | None:
        """The body of a request; None if the client left."""
        most, size, parts, more = 1024 * self._limits.max_kilobytes, 0, [], True
        while more and size <= _LINGER * most:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size <= most:
                parts.append(part)
        if size > most:
            most_kilobytes = self._limits.max_kilobytes
            raise HTTPException(413, f"The request has more than {most_kilobytes} kB", {"Connection": "close"})
        return b"".join(parts)


def explain(error: HTTPException) -> JSONResponse:
    """The answer to a request that is refused."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _log(scope: Scope, status: int, seconds: float) -> None:
    """Count a request and write a line about it, without its text and its query."""
    path = getattr(scope.get("route"), "path", "other")
    _REQUESTS.labels(path, status).inc()
    _SECONDS.labels(path).observe(seconds)
    client = (scope.get("client") or [""])[0]
    line = {"time": round(time.time(), 3), "client": client, "method": scope["method"], "path": scope["path"]}
    print(json.dumps(line | {"status": status, "ms": round(1000 * seconds, 1)}), file=sys.stderr, flush=True)
