"""A small trained model, and a run that stands in its middle: what the fuzz and fault tests damage."""

import functools
import shutil
import tempfile
from pathlib import Path

import torch

from dragoman.text.corpus import Pair
from tests.fuzz.running import command, fresh_folder

# fmt: off
TINY = [
    "--device", "cpu", "--precision", "fp32", "--text.vocab-size", "300", "--text.max-length", "40",
    "--text.placeholders", "0",
    "--model.d-model", "16", "--model.d-ff", "16", "--model.num-heads", "2", "--model.num-encoder-layers", "1",
    "--model.num-decoder-layers", "1", "--model.max-length", "64", "--optimizer.batch-tokens", "200",
    "--validation.max-lines", "4",
]
# fmt: on
MODEL_FILES = ["config.json", "model.safetensors", "sentencepiece.model", "README.md"]


def sentences(count: int) -> list[Pair]:
    """Pairs that have nothing wrong with them."""
    words = ["house", "tree", "river", "cat", "dog", "bird", "apple", "bread", "water", "stone"]
    return [
        (
            f"The {words[i % 10]} and the {words[(i // 3) % 10]} were there {i} times.",
            f"Das {words[(i + 1) % 10]} und das {words[(i // 3 + 1) % 10]} waren {i} Mal da.",
        )
        for i in range(count)
    ]


@functools.cache
def model_folder() -> Path:
    """A small trained model, made once."""
    return run_folder() / "run"


@functools.cache
def run_folder() -> Path:
    """A run that stands at its second step of four, its text, and under "done" what becomes of it."""
    with fresh_folder() as scratch:
        folder = Path(tempfile.mkdtemp(prefix="dragoman-fuzz-run-", dir=scratch.parent))
    for language, side in (("en", 0), ("de", 1)):
        lines = "".join(pair[side] + "\n" for pair in sentences(40))
        (folder / f"train.{language}").write_text(lines)
        (folder / f"valid.{language}").write_text("".join(line + "\n" for line in lines.split("\n")[:6]))
    assert command(*training(folder, "run", 2)).code == 0
    shutil.copytree(folder / "run", folder / "done")
    assert command(*training(folder, "done", 4)).code == 0
    return folder


def training(folder: Path, out: str, steps: int) -> list[str]:
    """The command that makes or continues the run in a folder like run_folder's."""
    texts = ["--train", str(folder / "train"), "--valid", str(folder / "valid"), "--out", str(folder / out)]
    schedule = ["--validation.every", "2", "--validation.keep-last", "2", "--optimizer.warmup-steps", "1"]
    steps_wanted = ["--max-steps", str(steps), "--log-every", "1", "--validation.metric", "loss"]
    return ["train", "--source", "en", "--target", "de", *texts, *TINY, *schedule, *steps_wanted]


def same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of weights are equal, bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
