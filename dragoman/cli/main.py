"""The verbs of the command line and their exit codes; a verb's module, with PyTorch, is imported when it runs."""

import importlib
import io
import os
import signal
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dragoman.cli import options
from dragoman.cli.parsing import Verb, first_sentence, parse
from dragoman.config import VERSION, ConfigError, DragomanError, TrainConfig
from dragoman.runtime.allocator import is_out_of_memory
from dragoman.runtime.console import command, nearest, say, silence

_CHOICE = ("n_best", "sampling", "top_k", "top_p", "sampling_seed")  # of other translations than the best one
VERBS = {
    "demo": Verb(options.DemoConfig, "dragoman.cli.demo", ()),
    "download": Verb(options.DownloadConfig, "dragoman.cli.data", ("name",)),
    "split": Verb(options.SplitConfig, "dragoman.cli.data", ("text",)),
    "check": Verb(options.CheckConfig, "dragoman.cli.data", ()),
    "train": Verb(TrainConfig, "dragoman.train", (), ("model.source_vocab_size", "model.target_vocab_size")),
    "translate": Verb(options.TranslateConfig, "dragoman.cli.translate", ("folder", "file")),
    "augment": Verb(options.AugmentConfig, "dragoman.cli.augment"),
    "evaluate": Verb(options.EvaluateConfig, "dragoman.cli.evaluate", hidden=_CHOICE),
    "compare": Verb(options.CompareConfig, "dragoman.cli.evaluate", ()),
    "score": Verb(options.ScoreConfig, "dragoman.cli.translate"),
    "inspect": Verb(
        options.InspectConfig,
        "dragoman.cli.inspect",
        ("folder", "sentence"),
        (*_CHOICE, "batch_tokens", "sentences", "engine", "workers", "ensemble"),
    ),
    "serve": Verb(
        options.ServeConfig,
        "dragoman.cli.serve",
        ("folder",),
        (*_CHOICE, "min_length", "batch_tokens", "sentences", "ensemble", "source", "target"),
    ),
    "figures": Verb(options.FiguresConfig, "dragoman.cli.inspect", ("out",)),
    "reproduce": Verb(options.ReproduceConfig, "dragoman.cli.reproduce", ("recipe",)),
    "average": Verb(options.AverageConfig, "dragoman.cli.convert"),
    "export": Verb(options.ExportConfig, "dragoman.cli.convert", function="export_model"),
    "import": Verb(options.ImportConfig, "dragoman.cli.convert", function="import_model"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code: 0 ok, 1 failure, 2 usage, 130 Ctrl-C.

    Help leaves with SystemExit 0. SIGTERM and a closed terminal leave with SystemExit 143 and 129, except that training
    saves first and returns its code.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):  # text is UTF-8 whatever the terminal's encoding
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        if not arguments or arguments[0] in ("-h", "--help", "--version"):
            print(_overview() if arguments[:1] != ["--version"] else f"dragoman {VERSION}", flush=True)
            return 0 if arguments else 2
        return _run(*arguments)
    except ConfigError as error:
        return _complain(str(error), code=2)
    except DragomanError as error:
        return _complain(str(error), code=1)
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        if str(error.name).startswith("dragoman"):
            raise
        return _complain(f"a library can't be loaded ({error}): install it again, or allow more memory", code=1)
    except BrokenPipeError:
        silence(sys.stdout)  # its reader has gone, as in `| head`
        return 0
    except (OSError, RuntimeError, MemoryError) as error:
        if (message := _explanation(error)) is None:
            raise
        return _complain(message, code=1)


def _run(name: str, *words: str) -> int:
    if name not in VERBS:
        raise ConfigError(f"unknown verb {name!r}{nearest(name, VERBS)}; see {command('--help')}")
    verb = VERBS[name]
    config = parse(name, verb, words, lambda run: str(importlib.import_module(verb.module).choose_preset(run)))
    with _unwinding_on_signals():
        code = call(name, config)
    sys.stdout.flush()
    return code


def call(name: str, config: Any) -> int:
    """Do what a verb does; returns the exit code."""
    verb = VERBS[name]
    return int(getattr(importlib.import_module(verb.module), verb.function or name)(config))


def _explanation(error: Exception) -> str | None:
    """What to tell about a failure of the system; None where it is a fault of Dragoman."""
    if is_out_of_memory(error):
        return "not enough memory; close other programs, raise the limit (ulimit -v), or use smaller batches"
    if isinstance(error, OSError):
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return f"torch.compile can't compile the model; train without --compile ({' '.join(str(error).split()[:30])})"
    return None


@contextmanager
def _unwinding_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that no half-written file or folder stays."""
    numbers = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}  # Windows has no SIGHUP
    caught = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores it
    before = {number: signal.signal(number, lambda number, frame: sys.exit(128 + number)) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(message: str, code: int) -> int:
    """Print an error on one line, control characters (as file names may have them) spelt out; returns the code."""
    message = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    say(f"dragoman: {message}")
    return code


def _overview() -> str:
    about = "Raw parallel text in, a translator out, everything in between open to look at."
    verbs = "\n".join(
        textwrap.fill(first_sentence(verb.config), 79, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13)
        for name, verb in VERBS.items()
    )
    hint = f"{command('VERB', '--help')} lists a verb's options. To start: {command('demo')}"
    return f"usage: dragoman VERB …\n\n{about}\n\n{verbs}\n\n{hint}"
