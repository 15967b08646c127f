"""Which cross-attention aligns words best: alignment error rate by layer, decoding step and head.

    python benchmarks/alignments.py MODEL GOLD.tsv

MODEL is a model folder, GOLD.tsv one of benchmarks/alignments (its README.md has the format). The model reads each
reference translation (teacher forcing), `dragoman.inference.alignment.align` turns its attention into links, and these
are compared with the gold links: alignment error rate (AER; Och and Ney, 2003, "A Systematic Comparison of Various
Statistical Alignment Models"), precision and recall, all as percentages. Prints tables and stores everything in
benchmarks/results/alignments-GOLD.json.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hardware import describe_hardware
from numpy.typing import NDArray
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, DragomanError
from dragoman.inference.alignment import NO_WORD, Links, align, alignment_layer, words_of
from dragoman.model.attention import AttentionMaps

RESULTS = Path(__file__).parent / "results"
RESAMPLES = 10_000
MODELS = {
    "en-de": "dragoman train --source en --target de --train MULTI30K/train --valid MULTI30K/val --out MODEL "
    "--preset small --model.embedding-gain 1 --model.init-gain 1 --optimizer.batch-tokens 3072 "
    "--optimizer.schedule linear --max-steps 1200 --validation.every 300",
    "en-fr": "make demo",
}
PLACES = {"en-de": "MODEL", "en-fr": "demo/en-fr"}
"""How the models of the stored results were made, and where they are then."""
FACTS = ("training_pairs", "steps", "minutes", "precision", "seed", "validation")
Link = tuple[int, int]


@dataclass(frozen=True)
class Sentence:
    """A pair and its gold links."""

    source: str
    target: str
    sure: frozenset[Link]
    possible: frozenset[Link]
    """The sure ones among them."""


@dataclass(frozen=True)
class Attention:
    """What the model attended to while it read a pair's target."""

    source_words: list[int]
    """The word of each source subword (S), NO_WORD for `</s>`."""
    target_words: list[int]
    """The word of each target subword (T), NO_WORD for `</s>`."""
    layers: list[Tensor]
    """Cross-attention of each decoder layer, (H, T, S)."""


@dataclass(frozen=True)
class Rule:
    """One way to read links off the attention."""

    layer: int | None
    """Counted from 0; None for the mean of all."""
    step: str
    """ "input": the step that reads the word; "predicting": the one before, that predicts it."""
    head: int | None = None
    """Counted from 0; None for the mean of all."""
    null: bool = False
    """Whether a target word stays without a link where `</s>` has more attention than any source word."""
    first: bool = False
    """Whether a target word's first subword alone decides."""

    @property
    def name(self) -> str:
        """Layer and step, for tables."""
        return f"{'all layers' if self.layer is None else f'layer {self.layer + 1}'}, {self.step} step"


def read_gold(path: Path) -> list[Sentence]:
    """Read source, target and links, separated by tabs.

    Raises:
        DragomanError: a line is not of this form, or links a word that is not there.
    """
    sentences = []
    for number, line in enumerate(path.read_text(encoding="utf-8").rstrip("\n").split("\n"), start=1):
        fields = line.split("\t")
        found = [re.fullmatch(r"(\d+)([-?])(\d+)", link) for link in fields[-1].split(" ")]
        if len(fields) != 3 or None in found:
            raise DragomanError(f"{path}, line {number}: write source, target and links like 0-0 1?2 between tabs")
        links = {(int(m[1]), int(m[3])): m[2] for m in found if m is not None}
        sizes = [len(field.split(" ")) for field in fields[:2]]
        if len(links) < len(found) or any(i >= sizes[0] or j >= sizes[1] for i, j in links):
            raise DragomanError(f"{path}, line {number}: a link stands there twice, or names a word that is not there")
        sure = frozenset(link for link, mark in links.items() if mark == "-")
        sentences.append(Sentence(fields[0], fields[1], sure, frozenset(links)))
    return sentences


@torch.inference_mode()
def attend(folder: ModelFolder, sentence: Sentence) -> Attention:
    """Let the model read a pair.

    Raises:
        DragomanError: its subwords do not spell the pair's words.
    """
    sides = ((folder.vocabulary.source, sentence.source), (folder.vocabulary.target, sentence.target))
    ids = [model.encode([text])[0] for model, text in sides]
    words = [words_of(model.pieces(i)) for (model, _), i in zip(sides, ids, strict=True)]
    for (_, text), numbers in zip(sides, words, strict=True):
        if numbers[-1] + 1 != len(text.split(" ")):
            raise DragomanError(f"the model's subwords see {numbers[-1] + 1} words in {text!r}")
    maps: AttentionMaps = {}
    folder.model(torch.tensor([[*ids[0], EOS]]), torch.tensor([[BOS, *ids[1]]]), maps)
    names = [f"decoder.{layer}.cross_attention" for layer in range(folder.model.config.num_decoder_layers)]
    return Attention([*words[0], NO_WORD], [*words[1], NO_WORD], [maps[name][0] for name in names])


def shipped_step() -> str:
    """The step at which align() reads a word's attention, found by trying."""
    probe = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # the step that predicts the word looks at 0, the next one at 1
    return "predicting" if align(probe, [0, 1], [0, NO_WORD]) == [(0, 0)] else "input"


def links(attention: Attention, rule: Rule) -> Links:
    """The links that a rule finds, by the code that `translate --alignments` runs."""
    weights = torch.cat(attention.layers) if rule.layer is None else attention.layers[rule.layer]
    weights = weights if rule.head is None else weights[rule.head : rule.head + 1]
    if rule.step != shipped_step():  # what align() does not read: move it to where it does
        early = rule.step == "predicting"
        weights = torch.cat([weights[:, :1], weights], dim=1) if early else weights[:, 1:]
    sources, targets = attention.source_words, attention.target_words
    end = max(sources) + 1
    if rule.null:  # </s> as one more word, whose links are then dropped
        sources = [end if word == NO_WORD else word for word in sources]
    if rule.first:
        targets = [word if word not in targets[:place] else NO_WORD for place, word in enumerate(targets)]
    return [(source, target) for source, target in align(weights, sources, targets) if source < end]


def diagonal(attention: Attention) -> Links:
    """Each target word with the source word at the same fraction of the sentence."""
    sources, targets = max(attention.source_words), max(attention.target_words)
    return [(round(j * sources / max(1, targets)), j) for j in range(targets + 1)]


def same_position(attention: Attention) -> Links:
    """The first word with the first, the second with the second, …"""
    return [(j, j) for j in range(min(max(attention.source_words), max(attention.target_words)) + 1)]


def one_gold_link(sentence: Sentence) -> Links:
    """A gold link for each target word that has one, a sure one if possible: what one link per word can reach."""
    best: dict[int, int] = {}
    for i, j in [*sorted(sentence.possible), *sorted(sentence.sure)]:
        best[j] = i
    return [(i, j) for j, i in best.items()]


def count(found: Iterable[Links], sentences: Sequence[Sentence]) -> NDArray[np.int64]:
    """Per sentence: links found, how many of them are sure, how many possible, and the sure ones there are (N, 4)."""
    pairs = zip(map(set, found), sentences, strict=True)
    return np.array([(len(a), len(a & s.sure), len(a & s.possible), len(s.sure)) for a, s in pairs])


def error_rate(counts: NDArray[Any]) -> NDArray[np.float64]:
    """AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), in percent, of counts (…, 4)."""
    found, sure, possible, gold = np.moveaxis(counts, -1, 0)
    return np.asarray(100 * (1 - (sure + possible) / (found + gold)))


def rates(counts: NDArray[np.int64]) -> dict[str, float]:
    """AER, precision and recall of all sentences together, in percent."""
    found, sure, possible, gold = counts.sum(axis=0).tolist()
    percent = {"aer": float(error_rate(counts.sum(axis=0))), "precision": 100 * possible / found}
    return {name: round(value, 2) for name, value in (percent | {"recall": 100 * sure / gold}).items()}


def measure(attentions: Sequence[Attention], sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """A row for every layer and step: all heads, the variants of that, and each head alone."""
    heads, layers = attentions[0].layers[0].size(0), len(attentions[0].layers)
    rows = []
    for rule in [Rule(layer, step) for step in ("predicting", "input") for layer in (*range(layers), None)]:

        def of(rule: Rule) -> NDArray[np.int64]:
            return count((links(attention, rule) for attention in attentions), sentences)

        row: dict[str, Any] = {"layer": "all" if rule.layer is None else rule.layer + 1, "step": rule.step}
        row |= {"name": rule.name, "counts": of(rule), "mean_of_heads": rates(of(rule))}
        row["with_null"] = rates(of(replace(rule, null=True)))
        row["first_subword"] = rates(of(replace(rule, first=True)))
        if rule.layer is not None:
            row["heads"] = [rates(of(replace(rule, head=head))) for head in range(heads)]
        rows.append(row)
    return rows


def compare(rows: Sequence[dict[str, Any]], shipped: str) -> None:
    """Add to each row how its AER differs from the shipped rule's when the sentences are drawn anew (bootstrap)."""
    size = len(rows[0]["counts"])
    draws = np.random.default_rng(1).multinomial(size, np.full(size, 1 / size), RESAMPLES)  # (R, N)
    resampled = {row["name"]: error_rate(draws @ row["counts"]) for row in rows}
    for row in rows:
        aer = resampled[row["name"]]
        difference = aer - resampled[shipped]
        row["aer_95"] = np.percentile(aer, [2.5, 97.5]).round(2).tolist()
        row["worse_than_shipped_95"] = np.percentile(difference, [2.5, 97.5]).round(2).tolist()
        row["better_than_shipped"] = float((difference < 0).mean())
        del row["counts"]


def show(rows: Sequence[dict[str, Any]], baselines: dict[str, dict[str, float]], shipped: str) -> None:
    """Print the tables."""
    print(f"{'':28}    AER  precision  recall | AER: null  first subword  best head | AER - shipped, 95 %  better in")
    for row in rows:
        mean, heads = row["mean_of_heads"], row.get("heads", [])
        best = min(range(len(heads)), key=lambda head: heads[head]["aer"], default=None)
        head = "" if best is None else f"{heads[best]['aer']:.1f} (no. {best + 1})"
        low, high = row["worse_than_shipped_95"]
        against = "shipped" if row["name"] == shipped else f"{low:+.1f} to {high:+.1f}"
        print(
            f"{row['name']:28} {mean['aer']:6.1f} {mean['precision']:10.1f} {mean['recall']:7.1f} |"
            f" {row['with_null']['aer']:9.1f} {row['first_subword']['aer']:14.1f} {head:>13} |"
            f" {against:>19} {row['better_than_shipped']:10.1%}"
        )
    for name, rate in baselines.items():
        print(f"{name:28} {rate['aer']:6.1f} {rate['precision']:10.1f} {rate['recall']:7.1f} |")


def main() -> None:
    """Measure, print, store."""
    folder, gold = ModelFolder.load(sys.argv[1]), Path(sys.argv[2])
    sentences = read_gold(gold)
    attentions = [attend(folder, sentence) for sentence in sentences]
    shipped = Rule(alignment_layer(folder.model.config.num_decoder_layers), shipped_step()).name
    rows = measure(attentions, sentences)
    compare(rows, shipped)
    simple = {
        "diagonal": map(diagonal, attentions),
        "same position": map(same_position, attentions),
        "one gold link per word": map(one_gold_link, sentences),
    }
    baselines = {name: rates(count(found, sentences)) for name, found in simple.items()}
    show(rows, baselines, shipped)
    facts = folder.direction.facts
    config = folder.model.config
    model = {"decoder_layers": config.num_decoder_layers, "heads": config.num_heads, "d_model": config.d_model}
    aer = {row["name"]: row["mean_of_heads"]["aer"] for row in rows} | {n: r["aer"] for n, r in baselines.items()}
    result = {
        "sentences": len(sentences),
        "sure_links": sum(len(s.sure) for s in sentences),
        "possible_links": sum(len(s.possible - s.sure) for s in sentences),
        "target_words": sum(len(s.target.split(" ")) for s in sentences),
        "model": model | {key: facts[key] for key in FACTS if key in facts},
        "shipped": shipped,
        "aer": aer,
    }
    content = {
        "commands": [
            MODELS[gold.stem],
            f"python benchmarks/alignments.py {PLACES[gold.stem]} benchmarks/alignments/{gold.name}",
        ],
        "hardware": describe_hardware(),
        "result": result,
        "rows": rows,
        "baselines": baselines,
        "resamples": RESAMPLES,
    }
    RESULTS.joinpath(f"alignments-{gold.stem}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except DragomanError as error:
        sys.exit(f"error: {error}")
