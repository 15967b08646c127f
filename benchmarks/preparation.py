"""How fast, and in how much memory and disk, `train` prepares millions of pairs: reading, subwords, token store.

    python benchmarks/preparation.py [PAIRS …]

Writes synthetic text (words of random letters, frequencies after Zipf) to a temporary folder, prepares it in a process
of its own, prints pairs per second, peak resident memory and the size of what was made, and stores them in
benchmarks/results/preparation.json. Without PAIRS: one, two and eight million.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from hardware import describe_hardware

from dragoman.config import TrainConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.preprocess import prepare_text

RESULT = Path(__file__).parent / "results" / "preparation.json"
PAIRS = (1_000_000, 2_000_000, 8_000_000)
WORDS = 50_000


def write_text(folder: Path, pairs: int) -> None:
    """Write pairs of 5 to 35 words each."""
    generator = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    for language in ("xx", "yy"):
        lexicon = ["".join(generator.choice(letters, size=size)) for size in generator.integers(1, 11, WORDS)]
        with (folder / f"train.{language}").open("w", encoding="utf-8") as file:
            for start in range(0, pairs, 10_000):
                count = min(10_000, pairs - start)
                lengths = generator.integers(5, 36, count)
                ranks = np.minimum(generator.zipf(1.2, int(lengths.sum())) - 1, WORDS - 1)
                words = iter(ranks.tolist())
                file.writelines(" ".join(lexicon[next(words)] for _ in range(n)) + "\n" for n in lengths.tolist())


def prepare(folder: str, pairs: int, answer: multiprocessing.Queue[dict[str, float]]) -> None:
    """Prepare the text and report."""
    config = TrainConfig(source="xx", target="yy", train=[f"{folder}/train"], out=f"{folder}/out")
    start = time.perf_counter()
    text = prepare_text(config, clean_text, print)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    answer.put(
        {
            "subwords": text.train.report.source_tokens + text.train.report.target_tokens,
            "seconds": round(seconds, 1),
            "pairs_per_second": round(pairs / seconds),
            "peak_resident_gib": round(peak, 2),
            "disk_gib": round(sum(path.stat().st_size for path in Path(folder, "out/data").rglob("*")) / 2**30, 2),
        }
    )


def measure(pairs: int) -> dict[str, float]:
    """What preparing so many pairs takes, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/out")
        write_text(Path(folder), pairs)
        answer: multiprocessing.Queue[dict[str, float]] = context.Queue()
        process = context.Process(target=prepare, args=(folder, pairs, answer))
        process.start()
        result = answer.get()
        process.join()
    print(json.dumps(result, indent=1))
    return result


def main() -> None:
    """Measure, print, store."""
    result = {f"{pairs:,} pairs": measure(pairs) for pairs in map(int, sys.argv[1:] or PAIRS)}
    command = " ".join(["python benchmarks/preparation.py", *sys.argv[1:]])
    content = {"command": command, "hardware": describe_hardware(), "result": result}
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
