"""The whole phrasebook: hand-written sentences and their variations, and the sentences of the grammar.

`held_out.tsv` has 200 hand-written sentences for testing: no other part has one of them, whatever is added to it or
left out. The other sentences that are held out combine in a new way what training shows.
"""

from __future__ import annotations

import random
from pathlib import Path

from dragoman.datasets.phrasebook import Phrasebook
from dragoman.text.corpus import Pair
from tools.phrasebook.everyday import FOLDER, GROUP, Line, expand, read_lines
from tools.phrasebook.frames import generate_grammar
from tools.phrasebook.variations import addressed, as_typed, bare

HELD_OUT = Path(__file__).with_name("held_out.tsv")
MOST = 12
"""How many sentences are made of a line."""
PLAIN, SHORT = 3, 8
"""How often a line without alternatives is varied, which gives it weight: any, and one of at most five words."""
RECOMBINED = 750
"""How many lines give one of their combinations to validation (a third of them) or testing."""
TYPED = 0.15
"""The share of sentences that training also shows as somebody might type them."""


def generate_phrasebook(seed: int = 1) -> Phrasebook:
    """Return the phrasebook of a seed, the same on every machine.

    Raises:
        ValueError: a file of sentences has a fault.
    """
    rng = random.Random(seed)
    everyday = [(line.english, line.french) for line in read_lines(HELD_OUT)]
    train, recombined = _hand_written(rng)
    grammar = generate_grammar(seed)
    valid = recombined[::3] + grammar.valid
    test = [pair for place, pair in enumerate(recombined) if place % 3] + grammar.test
    held = {bare(side) for pair in everyday for side in pair}
    taken: set[str] = set()
    kept = []
    for part in (test, valid, train + grammar.train):
        first = dict(reversed(part))  # of several translations
        pairs = [pair for pair in first.items() if not taken & set(pair) and not held & set(map(bare, pair))]
        taken |= {side for pair in pairs for side in pair}
        kept.append(pairs)
    test, valid, train = kept
    rng.shuffle(train)
    return Phrasebook(train=train, valid=valid, test=test, everyday=everyday)


def _hand_written(rng: random.Random) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs to train on, and pairs that combine the alternatives of their line as no other does."""
    lines = [line for path in sorted(FOLDER.glob("*.tsv")) for line in read_lines(path)]
    several = [place for place, line in enumerate(lines) if len(GROUP.findall(line.english)) > 1]
    held = set(rng.sample(several, min(RECOMBINED, len(several))))
    train, recombined = [], []
    for place, line in enumerate(lines):
        sentences = list(expand(line, MOST, rng))
        if place in held:
            last = sentences.pop()
            recombined.append((last.english, last.french))
        times = 1 if len(sentences) > 1 else SHORT if len(line.english.split()) <= 5 else PLAIN
        train += [pair for sentence in sentences * times for pair in _variations(sentence, rng)]
    rng.shuffle(recombined)
    return train, recombined


def _variations(sentence: Line, rng: random.Random) -> list[Pair]:
    pairs = list(addressed(sentence, rng))
    return pairs + [(as_typed(english, rng), french) for english, french in pairs if rng.random() < TYPED]
