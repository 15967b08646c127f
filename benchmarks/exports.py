"""Whether exported models answer as Dragoman does: every kind of model, and a trained one on a whole test text.

    python benchmarks/exports.py MODEL DATA [--sentences 1000] [--quick]

MODEL is a trained model folder, post-norm with sinusoids; DATA the folder with Multi30k's test_2016_flickr, or any
PREFIX of source and target text. Exports small models of every kind (norm, positions, activation, vocabularies, tying)
to every target that takes them, and MODEL to every target and quantization, and compares tokens, logits and BLEU of
both sides; then MODEL goes to Hugging Face and back. Prints the figures and stores them in
benchmarks/results/exports.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from hardware import describe_hardware

from dragoman.checkpoint import ModelFolder, fingerprint
from dragoman.config import SearchConfig
from dragoman.evaluation.scores import evaluate
from dragoman.folder import EXPORT_FILE, WEIGHTS_FILE, describe
from dragoman.inference.engine import Engine
from dragoman.inference.translator import Translator
from dragoman.interop import ctranslate2, huggingface, onnx
from dragoman.interop.import_marian import read_marian
from dragoman.interop.parity import Backend, Parity, Sample, prove
from dragoman.text.corpus import read_pairs

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "exports.json"
sys.path.insert(0, str(ROOT))

from tests.small_models import LINES, TARGETS, kinds, small_model  # noqa: E402

FACTS = ("training_pairs", "steps", "minutes", "seed")
QUANTIZATIONS = ("int8", "int16", "float16", "bfloat16")
Write = Callable[[ModelFolder, Path], Backend]


def to_ctranslate2(quantization: str = "float32") -> Write:
    """Export to CTranslate2 with this quantization."""

    def write(loaded: ModelFolder, folder: Path) -> Backend:
        ctranslate2.write_model(loaded, folder, quantization)
        (folder / EXPORT_FILE).write_bytes(describe(loaded.direction, loaded.model.config, "ctranslate2"))
        return ctranslate2.CTranslate2Backend(folder, loaded.model.config, quantization == "float32")

    return write


def to_huggingface(loaded: ModelFolder, folder: Path) -> Backend:
    """Export to Hugging Face."""
    huggingface.write_model(loaded, folder)
    return huggingface.HuggingFaceBackend(folder)


def to_onnx(loaded: ModelFolder, folder: Path) -> Backend:
    """Export to ONNX."""
    onnx.write_model(loaded, folder)
    return onnx.OnnxBackend(folder)


GRID: dict[str, tuple[Write, dict[str, Any]]] = {
    "ctranslate2": (to_ctranslate2(), {}),
    "huggingface": (to_huggingface, {"norms": ("post",), "positions": ("interleaved", "halves")}),
    "onnx": (to_onnx, {}),  # PyTorch takes about ten seconds for each
}
"""How to export, and which kinds of models the target takes."""


@dataclass
class Cell:
    """What small models of one norm and one layout of positions came to."""

    kinds: int = 0
    sentences: int = 0
    identical_at_beam_1: int = 0
    identical_at_beam_4: int = 0
    largest_difference: float = 0.0
    passed: int = 0

    def add(self, parity: Parity) -> None:
        """Count one more model."""
        self.kinds += 1
        self.sentences += parity.sentences
        self.identical_at_beam_1 += parity.identical["1"]
        self.identical_at_beam_4 += parity.identical["4"]
        self.largest_difference = float(f"{max(self.largest_difference, parity.largest_difference):.2g}")
        self.passed += parity.passed


def compare(loaded: ModelFolder, write: Write, sample: Sample) -> Parity:
    """Export into a folder that is forgotten, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        return prove(loaded, write(loaded, Path(folder)), sample)


def grid(quick: bool) -> dict[str, Any]:
    """The table over all kinds of models."""
    sample = Sample(LINES, TARGETS, "lines")
    found: dict[str, dict[str, Cell]] = {}
    for target, (write, taken) in GRID.items():
        for settings in list(kinds(**taken))[:: 18 if quick else 1]:
            cell = found.setdefault(target, {}).setdefault(f"{settings['norm']}-norm, {settings['positions']}", Cell())
            cell.add(compare(small_model(**settings), write, sample))
            print(f"{target} {settings}: {cell}", file=sys.stderr, flush=True)
    return {target: {name: vars(cell) for name, cell in cells.items()} for target, cells in found.items()}


def of_parity(parity: Parity) -> dict[str, Any]:
    """What is worth storing of the comparison of a trained model."""
    found: dict[str, Any] = {"library": parity.other, "passed": parity.passed}
    for beam, same in parity.identical.items():
        ended = parity.sentences - parity.endless[beam]
        endless = f", {parity.endless[beam]} more without an end" if parity.endless[beam] else ""
        tied = f", {parity.ties[beam]} of the other {ended - same} decided by a tie" if parity.exact else ""
        found[f"identical at beam {beam}"] = f"{same} of {ended}{tied if same < ended else ''}{endless}"
        found[f"BLEU at beam {beam}"] = parity.bleu[beam]
    return found | {f"largest difference of {parity.logits}": float(f"{parity.largest_difference:.2g}")}


def trained(loaded: ModelFolder, sample: Sample) -> dict[str, Any]:
    """Every target and quantization for a trained model."""
    ways: dict[str, Write] = {"ctranslate2": to_ctranslate2(), "huggingface": to_huggingface, "onnx": to_onnx}
    ways |= {f"ctranslate2 {name}": to_ctranslate2(name) for name in QUANTIZATIONS}
    found = {}
    for name, write in ways.items():
        found[name] = of_parity(compare(loaded, write, sample))
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def engines(loaded: ModelFolder, sample: Sample) -> dict[str, Any]:
    """The default search by PyTorch and by CTranslate2, with a length penalty."""
    with tempfile.TemporaryDirectory() as folder:
        to_ctranslate2()(loaded, Path(folder))
        texts = [[t.text for t in one.translate(sample.sources, SearchConfig())]
                 for one in (Translator(loaded), Translator.load(folder))]  # fmt: skip
    assert sample.references is not None
    scores = [round(evaluate(found, sample.references, loaded.direction.target)["bleu"], 2) for found in texts]
    same = sum(a == b for a, b in zip(*texts, strict=True))
    return {"equal lines": f"{same} of {len(sample.sources)}", "BLEU": scores}


def round_trip(loaded: ModelFolder, sample: Sample) -> dict[str, Any]:
    """To Hugging Face and back."""
    with tempfile.TemporaryDirectory() as folder:
        huggingface.write_model(loaded, Path(folder))
        back = read_marian(Path(folder)).loaded
    one, other = Translator(loaded), Translator(back)
    texts = [[t.text for t in translator.translate(sample.sources)] for translator in (one, other)]
    ids = [([*s, 3], [*t, 3]) for s, t in zip(*(loaded.vocabulary.source.encode(lines) for lines in
           (sample.sources[:100], sample.references[:100] if sample.references else [])), strict=True)]  # fmt: skip
    engines = [Engine(model, torch.device("cpu"), autocast=False) for model in (loaded.model, back.model)]
    largest = max(float((engines[0].logits([s], [t]) - engines[1].logits([s], [t])).abs().max()) for s, t in ids)
    same = sum(a == b for a, b in zip(*texts, strict=True))
    return {"equal lines": f"{same} of {len(texts[0])}", "largest difference of logits": float(f"{largest:.2g}")}


def read_sample(loaded: ModelFolder, data: Path, count: int) -> Sample:
    """The first sentences of the test text."""
    text = str(data / "test_2016_flickr") if data.is_dir() else str(data)
    pairs: Iterable[tuple[str, str]] = read_pairs([text], loaded.direction.source, loaded.direction.target)
    chosen = list(islice(pairs, count))
    return Sample([source for source, _ in chosen], [target for _, target in chosen], Path(text).name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sentences", type=int, default=1000, help="of the test text (1000)")
    parser.add_argument("--quick", action="store_true", help="few kinds of models, nothing stored")
    options = parser.parse_args(arguments)
    loaded = ModelFolder.load(options.model)
    sample = read_sample(loaded, options.data, options.sentences)
    result = {
        "test text": f"{sample.name}, {len(sample.sources):,} lines",
        "of the trained model": {name: loaded.direction.facts.get(name) for name in FACTS}
        | {"parameters": loaded.model.num_parameters, "weights": fingerprint(options.model / WEIGHTS_FILE)},
        "trained model": trained(loaded, sample),
        "default search, PyTorch and CTranslate2": engines(loaded, sample),
        "to Hugging Face and back": round_trip(loaded, sample),
        "every kind of model": grid(options.quick),
    }
    print(json.dumps(result, indent=1))
    if not options.quick:
        command = f"python benchmarks/exports.py MODEL DATA --sentences {options.sentences}"
        content = {"command": command, "hardware": describe_hardware(), "result": result}
        RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
