"""The verbs that take models elsewhere and bring them here: export and import."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import torch
import yaml

from dragoman.checkpoint import CARD_FILE, EXPORT_FILE, MODEL_FILES, RUN_FILE, ModelFolder
from dragoman.cli.options import ExportConfig, ImportConfig, ProofConfig
from dragoman.config import DragomanError
from dragoman.exported import describe, own_files, refuse_to_replace
from dragoman.inference.engine import Engine
from dragoman.interop import argos, ctranslate2, huggingface, onnx
from dragoman.interop.backends import CTranslate2Side, HuggingFaceSide, OnnxSide
from dragoman.interop.cards import card
from dragoman.interop.import_marian import read_marian
from dragoman.interop.parity import PARITY_FILE, OtherSide, Parity, Sample, prove
from dragoman.runtime.console import say
from dragoman.runtime.files import make_folder
from dragoman.text.corpus import read_pairs
from dragoman.text.subwords import SPECIALS, Vocabulary

_RANDOM_LENGTHS = (3, 30)  # subwords of a line that is made up
_TRIES = 100  # for each line that is made up
_SUSPICIOUS_BLEU = 1.0


def export_model(config: ExportConfig) -> int:
    """Export a model folder; returns the exit code, 1 where the proof fails."""
    loaded, out = ModelFolder.load(config.folder), Path(config.out)
    refuse_to_replace(out, loaded, config.to)
    if config.to == "argos":
        argos.require_packable(loaded)
    sample = _sample(config, loaded, Path(config.folder))
    with _staging(out, EXPORT_FILE, own_files(out)) as folder:
        if config.quantization != "float32":
            say("first the same in float32, where no rounding can hide a fault")
            _prove_in_float32(loaded, config, sample, folder.parent)
        other = _write(loaded, folder, config)
        parity = _prove(loaded, other, sample, folder)
        if config.to == "argos":
            name = argos.package_name(loaded, config.package_version)
            path = folder / f"{name}.argosmodel"
            readme = card(loaded, config.to, config.quantization, parity, name)
            argos.write_package(loaded, folder / "model", path, config.package_version, readme)
            shutil.rmtree(folder / "model")
        else:
            readme = card(loaded, config.to, config.quantization, parity)
        described = folder / CARD_FILE
        described.write_text(readme, encoding="utf-8")
        (folder / EXPORT_FILE).write_bytes(describe(loaded, config.to, _what_works(folder), described))
    say(f"exported to {config.out}")
    return 0


def import_model(config: ImportConfig) -> int:
    """Import a folder; returns the exit code, 1 where the proof fails."""
    arrival = read_marian(Path(config.folder), config.source, config.target)
    out = Path(config.out)
    refuse_to_replace(out, arrival.loaded)
    sample = _sample(config, arrival.loaded, Path(config.folder))
    with _staging(out, PARITY_FILE, MODEL_FILES) as folder:
        _prove(arrival.loaded, HuggingFaceSide(Path(config.folder), arrival.rows, arrival.absent), sample, folder)
        arrival.loaded.save(folder)
    say(f"imported into {config.out}")
    return 0


def _what_works(folder: Path) -> list[Path]:
    """What an export can't do without; the rest is for people."""
    return sorted(path for path in folder.iterdir() if path.name not in (CARD_FILE, PARITY_FILE))


def _write(loaded: ModelFolder, folder: Path, config: ExportConfig) -> OtherSide:
    """Write the export into an empty folder, and load it with the library that it is for."""
    if config.to == "huggingface":
        huggingface.write_model(loaded, folder)
        return HuggingFaceSide(folder)
    if config.to == "onnx":
        onnx.write_model(loaded, folder)
        return OnnxSide(folder, Vocabulary.load(folder))
    model = folder / "model" if config.to == "argos" else folder
    model.mkdir(exist_ok=True)
    ctranslate2.write_model(loaded, model, config.quantization)
    exact = config.quantization == "float32"
    return CTranslate2Side(model, Vocabulary.load(model), loaded.model.config, exact)


def _prove_in_float32(loaded: ModelFolder, config: ExportConfig, sample: Sample, beside: Path) -> None:
    """Prove an export that nobody keeps, on the disk that the other one needs, too."""
    with tempfile.TemporaryDirectory(dir=beside) as place:
        other = _write(loaded, Path(place), replace(config, quantization="float32"))
        _prove(loaded, other, sample, Path(place))


def _prove(loaded: ModelFolder, other: OtherSide, sample: Sample, folder: Path) -> Parity:
    """Compare both sides, print and store the result.

    Raises:
        DragomanError: they do not agree.
    """
    say(f"comparing both sides on {len(sample.sources):,} sentences")
    engine = Engine(loaded.model, torch.device("cpu"), autocast=False)
    parity = prove(engine, loaded.vocabulary, other, sample, loaded.direction.target, say)
    for line in parity.lines():
        say(line)
    if parity.bleu and max(max(scores) for scores in parity.bleu.values()) < _SUSPICIOUS_BLEU:
        say("warning: both sides agree, but on translations that have next to nothing in common with the references")
    if not parity.passed:
        raise DragomanError(f"the two sides do not agree, so nothing was written; {_first_difference(parity)}")
    (folder / PARITY_FILE).write_text(json.dumps(asdict(parity), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return parity


def _first_difference(parity: Parity) -> str:
    if not parity.examples:
        return "their numbers differ"
    example = parity.examples[0]
    return f"{example['source']!r} becomes {example['here']!r} here and {example['there']!r} there"


def _sample(config: ProofConfig, loaded: ModelFolder, folder: Path) -> Sample:
    """The sentences to compare on: short enough for the model, from the text at hand."""
    texts, longest = config.valid or _validation_text(folder), loaded.model.config.max_length - 1
    if texts:
        direction = loaded.direction
        pairs = (pair for pair in read_pairs(texts, direction.source, direction.target) if all(map(str.strip, pair)))
        fitting = (pair for pair in pairs if len(loaded.vocabulary.source.encode([pair[0]])[0]) < longest)
        if found := list(islice(fitting, config.sentences)):
            names = ", ".join(Path(text).name for text in texts)  # goes into the card, so without folders
            return Sample([source for source, _ in found], [target for _, target in found], names)
        raise DragomanError(f"{', '.join(texts)}: no sentences that the model could translate")
    say("no text to compare on: lines of random subwords; --valid names a better one")
    lines = _random_lines(loaded.vocabulary, config.sentences, longest)
    if not lines:
        raise DragomanError(f"no random subwords make a line below {longest:,} subwords; name a text with --valid")
    return Sample(lines, None, "random subwords")


def _validation_text(folder: Path) -> list[str]:
    """The validation text of the run that trained the model; none where that can't be found."""
    try:
        settings = yaml.safe_load((folder / RUN_FILE).read_text(encoding="utf-8"))
        texts = settings["valid"] or [str(folder / "heldout")]
        next(iter(read_pairs(texts, settings["source"], settings["target"])))
    except (OSError, ValueError, KeyError, TypeError, StopIteration, yaml.YAMLError, DragomanError):
        return []
    return [str(text) for text in texts]


def _random_lines(vocabulary: Vocabulary, count: int, longest: int) -> list[str]:
    """Lines of fewer than longest subwords, drawn at random, always the same ones; fewer lines where few will do."""
    draw = random.Random(1)
    every = range(len(SPECIALS), len(vocabulary.source))
    shown = zip(every, vocabulary.source.decode([[i] for i in every]), strict=True)
    known = [i for i, text in shown if text.strip() and text.isprintable() and "\ufffd" not in text]
    lines: list[str] = []
    for _ in range(_TRIES * count if known else 0):
        ids = draw.choices(known, k=draw.randint(*(min(length, max(1, longest - 1)) for length in _RANDOM_LENGTHS)))
        line = " ".join(vocabulary.source.decode([ids])[0].split())
        if not line.isprintable() or "\ufffd" in line or not line:
            continue
        if len(vocabulary.source.encode([line])[0]) < longest:
            lines.append(line)
        if len(lines) == count:
            break
    return lines


@contextmanager
def _staging(out: Path, mark: str, own: Collection[str]) -> Iterator[Path]:
    """A folder to write to, which takes the place of out when all is well.

    Args:
        out: the place.
        mark: the file that makes out an earlier result.
        own: the files of an earlier result; nothing if it does not say.
    """
    if out.exists() and not (out.is_dir() and ((out / mark).is_file() or not any(out.iterdir()))):
        raise DragomanError(f"{out}: already exists, and is not an earlier result of this verb; choose another --out")
    if own:
        _refuse_strangers(out, own)
    make_folder(out.parent)
    real, staging = Path(os.path.realpath(out)), out  # the place itself, which a link may only point to
    if os.path.ismount(real):
        raise DragomanError(f"{out}: is where a disk is mounted, and can't be replaced; name a folder in it")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=real.parent) as place:
            staging = Path(place, "new")
            staging.mkdir()
            yield staging
            _refuse_strangers(real, {*own, *(path.name for path in staging.iterdir())})
            _put(staging, real, Path(place, "old"))
    except DragomanError as error:
        raise DragomanError(str(error).replace(str(staging), str(out))) from None
    except OSError as error:
        raise DragomanError(f"{out}: can't be written ({error.strerror or error})") from None


def _refuse_strangers(out: Path, own: Collection[str]) -> None:
    """Raise DragomanError where a folder that is to be replaced has anything but these files."""
    found = {path.name for path in out.iterdir()} if out.exists() else set()
    strangers = sorted(found - {*own, PARITY_FILE})
    if strangers:
        raise DragomanError(f"{out}: has {strangers[0]}, which would be lost; choose another --out")


def _put(staging: Path, out: Path, before: Path) -> None:
    """Let a new folder take the place of another one, which comes back where that fails or is interrupted."""
    try:
        if out.exists():
            out.rename(before)
        staging.rename(out)
    except BaseException:
        if before.exists() and not out.exists():
            before.rename(out)
        raise
