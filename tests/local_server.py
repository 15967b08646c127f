"""A server on this machine for the tests of downloads: it knows ranges, and can be told to fail."""

from __future__ import annotations

import hashlib
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
    ranges: bool = True
    """Whether it knows them."""
    versions: bool = True
    """Whether it says which version of a file it has (ETag)."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and range of each request."""
    address: str = ""

    def etag(self, path: str) -> str:
        return f'"{hashlib.sha256(self.files[path]).hexdigest()[:12]}"'

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append((request.path, wanted))
        if request.path not in self.files:
            request.send_error(404)
            return
        content, status, start = self.files[request.path], 200, 0
        same = request.headers.get("If-Range") in (None, self.etag(request.path))
        if wanted and self.ranges and same:
            start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            if start >= len(content):
                request.send_error(416)
                return
        rest = content[start:]
        request.send_response(status)
        request.send_header("Content-Length", str(len(rest)))
        if status == 206:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.versions:
            request.send_header("ETag", self.etag(request.path))
        request.end_headers()
        request.wfile.write(rest if self.cut_after is None else rest[: self.cut_after])


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
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield server
        http.shutdown()
        thread.join()
