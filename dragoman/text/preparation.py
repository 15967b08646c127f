"""From a run's parallel text to what training reads: subwords, token stores and the validation text.

Kept under OUT/data and made again only when the text or its settings change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from dragoman.config import DragomanError, TextConfig, TrainConfig
from dragoman.text.corpus import Pair, holds_out, locate, read_pairs
from dragoman.text.dataset import TokenStore, build_store, sample_pairs
from dragoman.text.subword import JOINT_FILE, SOURCE_FILE, TARGET_FILE, Vocabulary

HELD_OUT_PAIRS, HELD_OUT_SHARE = 1000, 0.05
_PAIRS_BETWEEN_REPORTS = 500_000

Report = Callable[[str], None]
"""Takes one line for people."""


@dataclass(frozen=True)
class PreparedText:
    """Everything about the text that training needs."""

    vocabulary: Vocabulary
    train: TokenStore
    valid: TokenStore
    valid_pairs: list[Pair]
    """The first validation pairs as raw text, to translate."""


def prepare_text(config: TrainConfig, report: Report = lambda line: None) -> PreparedText:
    """Learn the subwords and encode the text of a run, or take what an earlier run prepared from the same text.

    Args:
        config: the run; files appear under its out folder, each complete or not at all.
        report: told what is going on.

    Raises:
        DragomanError: the text can't be read or has no usable pair.
    """
    folder = Path(config.out) / "data"
    key = _key(config)
    stores = _open(config, folder) if _read_key(folder) == key else None
    if stores is None:
        _prepare(config, folder, report)
        (folder / "key.json").write_text(json.dumps(key))
        stores = TokenStore(folder / "train"), TokenStore(folder / "valid")
    train, valid = stores
    report(f"training text: {train.report.describe()}")
    report(f"validation text: {valid.report.describe()}")
    pairs = read_pairs(_validation_texts(config), config.source, config.target)
    usable = (pair for pair in pairs if pair[0].strip() and pair[1].strip())
    return PreparedText(Vocabulary.load(folder), train, valid, list(islice(usable, config.validation.max_lines)))


def _open(config: TrainConfig, folder: Path) -> tuple[TokenStore, TokenStore] | None:
    """What an earlier run prepared, or None where part of it is missing or damaged."""
    try:
        for text in _validation_texts(config):
            locate(text, config.source, config.target)
        Vocabulary.load(folder)
        return TokenStore(folder / "train"), TokenStore(folder / "valid")
    except DragomanError:
        return None


def _prepare(config: TrainConfig, folder: Path, report: Report) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "key.json").unlink(missing_ok=True)
    report("reading the training text")
    sample_size = max(config.text.sample_lines // 2, 1)
    sample, count = sample_pairs(read_pairs(config.train, config.source, config.target), sample_size, config.seed)
    if not count:
        raise DragomanError(f"{', '.join(config.train)}: no sentence pair; the training text is empty")
    held_out = 0.0 if config.valid else min(HELD_OUT_SHARE, HELD_OUT_PAIRS / count)
    if held_out:
        _write_held_out(config, held_out, report)
    vocabulary = _learn(sample, config.text, report)
    for name in (JOINT_FILE, SOURCE_FILE, TARGET_FILE):
        (folder / name).unlink(missing_ok=True)
    for name, content in vocabulary.files().items():
        (folder / name).write_bytes(content)

    def training_pairs() -> Iterator[Pair]:
        for pair in read_pairs(config.train, config.source, config.target):
            if not (held_out and holds_out(pair[0], held_out)):
                yield pair

    def tell(read: int) -> None:
        if read % _PAIRS_BETWEEN_REPORTS == 0:
            report(f"encoded {read:,} of {count:,} pairs")

    report(f"encoding {count:,} pairs")
    build_store(training_pairs(), vocabulary, folder / "train", config.text.max_length, tell)
    valid = read_pairs(_validation_texts(config), config.source, config.target)
    build_store(valid, vocabulary, folder / "valid", config.model.max_length - 1)


def _learn(sample: list[Pair], config: TextConfig, report: Report) -> Vocabulary:
    report(f"learning subwords from {len(sample):,} pairs")
    vocabulary = Vocabulary.learn(([s for s, _ in sample], [t for _, t in sample]), config)
    for side, model in (("source", vocabulary.source), ("target", vocabulary.target)):
        if len(model) < config.vocab_size and not (vocabulary.joint and side == "target"):
            name = "text" if vocabulary.joint else f"{side} text"
            report(f"the {name} supports {len(model):,} subwords, not {config.vocab_size:,}: going on with those")
    return vocabulary


def _validation_texts(config: TrainConfig) -> list[str]:
    return config.valid or [str(Path(config.out) / "heldout")]


def _write_held_out(config: TrainConfig, share: float, report: Report) -> None:
    pairs = [p for p in read_pairs(config.train, config.source, config.target) if holds_out(p[0], share)]
    if not pairs:
        raise DragomanError(
            f"{', '.join(config.train)}: too few distinct sentences to hold some out: give a validation text (--valid)"
        )
    (prefix,) = _validation_texts(config)
    for language, side in ((config.source, 0), (config.target, 1)):
        text = "".join(pair[side] + "\n" for pair in pairs)
        Path(f"{prefix}.{language}").write_text(text, encoding="utf-8", newline="\n")
    report(f"no --valid: held {len(pairs):,} pairs out of the training text, see {prefix}.{config.source}")


def _key(config: TrainConfig) -> dict[str, object]:
    """What the prepared text depends on: settings, and name, size and time of every file."""
    files = []
    for text in [*config.train, *config.valid]:
        for path in locate(text, config.source, config.target).paths:
            stat = path.stat()
            files.append([str(path.resolve()), stat.st_size, stat.st_mtime_ns])
    return {
        "files": files,
        "languages": [config.source, config.target],
        "train": len(config.train),
        "text": asdict(config.text),
        "seed": config.seed,
        "max_length": config.model.max_length,
    }


def _read_key(folder: Path) -> object:
    try:
        return json.loads((folder / "key.json").read_text())
    except (OSError, ValueError):
        return None
