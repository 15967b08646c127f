"""Which pairs of a run's training text to leave out: the cleaning settings, applied to what the corpus check found."""

from pathlib import Path

import numpy as np

from dragoman.config import CHECK_FILE, DragomanError, TrainConfig
from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.issues import CLEANING, Finding, Flag
from dragoman.runtime.console import NowAndThen, Report
from dragoman.runtime.files import write_json
from dragoman.text.corpus import read_pairs
from dragoman.text.preprocess import Cleaning

_NEVER_HELD_OUT = Flag.OVERLAP | Flag.EMPTY | Flag.DUPLICATE  # even if cleaning lets them pass


def clean_text(config: TrainConfig, report: Report) -> Cleaning:
    """Check the training text of a run, report what is wrong with it, and decide which pairs to leave out.

    The result of the check is written to the run's folder.

    Raises:
        DragomanError: a text can't be read or is empty, or cleaning leaves no pair.
    """
    report("examining the training text")
    texts = (config.train, config.source, config.target, config.valid, config.test)
    diagnosis = examine_text(*texts, report=NowAndThen(report))
    path = Path(config.out) / CHECK_FILE
    write_json(path, diagnosis.to_dict())
    if not diagnosis.usable:
        _refuse(config)
    _warn(diagnosis.findings, path, report)
    chosen = {flag: words for flag, (setting, words) in CLEANING.items() if getattr(config.clean, setting)}
    left_out, reasons = np.zeros(len(diagnosis.flags), dtype=bool), dict[str, int]()
    for flag, words in chosen.items():  # the first reason of each pair
        found = (diagnosis.flags & np.uint16(flag) != 0) & ~left_out
        reasons |= {words: int(found.sum())} if found.any() else {}
        left_out |= found
    if left_out.all():
        parts = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        cure = "give other text, for --valid or --test if it is the same there, or less --clean"
        nothing = f"cleaning leaves nothing of {diagnosis.pairs:,} pairs ({parts})"
        raise DragomanError(f"{', '.join(config.train)}: {nothing}; {cure}")
    return Cleaning(left_out, left_out | ((diagnosis.flags & np.uint16(_NEVER_HELD_OUT)) != 0), reasons)


def _refuse(config: TrainConfig) -> None:
    """Read all texts strictly, which raises what is wrong with one of them, and refuse one without a pair."""
    for name, texts in (("training", config.train), ("validation", config.valid), ("test", config.test)):
        pairs = read_pairs(texts, config.source, config.target)
        usable = sum(1 for pair in pairs if all(map(str.strip, pair)))  # to the end, where there may be damage
        if texts and not usable:
            raise DragomanError(f"{', '.join(texts)}: no sentence pair; the {name} text is empty")


def _warn(findings: list[Finding], path: Path, report: Report) -> None:
    """Report errors with all that the check says about them, warnings in one line, and notes not at all."""
    for finding in findings:
        if finding.severity == "error":
            words = f"{finding.detail} {finding.advice}".strip()
            report(f"warning: {finding.reason} in the {finding.text} text ({finding.amount}): {words}")
    warnings = [f"{f.reason} ({f.amount} of the {f.text} text)" for f in findings if f.severity == "warning"]
    if warnings:
        report(f"found in the text: {', '.join(warnings)}; see {path}")
