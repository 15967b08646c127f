"""Short runs of training, in this process or in others, and what they leave."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from dragoman.checkpoint import ModelFolder, read_weights

SHAPE = ["--model.d-model", "16", "--model.d-ff", "32", "--model.num-heads", "2"]
SHAPE += ["--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1", "--text.vocab-size", "320"]
SHAPE += ["--text.placeholders", "0"]
NO_SHAPE: list[str] = []  # but that of a parent
QUICK = ["--source", "en", "--target", "xx", "--preset", "base", "--device", "cpu", "--precision", "fp32"]
QUICK += ["--log-every", "1"]
QUICK += ["--optimizer.batch-tokens", "200", "--optimizer.warmup-steps", "20", "--validation.every", "10"]
QUICK += ["--validation.max-lines", "8", "--validation.patience", "0"]


def arguments(text: Path, out: Path, *more: object, shape: Sequence[str] = SHAPE) -> list[str]:
    given = ["train", *QUICK, *shape, "--train", text / "train", "--valid", text / "valid", "--out", out, *more]
    return list(map(str, given))


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    said: str


def complaint(ended: Ended, code: int = 1) -> str:
    """The one sentence with which a command failed."""
    assert ended.code == code, ended.said
    line = ended.said.rstrip("\n").split("\n")[-1]
    assert line.startswith("dragoman")
    return line


def start(*given: Any, processes: int = 1, **settings: Any) -> subprocess.Popen[str]:
    """Train in processes of its own."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.Popen(
        [sys.executable, *(launcher if processes > 1 else []), "-m", "dragoman", *arguments(*given, **settings)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for the end of a command; what it said."""
    try:
        said = process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        raise
    assert process.returncode == code, said
    return said


def settings_of(out: Path) -> dict[str, Any]:
    return yaml.safe_load((out / "train.yaml").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def facts_of(out: Path) -> dict[str, Any]:
    return ModelFolder.load(out).direction.facts


def kept(out: Path) -> dict[str, torch.Tensor]:
    return read_weights(out / "model.safetensors")
