"""A server on this machine for the tests of downloads, which can be told to fail."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class LocalServer:
    """What it serves, how it fails, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Content by path, such as "/raw/train.en.gz"."""
    cut_after: int | None = None
    """Bytes of one answer after which connections break."""
    asked: list[str] = field(default_factory=list)
    """Path of each request."""
    address: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Send a file."""
        self.asked.append(request.path)
        if request.path not in self.files:
            request.send_error(404)
            return
        content = self.files[request.path]
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[: self.cut_after])


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[LocalServer]:
    """Serve these files for as long as the block lasts."""
    server = LocalServer(dict(files))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        http.shutdown()
        thread.join()
