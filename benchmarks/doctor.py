"""How well, how fast and in how much memory `dragoman check` finds what is wrong with a text.

    python benchmarks/doctor.py TRAIN SOURCE TARGET THIRD

TRAIN is clean parallel text as `--train` takes it, in the languages of the codes SOURCE and TARGET. THIRD is a file of
lines in another language.

- Planted faults: one of eight faults in one of twenty pairs. Recall is the share of these pairs that get the
  flag of their fault, and precision the share of the pairs with the flag in which it was planted.
- Speed: half a million and two million pairs are made of TRAIN (each line with a number, so that they differ), and
  checked in processes of their own. The speed is in processor time, the median of three runs on the smaller text. The
  memory is the peak of a process.

Stored in benchmarks/results/doctor.json.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
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

from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.issues import Flag
from dragoman.text.corpus import Pair, read_lines, read_pairs

RESULT = Path(__file__).parent / "results" / "doctor.json"
SIZES = (500_000, 2_000_000)
PREDICTION = "recall and precision above 0.95 for every fault, 100,000 pairs/s, 40 bytes a pair"
Plant = Callable[[Pair, Pair, str, random.Random], Pair]
FAULTS: dict[str, tuple[Flag, Plant]] = {
    "swapped": (Flag.LANGUAGE, lambda pair, other, third, chance: (pair[1], pair[0])),
    "untranslated": (Flag.LANGUAGE, lambda pair, other, third, chance: (pair[0], other[0])),
    "wrong source": (Flag.LANGUAGE, lambda pair, other, third, chance: (other[1], pair[1])),
    "third language": (Flag.LANGUAGE, lambda pair, other, third, chance: (pair[0], third)),
    "copy": (Flag.COPY, lambda pair, other, third, chance: (pair[0], pair[0])),
    "mojibake": (Flag.CHARACTERS, lambda pair, other, third, chance: (pair[0], _misread(f"{pair[1]} – déjà", chance))),
    "control": (
        Flag.CHARACTERS,
        lambda pair, other, third, chance: (pair[0] + chance.choice("\0\a\x85\u2028\ufffd"), pair[1]),
    ),
    "ratio": (Flag.RATIO, lambda pair, other, third, chance: (" ".join([pair[0], other[0]] * 3), pair[1][:10])),
}


def _misread(text: str, chance: random.Random) -> str:
    """The text as if its UTF-8 had been read in another encoding."""
    encoding = chance.choice(("latin-1", "cp1252"))
    return "".join(bytes([byte]).decode(encoding, "replace").replace("\ufffd", chr(byte)) for byte in text.encode())


def write_text(prefix: Path, pairs: list[Pair], codes: tuple[str, str], count: int) -> None:
    """Write so many pairs, which are repeated with numbers if there are not enough."""
    for side, code in enumerate(codes):
        with open(f"{prefix}.{code}", "w", encoding="utf-8") as file:
            for start in range(0, count, len(pairs)):
                number = f" {start // len(pairs)}" if count > len(pairs) else ""
                file.writelines(f"{pair[side]}{number}\n" for pair in pairs[: count - start])


def find_planted(pairs: list[Pair], codes: tuple[str, str], third: list[str]) -> dict[str, Any]:
    """Plant faults, check the text, and return recall and precision; lines of at least 20 letters are judged."""
    chance = random.Random(1)
    judged = [n for n, pair in enumerate(pairs) if all(sum(map(str.isalpha, side)) >= 20 for side in pair)]
    planted = dict(zip(chance.sample(judged, len(judged) // 20), [*FAULTS] * len(judged), strict=False))
    damaged = list(pairs)
    for number, name in planted.items():
        damaged[number] = FAULTS[name][1](pairs[number], pairs[chance.choice(judged)], chance.choice(third), chance)
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder, "text"), damaged, codes, len(pairs))
        flags = examine_text([f"{folder}/text"], *codes).flags
    found = Counter(name for number, name in planted.items() if flags[number] & np.uint16(FAULTS[name][0]))
    result: dict[str, Any] = {"pairs": len(pairs), "planted": len(planted)}
    result["recall"] = {name: round(found[name] / count, 4) for name, count in Counter(planted.values()).items()}
    for flag in sorted({flag for flag, _ in FAULTS.values()}):
        flagged = np.flatnonzero(flags & np.uint16(flag)).tolist()
        right = sum(number in planted and FAULTS[planted[number]][0] == flag for number in flagged)
        result.setdefault("precision", {})[str(flag.name).lower()] = round(right / max(len(flagged), 1), 4)
    return result


def _check(prefix: str, codes: tuple[str, str], answer: Any) -> None:
    start = time.process_time()
    examine_text([prefix], *codes)
    seconds = time.process_time() - start
    answer.put((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def measure(prefix: str, codes: tuple[str, str]) -> tuple[float, float]:
    """Check a text in a process of its own; returns its seconds and its peak of memory in MiB."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_check, args=(prefix, codes, answer))
    process.start()
    result: tuple[float, float] = answer.get()
    process.join()
    return result


def main() -> None:
    """Measure, print, store."""
    train, codes, third = sys.argv[1], (sys.argv[2], sys.argv[3]), sys.argv[4]
    pairs = list(read_pairs([train], *codes))
    result: dict[str, Any] = {
        "prediction": PREDICTION,
        "faults": find_planted(pairs, codes, list(read_lines(Path(third)))),
    }
    with tempfile.TemporaryDirectory() as folder:
        for size, runs in zip(SIZES, (3, 1), strict=True):
            write_text(Path(folder, "text"), pairs, codes, size)
            measured = [measure(f"{folder}/text", codes) for _ in range(runs)]
            seconds = statistics.median(run[0] for run in measured)
            result[f"{size:,} pairs"] = {
                "pairs_per_second": round(size / seconds),
                "runs_seconds": [round(run[0], 2) for run in measured],
                "peak_resident_mib": round(max(run[1] for run in measured)),
            }
    result["load"] = f"{os.getloadavg()[1]:.1f} processes wanted a core over the last five minutes"
    print(json.dumps(result, indent=1))
    stored = {
        "command": "python benchmarks/doctor.py TRAIN SOURCE TARGET THIRD",
        "hardware": describe_hardware(),
        "result": result,
    }
    RESULT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
