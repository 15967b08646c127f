"""Whole texts from translated lines: line breaks and indentation stay, and two translations can follow each other."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from dragoman.inference.alignment import Alignment
from dragoman.inference.results import best_combinations
from dragoman.serving.batching import Batcher, Line, Wanted

_BREAK = re.compile(r"(\r\n|[\r\n])")


@dataclass(frozen=True)
class Answer:
    """A translated text; its numbers are sums over its sentences."""

    text: str
    score: float = 0.0
    log_prob: float = 0.0
    alternatives: "list[Answer]" = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Placeholders of the text that the translation does not have exactly once."""
    alignment: Alignment | None = None
    """Of the whole text, if it was wanted."""


async def translate_texts(route: Sequence[Batcher], texts: Sequence[str], wanted: Wanted) -> list[Answer]:
    """Translate texts of any number of lines along a route: by one model, or by several after each other."""
    answers = [Answer(text) for text in texts]
    for number, batcher in enumerate(route, start=1):
        is_last = number == len(route)
        before = answers
        now = wanted if is_last else Wanted(alignment=wanted.alignment)
        answers = await _translate([answer.text for answer in before], batcher, now)
        if number > 1:
            answers = [_follow(*pair) for pair in zip(before, answers, strict=True)]
    return answers


async def _translate(texts: Sequence[str], batcher: Batcher, wanted: Wanted) -> list[Answer]:
    pieces = [_BREAK.split(text) for text in texts]  # lines at even places, breaks at odd ones
    lines = [line.strip() for of_text in pieces for line in of_text[::2]]
    found = iter(await batcher.translate(lines, wanted))
    return [_join(of_text, list(islice(found, len(of_text[::2]))), wanted) for of_text in pieces]


def _join(pieces: Sequence[str], found: Sequence[Line], wanted: Wanted) -> Answer:
    """The answer to a text of these pieces, whose lines were found."""
    answers: dict[str, Answer] = {}  # other subwords can be the same text
    for chosen in best_combinations([translation.candidates for translation, _ in found], wanted.candidates):
        texts = iter(one.text for one in chosen)
        text = "".join(_padded(piece, next(texts)) if i % 2 == 0 else piece for i, piece in enumerate(pieces))
        score, log_prob = (sum(getattr(one, name) for one in chosen) for name in ("score", "log_prob"))
        answers.setdefault(text, Answer(text, score, log_prob, lost=[name for one in chosen for name in one.lost]))
    best, *others = answers.values()
    return replace(
        best, alternatives=others, alignment=_joined([a for _, a in found if a]) if wanted.alignment else None
    )


def _padded(line: str, translation: str) -> str:
    """A translation between the spaces that stood around its line."""
    start = len(line) - len(line.lstrip())
    return line[:start] + translation + line[max(start, len(line.rstrip())) :]


def _joined(alignments: Sequence[Alignment]) -> Alignment:
    whole = Alignment([], [], [])
    for one in alignments:
        whole.links.extend((s + len(whole.source), t + len(whole.target)) for s, t in one.links)
        whole.source.extend(word.replace("▁", "") for word in one.source)  # subwords of languages without spaces
        whole.target.extend(word.replace("▁", "") for word in one.target)
    return whole


def _follow(first: Answer, second: Answer) -> Answer:
    """The answer of the second translation, which took the first one's text, as an answer to the text before both."""
    alignment = None
    if first.alignment and second.alignment and first.alignment.target == second.alignment.source:
        links = [(s, t) for between, t in second.alignment.links for s, m in first.alignment.links if m == between]
        links.sort(key=lambda link: link[::-1])
        alignment = Alignment(links, first.alignment.source, second.alignment.target)
    return replace(
        second,
        score=first.score + second.score,
        log_prob=first.log_prob + second.log_prob,
        alternatives=[_follow(first, other) for other in second.alternatives],
        lost=[*first.lost, *second.lost],
        alignment=alignment,
    )
