"""The processes behind a port, by uvicorn: crashed ones are replaced, and on SIGHUP all are, one by one."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from uvicorn import Config
from uvicorn.supervisors import Multiprocess

from dragoman.config import DragomanError
from dragoman.runtime.console import say
from dragoman.serving.gate import DRAINING_SECONDS

_START_FAILED = 3  # exit code of uvicorn's processes


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
        application,
        factory=True,
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


class _Supervisor(Multiprocess):
    def join_all(self) -> None:
        """Wait for the processes, and tell those who still come that the server is stopping.

        Clients that the system has let in would otherwise get no answer when the last process closes the port.
        """
        (listening,) = self.sockets
        time.sleep(DRAINING_SECONDS)
        listening.settimeout(0.1)
        with ThreadPoolExecutor(16) as pool:
            while any(process.exitcode is None for process in self.processes):
                with suppress(TimeoutError, OSError):
                    pool.submit(_turn_away, listening.accept()[0])
            listening.setblocking(False)
            with suppress(OSError):  # nobody waits any more
                while True:
                    pool.submit(_turn_away, listening.accept()[0])
            listening.close()


def _turn_away(connection: socket.socket) -> None:
    body = b'{"error": "The server is stopping: try again in a second"}'
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\nContent-Type: application/json"
    with connection, suppress(OSError):
        connection.settimeout(1)
        connection.sendall(head.encode() + b"\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + body)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):  # a request left unread would reset the connection before the answer is read
            pass


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        cure = "choose another --host or --port"
        raise DragomanError(f"{host}:{port}: can't listen there ({error.strerror or error}); {cure}") from None
    listening.set_inheritable(True)
    return listening
