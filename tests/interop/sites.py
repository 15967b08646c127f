"""Static sites in a browser: to write, to serve and to visit them, and to call their back end."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dragoman.checkpoint import ModelFolder
from dragoman.interop import web
from dragoman.interop.reading import with_rules
from tests.browser import until


def build(loaded: ModelFolder, folder: Path, assets: str, quantization: str) -> Path:
    """Write a site without its proof."""
    folder.mkdir()
    loaded = replace(loaded, vocabulary=with_rules(loaded.vocabulary, folder))
    web.write_model(loaded, folder / web.MODEL, quantization)
    web.write_site(loaded, folder, assets, quantization)
    return folder


@dataclass
class Site:
    """A folder at an address, and the paths that were asked for."""

    folder: Path
    address: str = ""
    asked: list[str] = field(default_factory=list)


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    """Serve a folder as `python -m http.server` does."""
    site = Site(folder)

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            super().do_GET()

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as http:
        site.address = f"http://127.0.0.1:{http.server_address[1]}/"
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield site
        finally:
            http.shutdown()


def visit(browser: Any, address: str) -> str:
    """Open a site, wait until it has started, and return its message if it could not."""
    browser.get(address)
    script = "return [document.getElementById('loading').hidden, document.getElementById('message').textContent]"
    until(lambda: browser.execute_script(script)[0], "the site does not start", 60.0)
    return browser.execute_script(script)[1]  # type: ignore[no-any-return]


def call(browser: Any, code: str, *arguments: Any) -> Any:
    """What an expression of the back end, as `backend`, and arguments, as `given`, resolves to."""
    return browser.execute_async_script(
        "const done = arguments[arguments.length - 1], given = [...arguments].slice(0, -1);"
        f"import('./backend.js').then((backend) => {code}).then(done, (error) => done(String(error)));",
        *arguments,
    )


def translations(browser: Any, texts: list[str], sentences: str = "keep") -> list[Any]:
    code = "Promise.all(given[0].map((text) => backend.translate({ text, sentences: given[1] })))"
    return call(browser, code, texts, sentences)  # type: ignore[no-any-return]
