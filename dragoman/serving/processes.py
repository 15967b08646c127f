"""The processes behind a port, by uvicorn: crashed ones are replaced, and on SIGHUP all are, one by one."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from dragoman.config import DragomanError
from dragoman.runtime.console import say
from dragoman.runtime.processes import end_with_parent

_START_FAILED = 3  # exit code of uvicorn's processes
_FAREWELL_SECONDS = 1.0  # in which a request may still come over an open connection when the server stops


def run(application: Callable[[], Any], host: str, port: int, processes: int, seconds: int) -> bool:
    """Answer requests until SIGINT or SIGTERM, then those that have come; whether all processes could start.

    Args:
        application: makes the ASGI application of a process; can be pickled.
        host: the address to listen on.
        port: the port; 0 takes a free one.
        processes: how many.
        seconds: time that requests have in the end.

    Raises:
        DragomanError: the port is taken, or the address is none of this machine's.
    """
    config = Config(
        partial(_start, application),
        factory=True,
        http=_Connection,
        ws="none",
        workers=processes,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than clients leave a connection idle and use it again
        timeout_graceful_shutdown=seconds,
        timeout_worker_healthcheck=60,
    )
    with _listen(host, port) as listening:
        supervisor = _Supervisor(config, [listening])
        port = listening.getsockname()[1]
        say(f"translating at http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C stops)")
        supervisor.run()
    return all(process.exitcode != _START_FAILED for process in supervisor.processes)


def _start(application: Callable[[], Any]) -> Any:
    """The application, in a process that ends when its supervisor is killed, so that the port is free."""
    end_with_parent()
    built = application()
    gc.freeze()  # what stays for good is not looked through again for every few hundred requests
    return built


class _Connection(HttpToolsProtocol):
    """A connection that is not closed just as its client asks, when the server stops: either its next answer closes it,
    or it is closed when no request has come for a second.
    """

    _stopping = False  # for all connections of a process

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._stopping:
            self.shutdown()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.cycle.keep_alive &= not self._stopping

    def shutdown(self) -> None:
        _Connection._stopping = True
        if self.cycle and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        self.loop.call_later(_FAREWELL_SECONDS, super().shutdown)


class _Supervisor(Multiprocess):
    def init_processes(self) -> None:
        """Start the processes, which leave Ctrl-C to this one: it would interrupt their imports."""
        if sys.platform == "win32":
            return super().init_processes()
        resource_tracker.ensure_running()  # which would let Ctrl-C through again
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # they inherit it
        super().init_processes()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def join_all(self) -> None:
        """Wait for the processes, and refuse new connections meanwhile."""
        for listening in self.sockets:
            listening.close()
        super().join_all()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        cure = "choose another --host or --port"
        raise DragomanError(f"{host}:{port}: can't listen there ({error.strerror or error}); {cure}") from None
