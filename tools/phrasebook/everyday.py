"""The hand-written part of the phrasebook: the sentences in `everyday/*.tsv`, and what they expand to.

A line is English, French and, where English leaves open who is spoken to, the French of *tu*, with tabs between them;
the second column then has *vous*. ``{a|b}`` offers alternatives: the n-th group of English goes with the n-th of
French, and the alternatives of the two with each other. Groups whose order differs are numbered: ``{1:a|b}``.
``[a|b]`` are alternatives of English alone. A line that starts with # is a heading.

    Where is {the station|the beach}?    Où est {la gare|la plage} ?
    Do you have a [flat|apartment]?      Est-ce que vous avez un appartement ?    Est-ce que tu as un appartement ?

    python -m tools.phrasebook.everyday FILE …     checks files and counts what is in them
"""

from __future__ import annotations

import itertools
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).with_name("everyday")
GROUP = re.compile(r"\{(?:(\d):)?([^{}]*)\}")
VARIANTS = re.compile(r"\[([^\[\]]*)\]")
_ODD = re.compile(r"[{}\[\]|]|  |^ | $|[’“”«»…]|[?!;:](?=\w)")
_NO_SPACE = re.compile(r"\S[?!;:]")


class Line(NamedTuple):
    """A hand-written line: templates of English, of French to *vous*, and of French to *tu* ("" where it says none)."""

    english: str
    french: str
    familiar: str


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file.

    Raises:
        ValueError: a line is not well formed; names file and line.
    """
    lines = []
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        if text and not text.startswith("#"):
            columns = text.split("\t")
            if len(columns) not in (2, 3):
                raise ValueError(f"{path.name}:{number}: {len(columns)} columns: {text}")
            line = Line(*columns, *[""] * (3 - len(columns)))
            try:
                _check(line)
            except ValueError as error:
                raise ValueError(f"{path.name}:{number}: {error}: {text}") from None
            lines.append(line)
    return lines


def expand(line: Line, most: int, rng: random.Random) -> Iterator[Line]:
    """Yield at most `most` of the sentences of a line, drawn at random."""
    sizes = [len(options) for options in _groups(line.english).values()]
    total = math.prod(sizes)
    for number in rng.sample(range(total), min(total, most)):
        choice = {}
        for label, size in zip(_groups(line.english), sizes, strict=True):
            number, choice[label] = divmod(number, size)
        chosen = Line(*(_fill(template, choice) for template in line))
        yield chosen._replace(english=VARIANTS.sub(lambda found: rng.choice(found[1].split("|")), chosen.english))


def _groups(template: str) -> dict[str, list[str]]:
    """The alternatives of each group, by its number, in the order of the numbers."""
    found = {
        label or str(place): options.split("|") for place, (label, options) in enumerate(GROUP.findall(template), 1)
    }
    return dict(sorted(found.items()))


def _fill(template: str, choice: dict[str, int]) -> str:
    places = itertools.count(1)

    def chosen(match: re.Match[str]) -> str:
        place = str(next(places))
        return match[2].split("|")[choice[match[1] or place]]

    return GROUP.sub(chosen, template)


def _check(line: Line) -> None:
    """Raise a ValueError where groups do not match or the French is not spaced as French is."""
    sizes = {label: len(options) for label, options in _groups(line.english).items()}
    for template in filter(None, line[1:]):
        if {label: len(options) for label, options in _groups(template).items()} != sizes:
            raise ValueError("the groups of the languages do not match")
    # Each alternative is written at least once.
    for turn in range(max(sizes.values(), default=1)):
        sentence = [_fill(template, {label: turn % size for label, size in sizes.items()}) for template in line]
        sentence[0] = VARIANTS.sub(lambda match: match[1].split("|")[0], sentence[0])
        if any(_ODD.search(side) for side in sentence):
            raise ValueError(f"odd characters or spaces in {sentence}")
        for french in filter(None, sentence[1:]):
            if _NO_SPACE.search(french):
                raise ValueError(f"no space before ?, !, ; or : in {french!r}")
            if sentence[0][0].isupper() and not (french[0].isupper() or french[0].isdigit()):
                raise ValueError(f"no capital in {french!r}")
            if (sentence[0][-1] in ".?!") != (french[-1] in ".?!"):
                raise ValueError(f"different ends in {sentence[0]!r} and {french!r}")


def main() -> None:
    """Check files and say how much is in them."""
    words: Counter[str] = Counter()
    for name in sys.argv[1:]:
        lines = read_lines(Path(name))
        rng = random.Random(1)
        sentences = [sentence for line in lines for sentence in expand(line, 40, rng)]
        repeated = [english for english, count in Counter(line.english for line in lines).items() if count > 1]
        grouped = sum("{" in line.english for line in lines)
        print(f"{name}: {len(lines)} lines, {grouped} with groups, {len(sentences)} sentences; repeated: {repeated}")
        words.update(word for line in sentences for word in re.findall(r"\w+", line.french.lower()))
    frequent = sum(count >= 10 for count in words.values())
    print(f"{len(words)} French word forms, {frequent} of them ten times or more")


if __name__ == "__main__":
    main()
