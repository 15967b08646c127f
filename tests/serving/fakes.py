"""Translators that answer at once or when a test lets them, and the server in this process."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import uvicorn

from dragoman.config import DragomanError, SearchConfig
from dragoman.folder import Direction
from dragoman.inference.alignment import Alignment
from dragoman.inference.results import Translation
from dragoman.serving.app import build
from dragoman.serving.directions import Directions
from dragoman.serving.limits import Keys, Limits


@dataclass
class Upside:
    """Translates by writing the words in capitals and backwards; alternatives have exclamation marks."""

    source: str = "en"
    target: str = "de"
    concurrency: int = 1
    has_symbols: bool = True
    hold: threading.Event | None = None
    """What each call waits for."""
    calls: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.direction = Direction(self.source, self.target)
        self.vocabulary = SimpleNamespace(has_symbols=self.has_symbols)

    def toward(self, source: str, target: str) -> "Upside":
        return self

    def translate(self, lines: Sequence[str], config: SearchConfig) -> list[Translation]:
        self.calls.append(list(lines))
        if self.hold:
            self.hold.wait(10)
        if "bad" in lines:
            raise DragomanError("bad has too many subwords")
        return [self._translation(line, config.n_best) for line in lines]

    def _translation(self, line: str, count: int) -> Translation:
        text = " ".join(line.upper().split()[::-1])
        others = [Translation(text + "!" * n, -1.0 - n, -1.0 - n) for n in range(1, count)]
        return Translation(text, -1.0, -1.0, alternatives=others if line else [])

    @property
    def torch_engine(self) -> None:
        raise DragomanError("an exported model shows no attention")

    def align(self, lines: Sequence[str], translations: Sequence[Translation]) -> list[Alignment]:
        words = [(line.split(), one.text.split()) for line, one in zip(lines, translations, strict=True)]
        return [Alignment([(len(s) - 1 - i, i) for i in range(len(s))], s, t) for s, t in words]


@dataclass
class Answer:
    """A server's answer."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running server."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, content: Any = None, kind: str = "application/json", **headers: str) -> Answer:
        """GET, or POST JSON or bytes of the kind."""
        data = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": kind, **headers})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())


@contextmanager
def serving(
    *translators: Any, keys: Keys | None = None, pivot: bool = False, cache: int = 0, **limits: Any
) -> Iterator[Server]:
    """Answer requests in a thread for as long as the block lasts."""
    directions = Directions(translators, SearchConfig(), pivot, cache)
    app = build(directions, SearchConfig(), Limits(**limits), keys)
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Server(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(10)
