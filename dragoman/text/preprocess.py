"""From a run's parallel text to what training reads: subwords, token stores and the validation text.

Kept under OUT/data and made again only when the text or its settings change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DragomanError, TrainConfig, differences
from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.issues import Finding
from dragoman.corpus_check.reasons import Flag
from dragoman.runtime.console import Report
from dragoman.runtime.files import checksum, write_atomically
from dragoman.text.corpus import Pair, holds_out, locate, read_pairs
from dragoman.text.dataset import TokenStore, build_store, sample_pairs
from dragoman.text.subwords import Vocabulary

HELD_OUT_PAIRS, HELD_OUT_SHARE = 1000, 0.05
REPORT_FILE = "check.json"
_KEY = "key.json"
# The settings of cleaning: what each takes out, and how that is called.
_CLEANED = {
    "overlap": (Flag.OVERLAP, "also in the validation or test text"),
    "duplicates": (Flag.DUPLICATE, "duplicates"),
    "near_duplicates": (Flag.NEAR_DUPLICATE, "near duplicates"),
    "copies": (Flag.COPY, "copies of the source"),
    "ratio": (Flag.RATIO, "of unlike lengths"),
    "characters": (Flag.CHARACTERS, "with broken characters"),
    "language": (Flag.LANGUAGE, "in a wrong language"),
}
_OF_SUBWORDS = {
    f"text.{name}"
    for name in ("vocab_size", "vocabulary", "subwords", "character_coverage", "normalization", "sample_lines")
}
_NEVER_HELD_OUT = Flag.OVERLAP | Flag.EMPTY | Flag.DUPLICATE  # even where cleaning lets them pass
_PAIRS_BETWEEN_REPORTS = 500_000


@dataclass(frozen=True)
class PreparedText:
    """Everything about the text that training needs."""

    vocabulary: Vocabulary
    train: TokenStore
    valid: TokenStore
    valid_pairs: list[Pair]
    """The first validation pairs as raw text, to translate."""


def prepare_text(
    config: TrainConfig,
    report: Report = lambda line: None,
    vocabulary: Vocabulary | None = None,
    begun: bool = False,
) -> PreparedText:
    """Clean, learn the subwords, and encode the text of a run; or take what was prepared before from the same text.

    Args:
        config: the run; files appear under its out folder, each complete or not at all.
        report: told what is going on.
        vocabulary: subwords to keep to, instead of learning some.
        begun: whether a run has already trained on what lies there; its text can't become another unnoticed.

    Raises:
        DragomanError: the text can't be read, has no usable pair, or is not the one that the run began with.
    """
    folder, kept_to = Path(config.out) / "data", _digest(vocabulary)
    key = _read_key(folder)
    changes = _changes(key, config) if key else []
    fits = key is not None and not changes and (begun or key["subwords"] == kept_to)
    stores = _open(config, folder) if fits else None
    if stores is None:
        if begun and changes:
            if learnt := [change for change in changes if change.split(" ")[0] in _OF_SUBWORDS]:
                raise DragomanError(
                    f"{config.out}: the subwords of a run stay as they are ({'; '.join(learnt)}): leave that as it "
                    f"was, choose another --out, or begin again with --restart"
                )
            if not config.accept_changes:
                raise DragomanError(
                    f"{config.out}: holds a run whose text was prepared otherwise ({'; '.join(changes)}); choose "
                    f"another --out, continue all the same with --accept-changes, or begin again with "
                    f"--restart"
                )
            report(f"preparing the text again, with the subwords that the model knows: {'; '.join(changes)}")
        if begun:
            vocabulary = _own_vocabulary(folder) or vocabulary
        _prepare(config, folder, report, vocabulary)
        stores = TokenStore(folder / "train"), TokenStore(folder / "valid")
    if (description := _describe(config, key) | {"subwords": kept_to}) != _read_key(folder):
        write_atomically(folder / _KEY, json.dumps(description).encode())
    train, valid = stores
    report(f"training text: {train.report.describe()}")
    report(f"validation text: {valid.report.describe()}")
    pairs = read_pairs(_validation_texts(config), config.source, config.target)
    usable = (pair for pair in pairs if pair[0].strip() and pair[1].strip())
    return PreparedText(Vocabulary.load(folder), train, valid, list(islice(usable, config.validation.max_lines)))


def _digest(vocabulary: Vocabulary | None) -> str:
    """Which subwords a text keeps to; empty where it has its own."""
    return hashlib.sha256(b"".join(vocabulary.files().values())).hexdigest() if vocabulary else ""


def _open(config: TrainConfig, folder: Path) -> tuple[TokenStore, TokenStore] | None:
    """What an earlier run prepared, or None where part of it is missing or damaged."""
    try:
        for text in _validation_texts(config):
            locate(text, config.source, config.target)
        Vocabulary.load(folder)
        return TokenStore(folder / "train"), TokenStore(folder / "valid")
    except DragomanError:
        return None


def _own_vocabulary(folder: Path) -> Vocabulary | None:
    """The subwords that the run began with, which its model knows; None where they are gone."""
    try:
        return Vocabulary.load(folder)
    except DragomanError:
        return None


def _prepare(config: TrainConfig, folder: Path, report: Report, vocabulary: Vocabulary | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _KEY).unlink(missing_ok=True)
    text = _clean_text(config, report)
    if vocabulary is None:
        sample, _ = sample_pairs(text.pairs(), max(config.text.sample_lines // 2, 1), config.seed)
        vocabulary = _learn(sample, config, report)
    vocabulary.save(folder)

    def tell(read: int) -> None:
        if read % _PAIRS_BETWEEN_REPORTS == 0:
            report(f"encoded {read:,} of {text.count:,} pairs")

    report(f"encoding {text.count:,} pairs")
    name = ", ".join(config.train)
    build_store(text.pairs(), vocabulary, folder / "train", config.text.max_length, tell, text.left_out, name)
    valid = read_pairs(_validation_texts(config), config.source, config.target)
    name = ", ".join(_validation_texts(config))
    build_store(valid, vocabulary, folder / "valid", config.model.max_length - 1, name=name)


@dataclass(frozen=True)
class _TrainingText:
    """The training pairs without those that cleaning takes out or that are held out."""

    config: TrainConfig
    count: int
    """Pairs in the files."""
    flags: NDArray[np.uint16]
    """What is wrong with each."""
    unwanted: Flag
    held_out: float
    """Share."""
    left_out: dict[str, int]
    """Number of pairs that cleaning takes out, by reason."""

    def pairs(self) -> Iterator[Pair]:
        """Read them from the files."""
        pairs = read_pairs(self.config.train, self.config.source, self.config.target)
        for pair, flags in zip(pairs, self.flags, strict=True):
            if not (flags & self.unwanted or (self.held_out and holds_out(pair[0], self.held_out))):
                yield pair


def _clean_text(config: TrainConfig, report: Report) -> _TrainingText:
    """Examine the training text, say what is wrong with it, and decide what is left out."""
    report("examining the training text")
    told = 0

    def tell(examined: int, pairs: int) -> None:
        nonlocal told
        if pairs and examined - told >= _PAIRS_BETWEEN_REPORTS:
            told = examined
            report(f"examined {examined:,} of {pairs:,} pairs")

    texts = (config.train, config.source, config.target, config.valid, config.test)
    diagnosis = examine_text(*texts, progress=tell)
    content = json.dumps(diagnosis.to_dict(), ensure_ascii=False, indent=1)
    write_atomically(Path(config.out) / REPORT_FILE, content.encode())
    if not diagnosis.usable:
        _require_readable(config)
    unwanted, left_out = Flag(0), {}
    for name, (flag, reason) in _CLEANED.items():
        if getattr(config.clean, name):
            unwanted |= flag
            if number := int(np.count_nonzero(diagnosis.flags & flag)):
                left_out[reason] = number
    _warn(diagnosis.findings, Path(config.out) / REPORT_FILE, report)
    if np.all(diagnosis.flags & unwanted):
        parts = ", ".join(f"{number:,} {reason}" for reason, number in left_out.items())
        overlap = left_out.get(_CLEANED["overlap"][1], 0) == diagnosis.pairs
        cure = "for --valid or --test; without --valid some pairs are held out" if overlap else "or less --clean"
        raise DragomanError(
            f"{', '.join(config.train)}: cleaning leaves nothing of {diagnosis.pairs:,} pairs ({parts}); give other "
            f"text {cure}"
        )
    held_out = 0.0 if config.valid else min(HELD_OUT_SHARE, HELD_OUT_PAIRS / diagnosis.pairs)
    text = _TrainingText(config, diagnosis.pairs, diagnosis.flags, unwanted, held_out, left_out)
    if held_out:
        _write_held_out(text, report)
    return text


def _require_readable(config: TrainConfig) -> None:
    """Read all texts through, to raise what is wrong with one, with the place; and where one has no pair."""
    for name, texts in (("training", config.train), ("validation", config.valid), ("test", config.test)):
        pairs = sum(1 for pair in read_pairs(texts, config.source, config.target) if all(map(str.strip, pair)))
        if texts and not pairs:
            raise DragomanError(f"{', '.join(texts)}: no sentence pair; the {name} text is empty")


def _warn(findings: Iterable[Finding], where: Path, report: Report) -> None:
    """Say what the doctor found, but for notes; errors with all he has to say about them."""
    warnings = []
    for finding in findings:
        if finding.severity == "error":
            words = " ".join(filter(None, [finding.detail, finding.advice]))
            report(f"warning: {finding.reason} in the {finding.text} text ({_counted(finding)}): {words}")
        elif finding.severity == "warning":
            warnings.append(f"{finding.reason} ({_counted(finding)} of the {finding.text} text)")
    if warnings:
        report(f"found in the text: {', '.join(warnings)}; see {where}")


def _counted(finding: Finding) -> str:
    return f"{finding.count:,} {finding.unit if finding.count != 1 else finding.unit.removesuffix('s')}"


def _learn(sample: list[Pair], config: TrainConfig, report: Report) -> Vocabulary:
    report(f"learning subwords from {len(sample):,} pairs")
    try:
        vocabulary = Vocabulary.learn(([s for s, _ in sample], [t for _, t in sample]), config.text)
    except DragomanError as error:
        raise DragomanError(f"{', '.join(config.train)}: {error}") from None
    for side, model in (("source", vocabulary.source), ("target", vocabulary.target)):
        if len(model) < config.text.vocab_size and not (vocabulary.joint and side == "target"):
            name = "text" if vocabulary.joint else f"{side} text"
            report(f"the {name} supports {len(model):,} subwords, not {config.text.vocab_size:,}: going on with those")
    return vocabulary


def _validation_texts(config: TrainConfig) -> list[str]:
    return config.valid or [str(Path(config.out) / "heldout")]


def _write_held_out(text: _TrainingText, report: Report) -> None:
    """Write the validation text: of the pairs whose sources are held out, those that are good for it."""
    config, held_out, passed_over, trained = text.config, list[Pair](), 0, 0
    for pair, flags in zip(read_pairs(config.train, config.source, config.target), text.flags, strict=True):
        if not holds_out(pair[0], text.held_out):
            trained += not flags & (text.unwanted | Flag.EMPTY)
        elif flags & (text.unwanted | _NEVER_HELD_OUT):
            passed_over += 1
        else:
            held_out.append(pair)
    if not (held_out and trained):
        raise DragomanError(
            f"{', '.join(config.train)}: too few distinct sentences to hold some out: give a validation text (--valid)"
        )
    (prefix,) = _validation_texts(config)
    for language, side in ((config.source, 0), (config.target, 1)):
        write_atomically(Path(f"{prefix}.{language}"), "".join(pair[side] + "\n" for pair in held_out).encode())
    others = f" ({passed_over:,} repeated or faulty ones that go with them are in neither)" if passed_over else ""
    report(f"no --valid: held {len(held_out):,} pairs out of the training text, see {prefix}.{config.source}{others}")


def _settings(config: TrainConfig) -> dict[str, Any]:
    """The settings that the prepared text depends on."""
    return {
        "source": config.source,
        "target": config.target,
        "text": asdict(config.text),
        "clean": asdict(config.clean),
        "seed": config.seed,
        "model": {"max_length": config.model.max_length},
    }


def locate_texts(config: TrainConfig) -> list[Path]:
    """The files of a run's texts.

    Raises:
        DragomanError: one is missing.
    """
    texts = [*config.train, *config.valid, *config.test]
    return [path for text in texts for path in locate(text, config.source, config.target).paths]


def _describe(config: TrainConfig, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the prepared text was made from; files that did not change keep the checksum they have."""
    known = {tuple(file[:3]): file for file in (before or {}).get("files", [])}
    files = []
    for path in locate_texts(config):
        stamp = _stamp(path)
        files.append(known.get(tuple(stamp)) or [*stamp, checksum(path)])
    parts = [len(config.train), len(config.valid), len(config.test)]
    return {"settings": _settings(config), "parts": parts, "files": files}


def _changes(before: Mapping[str, Any], config: TrainConfig) -> list[str]:
    """What is not as it was when the text was prepared; a file counts by its content."""
    changes = differences(before["settings"], _settings(config))
    paths, parts = locate_texts(config), [len(config.train), len(config.valid), len(config.test)]
    if len(paths) != len(before["files"]) or before["parts"] != parts:
        return [*changes, "the list of files"]
    for path, (*stamp, known) in zip(paths, before["files"], strict=True):
        if _stamp(path) != stamp and (path.stat().st_size != stamp[1] or checksum(path) != known):
            other = stamp[0] != str(path.resolve())
            changes.append(f"{path} in place of {stamp[0]}" if other else f"{path} has changed")
    return changes


def _stamp(path: Path) -> list[Any]:
    stat = path.stat()
    return [str(path.resolve()), stat.st_size, stat.st_mtime_ns]


def _read_key(folder: Path) -> dict[str, Any] | None:
    try:
        key = json.loads((folder / _KEY).read_text(encoding="utf-8"))
        if any([type(fact) for fact in file] != [str, int, int, str] for file in key["files"]):
            raise ValueError("not what was written")
        return dict(key, settings=dict(key["settings"]), parts=key["parts"], subwords=key["subwords"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
