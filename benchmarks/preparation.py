"""How fast, and in how much memory and disk, `train` prepares millions of pairs: reading, subwords, token store.

    python benchmarks/preparation.py [PAIRS …]

Writes synthetic text (words of random letters, frequencies after Zipf) to a temporary folder and prepares it in a
process of its own. Prints seconds, peak memory of all processes and the size of what was made, and stores them in
benchmarks/results/preparation.json; up to two million pairs also on one core, and what SentencePiece alone takes to
encode the same text. Without PAIRS: one, two and fifty million. Linux only.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
from hardware import describe_hardware
from sentencepiece import SentencePieceProcessor

from dragoman.config import TrainConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.corpus import read_pairs
from dragoman.text.preprocess import prepare_text
from dragoman.text.subwords import Vocabulary

RESULT = Path(__file__).parent / "results" / "preparation.json"
PAIRS = (1_000_000, 2_000_000, 50_000_000)
COMPARED = 2_000_000  # pairs: more would take hours on one core
WORDS = 50_000
MEASURED = ("seconds", "seconds_of_sentencepiece_alone", "peak_resident_gib")


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


def prepare(folder: str, cores: int, answer: multiprocessing.Queue[dict[str, float]]) -> None:
    """Prepare the text on so many cores (0: all) and report."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: cores or None])
    out = Path(folder, f"out{cores}")
    out.mkdir()
    config = TrainConfig(source="xx", target="yy", train=[f"{folder}/train"], out=str(out))
    start = time.perf_counter()
    text = prepare_text(config, clean_text, print)
    seconds = time.perf_counter() - start
    report = text.train.report
    result = {
        "subwords": report.source_tokens + report.target_tokens,
        "seconds": round(seconds, 1),
        "pairs_per_second": round(report.pairs / seconds),
        "disk_gib": round(sum(path.stat().st_size for path in (out / "data").rglob("*")) / 2**30, 2),
    }
    if report.pairs <= COMPARED:
        result["seconds_of_sentencepiece_alone"] = round(encode_alone(text.vocabulary, config), 1)
    answer.put(result)


def encode_alone(vocabulary: Vocabulary, config: TrainConfig) -> float:
    """Seconds that SentencePiece takes to encode the text, in threads on all of this process's cores."""
    pairs, seconds, threads = read_pairs(config.train, "xx", "yy"), 0.0, len(os.sched_getaffinity(0))
    processor = SentencePieceProcessor(model_proto=vocabulary.source.serialized)
    while chunk := list(islice(pairs, 20_000)):
        for lines in zip(*chunk, strict=True):
            start = time.perf_counter()
            processor.encode(list(lines), num_threads=threads)
            seconds += time.perf_counter() - start
    return seconds


def resident_gib(process: int) -> float:
    """Memory of a process and its children now; what they share counts once."""
    kilobytes = 0
    with suppress(OSError, ValueError):
        for one in (process, *map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())):
            with suppress(OSError, IndexError):
                kilobytes += int(Path(f"/proc/{one}/smaps_rollup").read_text().split("\nPss:")[1].split()[0])
    return kilobytes / 2**20


def measure(pairs: int) -> dict[str, float]:
    """What preparing so many pairs takes, in a process of its own: on all cores, and maybe on one."""
    context, result = multiprocessing.get_context("spawn"), dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder), pairs)
        for cores in (0, 1) if pairs <= COMPARED else (0,):
            answer: multiprocessing.Queue[dict[str, float]] = context.Queue()
            process = context.Process(target=prepare, args=(folder, cores, answer))
            process.start()
            peak = 0.0
            while answer.empty() and process.is_alive():
                peak = max(peak, resident_gib(process.pid or 0))
                time.sleep(0.5)
            found = answer.get(timeout=60) | {"peak_resident_gib": round(peak, 2)}
            process.join()
            result |= {f"on_one_core_{name}": found[name] for name in MEASURED} if cores else found
    if "on_one_core_seconds" in result:
        result["times_as_fast_as_on_one_core"] = round(result["on_one_core_seconds"] / result["seconds"], 2)
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
