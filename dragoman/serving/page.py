"""The translator's page, filled, and the files that it loads: of the HTTP server, or of a static site.

Both have the same page. It imports `backend.js`, which asks the server or, on a static site, runs the model.
"""

from __future__ import annotations

from importlib import resources

from dragoman.inspection import page

CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
"""By suffix: the machine's own table, which `mimetypes` reads, may have others, and browsers insist on these."""

_ASSETS = {
    "dragoman.inspection": ["base.css", "dom.js"],
    "dragoman.serving": ["icon.svg", "translator.css", "translator.js"],
}
_SERVER = {"backend.js": "server.js"}
_STATIC = {name: name for name in ("worker.js", "service-worker.js", "manifest.webmanifest")} | {
    "backend.js": "browser.js"
}


def policy(static: bool = False) -> str:
    """The page's content security policy: the server's header, or the one in the head of a static page.

    A static page may also run WebAssembly and workers. Who may frame a page is not for its head to say.
    """
    allowed = "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'" if static else "script-src 'self'"
    rest = (
        "style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'"
    )
    return f"default-src 'none'; {allowed}; {rest}" + ("" if static else "; frame-ancestors 'none'")


def render(title: str, static: bool = False) -> str:
    """The page as HTML, with a title of one line."""
    content = {"title": title, "static": static, "policy": policy(static)}
    return page.render("translator.html", content, "dragoman.serving")


def files(static: bool = False) -> dict[str, bytes]:
    """Content of the files that the page loads from the folder it is in, by their names there."""
    own = {name: name for name in _ASSETS["dragoman.serving"]} | (_STATIC if static else _SERVER)
    return {name: _asset("dragoman.serving", file) for name, file in own.items()} | {
        name: _asset("dragoman.inspection", name) for name in _ASSETS["dragoman.inspection"]
    }


def _asset(package: str, name: str) -> bytes:
    return (resources.files(package) / "assets" / name).read_bytes()
