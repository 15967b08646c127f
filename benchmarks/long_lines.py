"""Lines with many sentences: translated sentence by sentence, packed up to a limit, or as a whole.

    python benchmarks/long_lines.py [DEMO]

DEMO is the folder that `make demo` makes. Joins its test sentences to paragraphs of 40, translates them in several
ways, and compares BLEU with that of the sentences on lines of their own. Prints the figures and stores them in
benchmarks/results/long-lines.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hardware import describe_hardware

from dragoman import SearchConfig, Translator
from dragoman.evaluation.scores import evaluate
from dragoman.text.corpus import Pair, read_pairs

RESULTS = Path(__file__).parent / "results"
SENTENCES = 40
WHOLE = SearchConfig(long="error")


def main(demo: str = "demo") -> None:
    """Measure and store."""
    translator = Translator.load(f"{demo}/en-fr")
    pairs = list(read_pairs([f"{demo}/phrasebook/test"], "en", "fr"))
    longest = longest_side(translator, list(read_pairs([f"{demo}/phrasebook/train"], "en", "fr")))
    facts = translator.direction.facts | {"longest_training_side": longest}
    translator.direction = replace(translator.direction, facts=facts)
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    ways: dict[str, Callable[[Sequence[str]], str]] = {
        "lines of their own": lambda some: " ".join(t.text for t in translator.translate(some, WHOLE)),
        "sentence by sentence": lambda some: translator.translate([" ".join(some)])[0].text,
        "packed": lambda some: " ".join(t.text for t in translator.translate(list(packed(translator, some)), WHOLE)),
        "whole": lambda some: translator.translate([" ".join(some)], WHOLE)[0].text,
    }
    paragraphs = [range(start, start + SENTENCES) for start in range(0, len(pairs) - SENTENCES + 1, SENTENCES)]
    expected = [" ".join(references[i] for i in paragraph) for paragraph in paragraphs]
    figures = {}
    for name, way in ways.items():
        translations = [way([sources[i] for i in paragraph]) for paragraph in paragraphs]
        figures[name] = round(evaluate(translations, expected, "fr").bleu, 2)
        print(f"{name:22} BLEU {figures[name]:6.2f}")
    result = {
        "bleu": figures,
        "paragraphs": len(paragraphs),
        "longest training side": longest,
    }
    record = {"command": "python benchmarks/long_lines.py demo", "hardware": describe_hardware(), "result": result}
    (RESULTS / "long-lines.json").write_text(json.dumps(record, indent=1) + "\n")


def longest_side(translator: Translator, pairs: Sequence[Pair]) -> int:
    """Most subwords, the end included, of a side of the training text."""
    texts = [text for pair in pairs for text in pair]
    return max(len(ids) + 1 for ids in translator.vocabulary.source.encode(texts))


def packed(translator: Translator, sentences: Sequence[str]) -> Iterator[str]:
    """As many sentences together as fit the longest training sentence."""
    text = sentences[0]
    for sentence in sentences[1:]:
        (ids,) = translator.vocabulary.source.encode([f"{text} {sentence}"])
        if len(ids) >= translator.longest_source:
            yield text
            text = sentence
        else:
            text = f"{text} {sentence}"
    yield text


if __name__ == "__main__":
    main(*sys.argv[1:])
