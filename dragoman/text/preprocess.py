"""From a run's parallel text to what training reads: subwords, token stores and the validation text.

They are kept under OUT/data and made again only if the text or its settings change.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.config import HELD_OUT, DragomanError, TrainConfig, differences
from dragoman.runtime.console import NowAndThen, Report
from dragoman.runtime.files import checksum, read_json, write_atomically
from dragoman.text.corpus import Pair, holds_out, locate_all, read_pairs
from dragoman.text.dataset import PairEncoder, TokenStore, build_store, sample_pairs
from dragoman.text.languages import target_tag
from dragoman.text.planting import Planter
from dragoman.text.subwords import Vocabulary

HELD_OUT_PAIRS, HELD_OUT_SHARE = 1000, 0.05
_KEY = "key.json"


@dataclass(frozen=True)
class Cleaning:
    """What cleaning says of the N pairs of the training text, in the order of read_pairs."""

    left_out: NDArray[np.bool_]
    """Pairs that are not used; (N,)."""
    not_for_validation: NDArray[np.bool_]
    """Pairs that must not be held out for validation, such as duplicates; (N,), all of left_out among them."""
    reasons: dict[str, int]
    """Number of pairs left out, by reason."""


Clean = Callable[[TrainConfig, Report], Cleaning]
"""Checks the training text of a run and decides which pairs to leave out. Raises DragomanError if none is left."""


@dataclass(frozen=True)
class PreparedText:
    """Everything about the text that training needs."""

    vocabulary: Vocabulary
    train: TokenStore
    valid: TokenStore
    valid_pairs: dict[tuple[str, str], list[Pair]]
    """The first validation pairs of each direction as raw text, to translate."""


def prepare_text(
    config: TrainConfig,
    clean: Clean,
    report: Report = lambda line: None,
    vocabulary: Vocabulary | None = None,
    begun: bool = False,
) -> PreparedText:
    """Clean the text of a run, learn subwords and encode it; or take what was prepared from the same text before.

    Files appear under config.out, each complete or not at all. Given subwords are used instead of learning some. The
    text of a run that has begun, which has trained on what is there, must not change unnoticed.
    """
    folder, prepared = Path(config.out) / "data", None
    before = _read_key(folder)
    now = _describe(config, vocabulary, before)
    changes = _changes(before, now) if before else []
    if before and not changes and (begun or before["subwords"] == now["subwords"]):
        with suppress(DragomanError):  # missing or damaged: made again below
            prepared = _load(config, folder)
    if prepared is None:
        if begun and changes:
            if not config.accept_changes:
                cure = "choose another --out, continue with --accept-changes, or start again with --restart"
                what = f"a run whose text was prepared otherwise ({'; '.join(changes)})"
                raise DragomanError(f"{config.out}: holds {what}; {cure}")
            report(f"preparing the text again, with the subwords that the model knows: {'; '.join(changes)}")
        if begun:
            with suppress(DragomanError):
                vocabulary = Vocabulary.load(folder)
        _prepare(config, folder, clean, report, vocabulary)
        prepared = _load(config, folder)
    if now != _read_key(folder):
        write_atomically(folder / _KEY, json.dumps(now).encode())
    report(f"training text: {prepared.train.report.describe()}")
    report(f"validation text: {prepared.valid.report.describe()}")
    return prepared


def locate_texts(config: TrainConfig) -> list[Path]:
    """The files of a run's texts."""
    corpora = locate_all([*config.train, *config.valid, *config.test], config.source, config.target)
    return [path for corpus in corpora for path in corpus.paths]


def _validation_texts(config: TrainConfig) -> list[str]:
    return config.valid or [str(Path(config.out, HELD_OUT))]


def _load(config: TrainConfig, folder: Path) -> PreparedText:
    corpora = locate_all(_validation_texts(config), config.source, config.target)
    first: dict[tuple[str, str], list[Pair]] = {corpus.languages: [] for corpus in corpora}
    for corpus in corpora:
        own, most = first[corpus.languages], config.validation.max_lines // len(first) or 1
        own += islice((pair for pair in corpus.tagged() if pair[0].strip() and pair[1].strip()), most - len(own))
    return PreparedText(Vocabulary.load(folder), TokenStore(folder / "train"), TokenStore(folder / "valid"), first)


# ---- preparing


def _prepare(config: TrainConfig, folder: Path, clean: Clean, report: Report, vocabulary: Vocabulary | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _KEY).unlink(missing_ok=True)
    cleaning = clean(config, report)
    total, training = len(cleaning.left_out), _TrainingText(config, cleaning)
    all_pairs = chain.from_iterable(pairs for _, pairs in training)
    # Whatever the run's seed: in an ensemble all models have the same subwords.
    sample = sample_pairs(all_pairs, max(config.text.sample_lines // 2, 1), seed=1)
    if not config.valid:
        held_out = training.held_out
        if not held_out or not any(source.strip() and target.strip() for source, target in sample):
            name = ", ".join(config.train)
            raise DragomanError(f"{name}: too few distinct sentences to hold some out: give --valid a text")
        (prefix,) = _validation_texts(config)
        for language, side in zip((config.source, config.target), zip(*held_out, strict=True), strict=True):
            write_atomically(Path(f"{prefix}.{language}"), "".join(f"{line}\n" for line in side).encode())
        report(f"no --valid: held {len(held_out):,} pairs out of the training text, see {prefix}.{config.source}")
    if not vocabulary:
        report(f"learning subwords from {len(sample):,} pairs")
        sides = [source for source, _ in sample], [target for _, target in sample]
        targets = config.target.split(",")
        vocabulary = Vocabulary.learn(sides, config.text, [target_tag(t) for t in targets] if len(targets) > 1 else ())
        for model in dict.fromkeys((vocabulary.source, vocabulary.target)):
            if len(model) < config.text.vocab_size:
                report(f"the text supports only {len(model):,} of {config.text.vocab_size:,} subwords")
    vocabulary.save(folder)
    report(f"encoding {total:,} pairs")
    now_and_then = NowAndThen(report)
    plant = Planter(sample, config.text.placeholders, config.seed) if vocabulary.has_symbols else None
    build_store(
        training,
        PairEncoder(vocabulary, config.text.max_length, plant),
        folder / "train",
        lambda read: now_and_then(f"encoded {read:,} of {total:,} pairs"),
        cleaning.reasons,
        name=", ".join(config.train),
    )
    texts, encoder = _validation_texts(config), PairEncoder(vocabulary, config.model.max_length - 1)
    valid = read_pairs(texts, config.source, config.target)
    build_store([(0, valid)], encoder, folder / "valid", name=", ".join(texts))


class _TrainingText:
    """The pairs to train on, by text: the number of each text, once for each of its directions, and its pairs.

    Without a validation text, the others of the held-out share are in held_out. Those of that share that are unfit for
    it are in neither: a sentence must not be on both sides.
    """

    def __init__(self, config: TrainConfig, cleaning: Cleaning) -> None:
        self.held_out: list[Pair] = []
        self._config, self._cleaning = config, cleaning
        self._share = 0.0 if config.valid else min(HELD_OUT_SHARE, HELD_OUT_PAIRS / len(cleaning.left_out))

    def __iter__(self) -> Iterator[tuple[int, Iterator[Pair]]]:
        self.held_out.clear()
        judged = zip(self._cleaning.left_out, self._cleaning.not_for_validation, strict=True)
        for number, text in enumerate(self._config.train):
            corpora = locate_all([text], self._config.source, self._config.target)
            for _, own in groupby(corpora, key=lambda corpus: corpus.languages):
                pairs = chain.from_iterable(corpus.tagged() for corpus in own)
                yield number, self._chosen(zip(pairs, judged, strict=False))

    def _chosen(self, judged: Iterator[tuple[Pair, tuple[bool, bool]]]) -> Iterator[Pair]:
        for pair, (left_out, unfit) in judged:
            if self._share and holds_out(pair[0], self._share):
                self.held_out += [] if unfit else [pair]
            elif not left_out:
                yield pair


# ---- what the prepared text was made from


def _describe(config: TrainConfig, vocabulary: Vocabulary | None, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What prepared text depends on. Files that are as before, by date and size, keep their checksums."""
    known = {tuple(stamp): digest for *stamp, digest in before["files"]} if before else {}
    files = []
    for path in locate_texts(config):
        stat = path.stat()
        stamp = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
        files.append([*stamp, known.get(stamp) or checksum(path)])
    return {
        "settings": {
            "source": config.source,
            "target": config.target,
            "text": asdict(config.text),
            "clean": asdict(config.clean),
            "seed": config.seed,
            "model": {"max_length": config.model.max_length},
        },
        "parts": [len(config.train), len(config.valid), len(config.test)],
        "files": files,
        "subwords": hashlib.sha256(b"".join(vocabulary.files().values())).hexdigest() if vocabulary else "",
    }


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed since the text was prepared; a file counts by its content."""
    changes = differences(before["settings"], now["settings"])
    if before["parts"] != now["parts"] or len(before["files"]) != len(now["files"]):
        return [*changes, "the list of files"]
    for (old_path, *_, old_digest), (path, *_, digest) in zip(before["files"], now["files"], strict=True):
        if digest != old_digest:
            changes.append(f"{path} has changed" if path == old_path else f"{path} in place of {old_path}")
    return changes


def _read_key(folder: Path) -> dict[str, Any] | None:
    key = read_json(folder / _KEY)
    return key if key.keys() == {"settings", "parts", "files", "subwords"} else None
