"""How fast, and in how much memory, `dragoman check` examines text of the size of captions (60 characters a side).

    python benchmarks/doctor.py [TRAIN]

TRAIN is a pair of files as `--train` takes it, English and German; without it, words of random letters are written.
Half a million and five million pairs are made of it (each line with a number, so that they differ), and examined in
processes of their own. The cheap checks are reading, characters, empty sides, copies, lengths and exact duplicates; the
full check is all that `check` does. Speeds are medians of three runs on the smaller text, and how the time is spread
over the checks comes from one more; memory is the peak of a process, on both. Stored in benchmarks/results/doctor.json.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hardware import describe_hardware

from dragoman.corpus_check.blocks import read_blocks
from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.duplicates import Repeats, near_keys, pair_keys
from dragoman.corpus_check.pair_checks import find_copies, find_empty, find_languages, find_lengths, find_odd_characters
from dragoman.corpus_check.survey import survey_text
from dragoman.text.corpus import locate, read_pairs

RESULT = Path(__file__).parent / "results" / "doctor.json"
SIZES = (500_000, 5_000_000)
LANGUAGES = ("en", "de")
PREDICTION = "cheap 350,000 pairs/s, full 180,000 pairs/s, memory flat but for 2 bytes a pair of flags"


def write_text(prefix: str, train: str | None, pairs: int) -> None:
    """Write that many different pairs."""
    base = list(read_pairs([train], *LANGUAGES)) if train else random_pairs()
    for side, language in enumerate(LANGUAGES):
        with open(f"{prefix}.{language}", "w", encoding="utf-8") as file:
            for number in range(0, pairs, len(base)):
                some = base[: pairs - number]
                file.writelines(f"{pair[side]} {number // len(base)}\n" for pair in some)


def random_pairs() -> list[tuple[str, str]]:
    """Pairs of words of random letters."""
    generator = np.random.default_rng(1)
    lexicons = []
    for letters in ("etaoinshrdlucmfwypvbgk", "enisratdhulcgmobwfkzäöü"):
        sizes = generator.integers(2, 9, 20_000)
        lexicons.append(["".join(generator.choice(list(letters), size=size)) for size in sizes])
    sentences = (generator.integers(0, 20_000, generator.integers(5, 18)) for _ in range(30_000))
    return [tuple(" ".join(lexicon[word] for word in words) for lexicon in lexicons) for words in sentences]  # type: ignore[misc]


def cheap(prefix: str) -> dict[str, float]:
    """Reading, characters, empty sides, copies, lengths, exact duplicates; seconds of each."""
    corpus = locate(prefix, *LANGUAGES)
    usual = survey_text([corpus], LANGUAGES, lambda done, total: None).usual
    spent: Counter[str] = Counter()
    start, first = time.perf_counter(), 0
    checks = {
        "empty sides": find_empty,
        "characters": lambda block: find_odd_characters(block, usual),
        "copies": find_copies,
        "lengths": lambda block: find_lengths(block, usual),
    }
    with Repeats(SIZES[0]) as repeats:
        lap = start
        for block in read_blocks(corpus):
            lap = _spent(spent, "reading", lap)
            for name, check in checks.items():
                list(check(block))
                lap = _spent(spent, name, lap)
            repeats.add(pair_keys(block), np.arange(first, first + len(block)))
            lap, first = _spent(spent, "duplicates", lap), first + len(block)
        list(repeats.found())
        _spent(spent, "duplicates", lap)
    total = time.perf_counter() - start
    for block in read_blocks(corpus):  # what the full check adds, beside the survey
        lap = time.perf_counter()
        list(find_languages(block, usual))
        lap = _spent(spent, "languages (not cheap)", lap)
        near_keys(block)
        _spent(spent, "near duplicates (not cheap)", lap)
    return {"total": total, **spent}


def full(prefix: str) -> dict[str, float]:
    """All that `check` does."""
    start = time.perf_counter()
    diagnosis = examine_text([prefix], *LANGUAGES)
    return {"total": time.perf_counter() - start, "pairs": diagnosis.pairs}


def _spent(spent: Counter[str], name: str, since: float) -> float:
    now = time.perf_counter()
    spent[name] += now - since  # type: ignore[assignment]
    return now


def _in_process(work: Callable[[str], dict[str, float]], prefix: str, answer: Any) -> None:
    result = work(prefix)
    answer.put(result | {"peak_resident_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)})


def measure(work: Callable[[str], dict[str, float]], prefix: str) -> dict[str, float]:
    """Do the work in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_in_process, args=(work, prefix, answer))
    process.start()
    result: dict[str, float] = answer.get()
    process.join()
    return result


def main() -> None:
    """Measure, print, store."""
    train = sys.argv[1] if len(sys.argv) > 1 else None
    result: dict[str, Any] = {"prediction": PREDICTION}
    with tempfile.TemporaryDirectory() as folder:
        small, large = (f"{folder}/{size}" for size in SIZES)
        write_text(small, train, SIZES[0])
        for work in (cheap, full):
            runs = [measure(work, small) for _ in range(3)]
            seconds = statistics.median(run["total"] for run in runs)
            result[f"{work.__name__}_pairs_per_second"] = round(SIZES[0] / seconds)
            result[f"{work.__name__}_runs_seconds"] = [round(run["total"], 2) for run in runs]
            if work is cheap:
                spent = {name: value for name, value in runs[-1].items() if name not in ("total", "peak_resident_mib")}
                result["microseconds_per_pair"] = {n: round(v / SIZES[0] * 1e6, 2) for n, v in spent.items()}
            else:
                result["peak_resident_mib"] = {SIZES[0]: max(run["peak_resident_mib"] for run in runs)}
        write_text(large, train, SIZES[1])
        run = measure(full, large)
        result["peak_resident_mib"][SIZES[1]] = run["peak_resident_mib"]
        result["full_pairs_per_second_of_the_large_text"] = round(SIZES[1] / run["total"])
    result["load"] = f"{os.getloadavg()[1]:.1f} processes wanted a core over the last five minutes"
    command = "python benchmarks/doctor.py" + (" TRAIN" if train else "")
    print(json.dumps(result, indent=1))
    stored = {"command": command, "hardware": describe_hardware(), "result": result}
    RESULT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
