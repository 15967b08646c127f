"""Running the command line, in this process or in one of its own, and a very small run to try it on."""

import io
import random
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.cli.main import main

SUBJECTS = {"the cat": "die Katze", "the dog": "der Hund", "a bird": "ein Vogel", "my friend": "mein Freund"}
VERB_FORMS = {"sees": "sieht", "likes": "mag", "hears": "hört"}
OBJECTS = {"the house": "das Haus", "an apple": "einen Apfel", "the river": "den Fluss", "the sun": "die Sonne"}


@dataclass(frozen=True)
class Result:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def run(*arguments: object, stdin: bytes | None = b"") -> Result:
    """Run the command line in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    except SystemExit as leave:
        code = int(leave.code or 0)
    finally:
        sys.stdin = before
    assert "Traceback" not in err.getvalue()
    return Result(code, out.getvalue(), err.getvalue())


def complaint(code: int, *arguments: object, stdin: bytes | None = b"") -> str:
    """The last line on stderr of a command that fails with this code."""
    result = run(*arguments, stdin=stdin)
    assert (result.code, result.out) == (code, "")
    line = result.err.splitlines()[-1]
    assert line.startswith("dragoman")
    return line


def python(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Run Python in a process of its own."""
    pipe = subprocess.PIPE
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, **({"stdin": pipe, "stdout": pipe, "stderr": pipe} | options))


def write_text(prefix: Path, count: int, seed: int = 1) -> Path:
    """Sentences in PREFIX.en and PREFIX.de."""
    choose = random.Random(seed).choice
    rows = [(choose(list(SUBJECTS)), choose(list(VERB_FORMS)), choose(list(OBJECTS))) for _ in range(count)]
    english = "".join(f"{s} {v} {o} .\n" for s, v, o in rows)
    german = "".join(f"{SUBJECTS[s]} {VERB_FORMS[v]} {OBJECTS[o]} .\n" for s, v, o in rows)
    prefix.with_suffix(".en").write_text(english, encoding="utf-8")
    prefix.with_suffix(".de").write_text(german, encoding="utf-8")
    return prefix


TINY = ["--preset", "tiny", "--model.d_model", "16", "--model.d_ff", "32", "--model.num_heads", "2"]
TINY += ["--model.num_encoder_layers", "1", "--model.num_decoder_layers", "1", "--text.vocab_size", "330"]
TINY += ["--device", "cpu", "--precision", "fp32", "--validation.max_lines", "2", "--optimizer.batch_tokens", "200"]
TINY += ["--model.max_length", "64", "--text.max_length", "60", "--text.placeholders", "0"]

SHORT = ["--device", "cpu", "--beam", "2", "--max_length", "3"]
"""A search of no time."""
INPUT = "the cat sees the sun .\n\nthe dog hears a bird .\n   \nan odd 🐈 line\n".encode()


def train(text: Path, out: Path, *more: object) -> list[str]:
    """The arguments of a very small training run: four steps, two validations."""
    arguments = ["train", "--source", "en", "--target", "de", "--train", text / "train", "--valid", text / "valid"]
    return list(map(str, [*arguments, "--out", out, *TINY, "--max_steps", 4, "--validation.every", 2, *more]))
