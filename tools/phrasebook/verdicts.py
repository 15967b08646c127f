"""How many of the held-out sentences the demo's models translate acceptably, by verdicts of a reader.

    python -m tools.phrasebook.verdicts MODEL …     counts, and lists what nobody has judged yet

A translation that equals the one in `held_out.tsv` is right. The others were read one by one: `verdicts.tsv` has the
English, the translation, and "yes" if a French speaker would accept it: the whole meaning, grammatical, in a register
that fits. One wrong ending, or one word that is lost, is a "no".
"""

from __future__ import annotations

import sys
from pathlib import Path

from dragoman.inference.translator import Translator

HERE = Path(__file__).parent


def read_table(path: Path) -> list[list[str]]:
    """Return the columns of each line of a file whose columns are separated by tabs."""
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def main(models: list[str]) -> None:
    """Count and list for each model folder."""
    expected = {line[0]: line[1] for line in read_table(HERE / "held_out.tsv")}
    verdicts = {(english, french): verdict for english, french, verdict in read_table(HERE / "verdicts.tsv")}
    verdicts |= dict.fromkeys(expected.items(), "yes")
    for model in models:
        texts = [found.text for found in Translator.load(model).translate(list(expected))]
        found = [(pair, verdicts.get(pair)) for pair in zip(expected, texts, strict=True)]
        accepted = sum(verdict == "yes" for _, verdict in found)
        exact = sum(expected[english] == french for (english, french), _ in found)
        open_ones = ["\t".join(pair) for pair, verdict in found if verdict is None]
        print(f"{model}: {accepted} of {len(found)} acceptable, {exact} of them as in held_out.tsv", file=sys.stderr)
        print(*open_ones, sep="\n", end="\n" * bool(open_ones))


if __name__ == "__main__":
    main(sys.argv[1:])
