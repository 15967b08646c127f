"""Decoding, compared: raw lines to raw lines with one model in everybody's format, round after round."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sacrebleu

from dragoman.checkpoint import ModelFolder
from dragoman.config import DragomanError
from dragoman.text.corpus import read_pairs
from peers.convert import POSITIONS, export_plain
from peers.protocol import Message
from peers.rounds import Competitor, Contest, add_ratios, summary
from peers.settings import Settings
from peers.text import LANGUAGES, VOCABULARY
from peers.training_contest import shape_of

TRAIN = (
    "train --source en --target de --train {data}/train --valid {data}/val --out {out} --preset small "
    "--optimizer.batch-tokens 3072 --validation.every 500 --max-steps 1000 --optimizer.schedule linear "
    "--text.vocab-size {vocabulary} --text.placeholders 0"
)
TEST = "test_2016_flickr"
LENGTH_PENALTY = 0.0
"""Dragoman divides by ((5 + length) / 6)^α, most peers by length^α: only at 0 do they maximise the same."""
OURS = "dragoman fp32"
MODES = {
    "beam 4, in batches": {"beam": 4, "each": False},
    "beam 1, in batches": {"beam": 1, "each": False},
    "beam 4, one by one": {"beam": 4, "each": True},
    "beam 1, one by one": {"beam": 1, "each": True},
}
_FACTS = ("steps", "minutes", "precision", "seed", "validation", "training_pairs")
EQUAL_ENOUGH = 0.99
"""Share of the lines that a peer in fp32 must write as Dragoman does at beam 1; fewer mean other work."""


def competitors(settings: Settings) -> list[Competitor]:
    """Everybody, in every setting that was asked for."""
    found = []
    for precision in settings.precisions:
        one = {"precision": precision}
        found.append(Competitor(f"dragoman {precision}", "dragoman", "peers.dragoman_worker", one))
        if precision != "int8":
            found.append(Competitor(f"marian {precision}", "marian", "peers.marian", one))
        if precision != "bf16":
            for workers in sorted({1, settings.threads}):
                name = f"ctranslate2 {precision} {workers}x{settings.threads // workers}"
                found.append(Competitor(name, "ctranslate2", "peers.ctranslate2_peer", one | {"workers": workers}))
        if precision == "fp32":
            found.append(Competitor("joeynmt fp32", "joeynmt", "peers.joeynmt_worker", one, joeynmt=True))
    return [competitor for competitor in found if competitor.peer in ("dragoman", *settings.peers)]


def modes_of(name: str) -> list[str]:
    """What a competitor is measured in; of several workers one at a time takes the sentences one by one."""
    slow = name.startswith("joeynmt")
    return [mode for mode in MODES if not (MODES[mode]["each"] and slow)]


def make_model(settings: Settings) -> tuple[Path, dict[str, Any]]:
    """The model in a form that all peers can read, and what is known of it; trains one where there is none.

    Raises:
        DragomanError: the model is of a kind that the peers' formats are not made for here.
    """
    if not (settings.model / "model.safetensors").is_file():
        settings.report(f"{settings.model}: no model yet; training one for 1,000 steps")
        words = TRAIN.format(data=settings.data, out=settings.model, vocabulary=VOCABULARY).split()
        environment = {**os.environ, "OMP_NUM_THREADS": str(settings.threads)}
        subprocess.run([sys.executable, "-m", "dragoman", *words], check=True, env=environment)
    folder = ModelFolder.load(settings.model)
    config = folder.model.config
    kind = (config.norm, config.positions, config.activation, config.share_embeddings, config.tie_softmax)
    if kind != ("post", "interleaved", "relu", True, True):
        raise DragomanError(f"{settings.model}: only a model like the presets can be compared; train one of those")
    facts = {key: value for key, value in folder.direction.facts.items() if key in _FACTS}
    settings.report(f"decoding with {settings.model}: {facts}")
    weights = {name: parameter.detach() for name, parameter in folder.model.named_parameters()}
    weights[POSITIONS] = folder.model.source_positions.table.clone()
    plain = settings.work / "plain"
    export_plain(plain, shape_of(config), folder.vocabulary.source.serialized, weights)
    return plain, facts


def compare_decoding(settings: Settings, chosen: Sequence[Competitor] = ()) -> tuple[dict[str, Any], dict[str, str]]:
    """Compare in each mode those who are chosen, or everybody.

    Returns:
        Results by mode, and the versions of all packages.
    """
    plain, model = make_model(settings)
    pairs = list(read_pairs([str(settings.data / TEST)], *LANGUAGES))[: settings.lines or None]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    request = {
        "task": "decoding",
        "model": str(settings.model),
        "plain": str(plain),
        "sources": sources,
        "beams": sorted({mode["beam"] for mode in MODES.values()}),
        "length_penalty": LENGTH_PENALTY,
        "device": settings.device,
    }
    settings.report("decoding: loading")
    measured: dict[str, dict[str, list[Message]]] = {mode: {} for mode in MODES}
    with Contest(chosen or competitors(settings), request, settings.work, settings.threads, settings.report) as contest:
        facts = dict(contest.facts)
        for number in range(settings.repeats):
            for mode, ask in MODES.items():
                names = [name for name in contest.names if mode in modes_of(name)]
                for name, answer in contest.go_round(names, {"do": "translate"} | ask).items():
                    measured[mode].setdefault(name, []).append(answer)
            settings.report(f"round {number + 1} of {settings.repeats} is done")
        finished = contest.names
    results: dict[str, Any] = {}
    for mode, answers in measured.items():
        complete = {name: answers[name] for name in finished if name in answers}
        results[mode] = _rows(complete, len(sources), references)
    results["model"] = model
    results["ways"] = {name: {k: v for k, v in facts[name].items() if k != "versions"} for name in finished}
    results["equal work"] = equal_work(results["beam 1, in batches"], settings)
    return results, {name: version for fact in facts.values() for name, version in fact["versions"].items()}


def _rows(answers: dict[str, list[Message]], count: int, references: Sequence[str]) -> dict[str, Message]:
    """Speeds in sentences a second or times in milliseconds, BLEU, and the share of lines that are Dragoman's."""
    rows = {}
    own = answers[OURS][0]["lines"] if OURS in answers else None
    for name, repeats in answers.items():
        lines, each = repeats[0]["lines"], "milliseconds" in repeats[0]
        rows[name] = summary([r["milliseconds"] if each else count / r["seconds"] for r in repeats])
        bleu = sacrebleu.corpus_bleu(lines, [references[: len(lines)]])
        rows[name]["bleu"] = round(bleu.score, 2)
        if own is not None:
            rows[name]["equal_lines"] = round(sum(a == b for a, b in zip(lines, own, strict=True)) / len(own), 4)
    ratios = {f"ratio_{precision}": f"dragoman {precision}" for precision in ("fp32", "int8")}
    add_ratios(rows, ratios, more_is_better=not any("milliseconds" in repeats[0] for repeats in answers.values()))
    return rows


def equal_work(rows: dict[str, Message], settings: Settings) -> dict[str, bool]:
    """Whether each peer in fp32 writes what Dragoman writes, at beam 1; says so where one does not."""
    fp32 = {name: row["equal_lines"] for name, row in rows.items() if " fp32" in name and "equal_lines" in row}
    for name, share in fp32.items():
        if share < EQUAL_ENOUGH:
            settings.report(f"{name} does other work: only {share:.1%} of its lines at beam 1 are Dragoman's")
    return {name: share >= EQUAL_ENOUGH for name, share in fp32.items()}
