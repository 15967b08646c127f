"""The verb that answers HTTP requests: serve."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.cli.options import ServeConfig
from dragoman.config import DragomanError
from dragoman.inference.translator import Translator
from dragoman.runtime.console import say
from dragoman.runtime.optional_imports import import_optional

_START_FAILED = 3  # exit code of uvicorn's processes


def serve(config: ServeConfig) -> int:
    """Answer requests until SIGINT or SIGTERM; returns the exit code. SIGHUP loads the models again."""
    uvicorn = import_optional("uvicorn", "serve")
    app = partial(application, config)
    app()  # what is wrong is said here, and not by each process; models are converted once
    with ExitStack() as stack:
        if config.processes > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = stack.enter_context(tempfile.TemporaryDirectory())
        listening = stack.enter_context(_listen(config.host, config.port))
        settings = uvicorn.Config(
            app,
            factory=True,
            workers=config.processes,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=config.max_seconds,
            timeout_worker_healthcheck=60,
        )
        supervisor = import_optional("uvicorn.supervisors", "serve").Multiprocess(settings, [listening])
        host, port = listening.getsockname()[:2]
        say(f"translating at http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C stops)")
        supervisor.run()
    return int(any(process.exitcode == _START_FAILED for process in supervisor.processes))


def application(config: ServeConfig) -> Any:
    """The ASGI application that these options describe."""
    serving = import_optional("dragoman.serving.app", "serve")
    directions = import_optional("dragoman.serving.directions", "serve").Directions
    folders = config.folder
    translators = [
        Translator.load(folder, config.device, config.engine, config.precision, config.workers) for folder in folders
    ]
    limits = import_optional("dragoman.serving.limits", "serve")
    keys = limits.Keys.read(Path(config.api_keys)) if config.api_keys else None
    return serving.build(directions(translators, config, config.pivot, config.cache), config, config, keys)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DragomanError(f"{host}:{port}: can't listen there ({reason}); choose another --host or --port") from None
    listening.set_inheritable(True)
    return listening
