"""What people add to a sentence or leave out: a name, politeness, contractions, capitals."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from dragoman.text.corpus import Pair
from tools.phrasebook.everyday import Line

FRIENDS = (
    "Paul Thomas Nicolas Hugo Louis Lucas Daniel Peter David Marie Julie Emma Alice Sarah Camille Anna Laura Sophie"
)
FAMILIAR = [(name, name) for name in FRIENDS.split()]
FAMILIAR += [("Mum", "maman"), ("Mom", "maman"), ("Dad", "papa"), ("darling", "mon chéri"), ("my friend", "mon ami")]
POLITE = [
    ("sir", "monsieur"), ("madam", "madame"), ("doctor", "docteur"), ("Mr Martin", "monsieur Martin"),
    ("Mrs Bernard", "madame Bernard"), ("Mr Smith", "monsieur Smith"), ("Mrs Brown", "madame Brown"),
]  # fmt: skip
OPENINGS = [
    ("Excuse me", "Excusez-moi", "Excuse-moi"), ("Sorry", "Désolé", "Désolé"), ("Hello", "Bonjour", "Bonjour"),
    ("Please", "S'il vous plaît", "S'il te plaît"), ("Tell me", "Dites-moi", "Dis-moi"),
    ("By the way", "Au fait", "Au fait"), ("Good morning", "Bonjour", "Bonjour"),
]  # fmt: skip
PLEASE = ("please", "s'il vous plaît", "s'il te plaît")

_QUESTION = re.compile(
    "(?:Where|What|When|Why|Who|How|Which|Do|Does|Did|Is|Are|Was|Were|Can|Could|Would|Will|Have|Has|Should|May) .*[?]$"
)
_REQUEST = re.compile("(?:(?:Can|Could|May|Would) |I'd like |I would like |We'd like |Give |Show |Bring |Pass )")
_LONG_FORMS = [
    (r"\bcan't\b", "cannot"),
    (r"\bwon't\b(?! (?:I|you|he|she|it|we|they)\b)", "will not"),
    (r"(?<=[a-z])n't\b(?! (?:I|you|he|she|it|we|they)\b)", " not"),
    (r"\bI'm\b", "I am"),
    (r"\b(I|[Yy]ou|[Hh]e|[Ss]he|[Ww]e|[Tt]hey)'d like\b", r"\1 would like"),
    (r"\b([Yy]ou|[Ww]e|[Tt]hey)'re\b", r"\1 are"),
    (r"\b(I|[Yy]ou|[Ww]e|[Tt]hey)'ve\b", r"\1 have"),
    (r"\b(I|[Yy]ou|[Hh]e|[Ss]he|[Ii]t|[Ww]e|[Tt]hey)'ll\b", r"\1 will"),
    (r"\b([Ww]hat|[Ww]here|[Tt]hat|[Ii]t|[Tt]here)'s\b(?! (?:been|got)\b)", r"\1 is"),
]
_SHORT_FORMS = [
    (r"\bcannot\b", "can't"),
    (r"\b(do|does|did|is|are|was|were|have|has|had|could|would|should) not\b", r"\1n't"),
    (r"\bI am\b(?! ?[,.])", "I'm"),
    (r"\bI would like\b", "I'd like"),
    (r"\b([Yy]ou|[Ww]e|[Tt]hey) are\b", r"\1're"),
    (r"\b(I|[Yy]ou|[Hh]e|[Ss]he|[Ww]e|[Tt]hey) will\b", r"\1'll"),
    (r"\b([Ii]t|[Tt]hat) is\b(?!\.)", r"\1's"),
]


def addressed(line: Line, rng: random.Random) -> Iterator[Pair]:
    """Yield the sentence as it is, and as it is said to somebody: a name decides between *tu* and *vous*."""
    yield line.english, line.french
    if line.english[-1] not in ".?!":
        return
    if line.familiar:
        name = rng.choice(FAMILIAR)
        yield _ended(line.english, line.familiar, name)
        if _QUESTION.match(line.english) and rng.random() < 0.3:
            yield f"{name[0].capitalize()}, {_lower(line.english)}", f"{name[1].capitalize()}, {_lower(line.familiar)}"
    if rng.random() < 0.3:
        yield _ended(line.english, line.french, rng.choice(POLITE))
    if _QUESTION.match(line.english) and rng.random() < 0.3:
        english, french, _ = rng.choice(OPENINGS)
        yield f"{english}, {_lower(line.english)}", f"{french}, {_lower(line.french)}"
    if _REQUEST.match(line.english) and "please" not in line.english:
        yield _ended(line.english, line.french, PLEASE[:2])
        if line.familiar:
            name = rng.choice(FAMILIAR)
            yield _ended(line.english, line.familiar, (f"please, {name[0]}", f"{PLEASE[2]}, {name[1]}"))


def as_typed(english: str, rng: random.Random) -> str:
    """Return an English sentence with other contractions, or typed without care."""
    for pattern, replacement in _LONG_FORMS if rng.random() < 0.5 else _SHORT_FORMS:
        english = re.sub(pattern, replacement, english)
    if rng.random() < 0.2:
        english = english.rstrip(".?!")
    return english if rng.random() < 0.8 else english[:1].lower() + english[1:]


def bare(sentence: str) -> str:
    """Return what is the same in all variations of a sentence, English or French; all digits count as the same."""
    if "'" in sentence:  # as in every contraction
        for pattern, replacement in _LONG_FORMS:
            sentence = re.sub(pattern, replacement, sentence)
    parts = [part.strip(" .?!").lower() for part in re.sub(r"\d", "0", sentence).split(",")]
    return ", ".join(part for part in parts if part not in _ADDED)


def _ended(english: str, french: str, added: tuple[str, ...]) -> Pair:
    """Put something before the full stop of both languages."""
    stop, arret = english[-1], french[len(french.rstrip(" .?!")) :]
    return f"{english[:-1]}, {added[0]}{stop}", f"{french.removesuffix(arret)}, {added[1]}{arret}"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


_ADDED = {word.lower() for added in (*FAMILIAR, *POLITE, *OPENINGS, PLEASE) for word in added}
