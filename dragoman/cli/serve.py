"""The verb that answers HTTP requests: serve."""

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.cli.options import ServeConfig
from dragoman.inference.translator import Translator
from dragoman.runtime.optional_imports import import_optional


def serve(config: ServeConfig) -> int:
    """Answer requests until SIGINT or SIGTERM; returns the exit code. SIGHUP loads the models again."""
    processes = import_optional("dragoman.serving.processes", "serve")
    build_application(config)  # so that what is wrong is said once, and models are converted once
    with tempfile.TemporaryDirectory() as metrics:
        if config.processes > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics
        application = partial(build_application, config)
        started = processes.run(application, config.host, config.port, config.processes, config.max_seconds)
    return int(not started)


def build_application(config: ServeConfig) -> Any:
    """The ASGI application that these options describe."""
    app = import_optional("dragoman.serving.app", "serve")
    translators = [
        Translator.load(folder, config.device, config.engine, config.precision, config.workers)
        for folder in config.folder
    ]
    directions = app.Directions(translators, config, config.pivot, config.cache)
    keys = app.Keys.read(Path(config.api_keys)) if config.api_keys else None
    return app.build(directions, config, config, keys)
