"""The translator's page, filled, and the files that it loads: of the HTTP server, or of a static site.

Both have the same page. It imports `backend.js`, which asks the server or, on a static site, runs the model.
"""

from importlib import resources

from dragoman.inspection import page

CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
"""By suffix: browsers insist on these, and the table of the machine, which `mimetypes` reads, may differ."""

_SHARED = ("inspection/assets/base.css", "inspection/assets/dom.js")
_OWN = ("icon.svg", "translator.css", "translator.js")
_STATIC = ("worker.js", "service-worker.js", "manifest.webmanifest")


def policy(static: bool = False) -> str:
    """The page's content security policy: the server's header, or the one in the head of a static page.

    A static page may also run WebAssembly and workers, also one from a blob, as only such a one follows the policy of
    the page. The head of a page can't say who may frame it.
    """
    ours = ("style-src", "img-src", "connect-src", "manifest-src", "form-action")
    scripts = "script-src 'self'" + (" 'wasm-unsafe-eval'; worker-src 'self' blob:" if static else "")
    nobody = "base-uri 'none'" + ("" if static else "; frame-ancestors 'none'")
    return "; ".join(["default-src 'none'", scripts, *(f"{kind} 'self'" for kind in ours), nobody])


def render(title: str, static: bool = False) -> str:
    """The page as HTML, with a title of one line."""
    content = {"title": title, "static": static, "policy": policy(static)}
    return page.render("translator.html", content, "dragoman.serving")


def files(static: bool = False) -> dict[str, bytes]:
    """Content of the files that stand beside the page, by name."""
    paths = {path.rpartition("/")[2]: path for path in _SHARED}
    paths |= {name: f"serving/assets/{name}" for name in (_OWN + _STATIC if static else _OWN)}
    paths["backend.js"] = "serving/assets/" + ("browser.js" if static else "server.js")
    return {name: resources.files("dragoman").joinpath(path).read_bytes() for name, path in paths.items()}
