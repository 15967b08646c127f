"""The command line: which verbs there are, and how they end.

A verb's code, and PyTorch with it, is imported when the verb runs, so that `--help` answers at once.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import select
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dragoman.cli import options
from dragoman.cli.parsing import TRAIN, Verb, first_sentence, in_utf8, nearest, on_one_line, parse
from dragoman.config import ConfigError, DragomanError
from dragoman.runtime.console import say, silence

VERBS = {
    "demo": Verb(options.DemoConfig, "dragoman.cli.demo", ()),
    "download": Verb(options.DownloadConfig, "dragoman.cli.data", ("name",)),
    "split": Verb(options.SplitConfig, "dragoman.cli.data", ("text",)),
    "check": Verb(options.CheckConfig, "dragoman.cli.inspect", ()),
    "train": TRAIN,
    "translate": Verb(options.TranslateConfig, "dragoman.cli.translate", ("folder", "file")),
    "evaluate": Verb(options.EvaluateConfig, "dragoman.cli.translate", hidden=("n_best",)),
    "compare": Verb(options.CompareConfig, "dragoman.cli.evaluate", ()),
    "score": Verb(options.ScoreConfig, "dragoman.cli.translate"),
    "inspect": Verb(
        options.InspectConfig, "dragoman.cli.inspect", ("folder", "sentence"), ("n_best", "batch_tokens", "long")
    ),
    "figures": Verb(options.FiguresConfig, "dragoman.cli.inspect", ("out",)),
    "reproduce": Verb(options.ReproduceConfig, "dragoman.cli.reproduce", ("recipe",)),
    "average": Verb(options.AverageConfig, "dragoman.cli.translate"),
    "export": Verb(options.ExportConfig, "dragoman.cli.convert", function="export_model"),
    "import": Verb(options.ImportConfig, "dragoman.cli.convert", function="import_model"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code: 0 ok, 1 failure, 2 usage, 130 Ctrl-C.

    Raises:
        SystemExit: 143, where SIGTERM ended the verb, or 129, where the terminal was closed; a run of training saves
            first, and its code is returned.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):  # text is UTF-8 whatever the terminal believes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        if not arguments or arguments[0] in ("-h", "--help", "--version"):
            print(_overview() if arguments[:1] != ["--version"] else f"dragoman {_version()}", flush=True)
            return 0 if arguments else 2
        name = arguments[0]
        if name not in VERBS:
            return _complain(f"there is no verb {name!r}{nearest(name, VERBS)}; see dragoman --help", code=2)
        config = parse(name, VERBS[name], [in_utf8(argument) for argument in arguments[1:]])
        verb = getattr(importlib.import_module(VERBS[name].module), VERBS[name].function or name)
        with _tidy_at_the_end():
            code = int(verb(config))
        sys.stdout.flush()
        return code
    except ConfigError as error:
        return _complain(str(error), code=2)
    except DragomanError as error:
        return _complain(str(error), code=1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _unread()
    except ModuleNotFoundError as error:
        if str(error.name).startswith("dragoman"):
            raise
        return _complain(f"the library {error.name} is not installed; install Dragoman again, with pip", code=1)
    except (RuntimeError, MemoryError) as error:
        if not importlib.import_module("dragoman.runtime.allocator").is_out_of_memory(error):
            raise
        return _complain("too little memory; close other programs, or take smaller batches or a smaller model", code=1)
    except OSError as error:
        unnamed = "standard output" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "the system"
        return _complain(f"{error.filename or unnamed}: {error.strerror or error}", code=1)


@contextmanager
def _tidy_at_the_end() -> Iterator[None]:
    """Within this, SIGTERM and a hang-up leave every block that is open: no half-written file or folder stays."""
    if threading.current_thread() is not threading.main_thread():  # where Python can't catch signals
        yield
        return
    numbers = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}  # Windows has no hang-up
    listened = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores it
    before = {number: signal.signal(number, lambda number, frame: sys.exit(128 + number)) for number in listened}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(message: str, code: int) -> int:
    say(f"dragoman: {on_one_line(message)}")
    return code


def _unread() -> int:
    """The exit code where a reader had enough: 0 if it was that of results, as in `| head`; 1 if it was of stderr."""
    gone = [stream for stream in (sys.stdout, sys.stderr) if _is_unread(stream.fileno())]
    for stream in gone:
        silence(stream)
    return int(sys.stderr in gone)


def _is_unread(descriptor: int) -> bool:
    """Whether a stream is a pipe that nobody reads any more."""
    if sys.platform != "win32" and hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def _version() -> str:
    return str(importlib.import_module("dragoman").__version__)


def _overview() -> str:
    lines = [
        textwrap.fill(first_sentence(verb.config), 79, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13)
        for name, verb in VERBS.items()
    ]
    return (
        "usage: dragoman VERB …\n\nRaw parallel text in, a translator out, everything in between open to look at.\n\n"
        + "\n".join(lines)
        + "\n\ndragoman VERB --help tells more.\n"
    )
