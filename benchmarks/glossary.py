"""What a glossary does to translations: terms honoured, and BLEU, with and without it.

    python benchmarks/glossary.py MULTI30K MODEL …

MODELs are model folders of English to French. Terms are words of the test text that mean the same in source and
reference, by the training text, as for planting placeholders: up to three in each sentence. They are given as the
reference has them, and in the form that the training text has most often. No model was trained on terms, so all are
held out. Stores means over the models in benchmarks/results/glossary.json.
"""

import copy
import json
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from hardware import describe_hardware

from dragoman.config import SearchConfig
from dragoman.evaluation import scores as metrics
from dragoman.inference.glossary import Glossary
from dragoman.inference.translator import Translator
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.planting import Planter

RESULT = Path(__file__).parent / "results" / "glossary.json"
SEARCH = SearchConfig(sentences="keep")
LANGUAGES = ("en", "fr")
Terms = dict[str, str]


class OfEachLine(Glossary):
    """Terms that differ from line to line."""

    def __init__(self, lines: list[str], terms: list[Terms]) -> None:
        self._of = {line: Glossary(own, *LANGUAGES) for line, own in zip(lines, terms, strict=True)}

    def missing(self, source: str, translation: str) -> list[tuple[range, str]]:
        """As Glossary.missing."""
        return self._of[source].missing(source, translation)


def words_alike(plant: Planter, pair: Pair) -> list[tuple[str, str]]:
    """Words of a pair that mean the same."""
    return [(pair[0][slice(*source)], pair[1][slice(*target)]) for source, target in plant._words_alike(pair)]


def usual_forms(train: list[Pair], plant: Planter) -> Terms:
    """For each source word, the word that most often means the same."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pair in train:
        for source, target in words_alike(plant, pair):
            found[source][target] += 1
    return {source: targets.most_common(1)[0][0] for source, targets in found.items()}


def measure(found: list[str], test: list[Pair], terms: list[Terms]) -> dict[str, float]:
    """BLEU of translations, and the shares of terms that they have as given, and perhaps inflected."""
    exact = [term in text.split() or f" {term}" in f" {text}" for text, own in zip(found, terms, strict=True)
             for term in own.values()]  # fmt: skip
    lacking = [
        len(Glossary(own, *LANGUAGES).missing(source, text))
        for (source, _), text, own in zip(test, found, terms, strict=True)
    ]
    return {
        "terms honoured": 100 * (1 - sum(lacking) / len(exact)),
        "as they are given": 100 * fmean(exact),
        "BLEU": metrics.evaluate(found, [target for _, target in test], LANGUAGES[1])["bleu"],
    }


def main() -> None:
    """Measure, print, store."""
    data, *folders = sys.argv[1:]
    train, test = (list(read_pairs([f"{data}/{name}"], *LANGUAGES)) for name in ("train", "test_2016_flickr"))
    plant, choose = Planter(train, 1.0, 1), random.Random(1)
    usual, lines = usual_forms(train, plant), [source for source, _ in test]
    chosen = [choose.sample(alike, min(len(alike), 3)) for alike in (words_alike(plant, pair) for pair in test)]
    given = {
        "as in the reference": [dict(alike) for alike in chosen],
        "in the usual form": [{source: usual.get(source, target) for source, target in alike} for alike in chosen],
    }
    by_model: list[dict[str, dict[str, float]]] = []
    for folder in folders:
        translator, scores = Translator.load(folder, precision="fp32"), dict[str, dict[str, float]]()
        plain = [one.text for one in translator.translate(lines, SEARCH)]
        for name, terms in given.items():
            scores[f"{name}, without a glossary"] = measure(plain, test, terms)
            own = copy.copy(translator)
            own._glossary = OfEachLine(lines, terms)
            scores[name] = measure([one.text for one in own.translate(lines, SEARCH)], test, terms)
        by_model.append(scores)
        print(folder, json.dumps(scores), flush=True)
    result: dict[str, Any] = {"sentences": len(test), "terms": sum(map(len, chosen))}
    for name in by_model[0]:
        for figure in by_model[0][name]:
            values = [scores[name][figure] for scores in by_model]
            spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
            result[f"{name}: {figure}"] = f"{fmean(values):.2f}{spread} ({len(values)} runs)"
    models = "of preset small, 3,000 steps, without symbols for placeholders, one for each seed"
    commands = [f"python benchmarks/glossary.py MULTI30K MODEL …  # {models}"]
    content = {"commands": commands, "hardware": describe_hardware(), "result": result}
    print(json.dumps(content, indent=1, ensure_ascii=False))
    RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
