"""Training, compared: everybody makes the same steps, round after round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from dragoman.config import ModelConfig, model_preset
from peers.batches import Arrays, write_batches
from peers.protocol import Message
from peers.rounds import Competitor, Contest, add_ratios, rounded, summary
from peers.settings import Settings
from peers.shape import Shape, step_flops
from peers.text import choose_batches, prepare

BATCHES = {"tiny": 8, "small": 6, "base": 3}
"""How many make some 5 to 15 seconds of the slowest competitor on two cores."""
OURS = "dragoman"
COMPETITORS = {
    "fp32": [
        Competitor(OURS, "dragoman", "peers.dragoman_worker"),
        Competitor("nn.Transformer", "nn.Transformer", "peers.torch_transformer"),
        Competitor("marian", "marian", "peers.marian"),
        Competitor("annotated", "annotated", "peers.annotated"),
        Competitor("joeynmt", "joeynmt", "peers.joeynmt_worker", joeynmt=True),
    ],
    "bf16": [
        Competitor(OURS, "dragoman", "peers.dragoman_worker"),
        Competitor("nn.Transformer", "nn.Transformer", "peers.torch_transformer"),
        Competitor("marian", "marian", "peers.marian"),
    ],
}


def shape_of(config: ModelConfig) -> Shape:
    """What Dragoman's peers need to know of a model."""
    return Shape(
        d_model=config.d_model,
        d_ff=config.d_ff,
        num_heads=config.num_heads,
        num_encoder_layers=config.num_encoder_layers,
        num_decoder_layers=config.num_decoder_layers,
        dropout=config.dropout,
        vocab_size=config.target_vocab_size,
        max_length=config.max_length,
        layer_norm_eps=config.layer_norm_eps,
    )


def compare_training(settings: Settings) -> tuple[dict[str, Any], dict[str, str]]:
    """Compare at each size and precision.

    Returns:
        Results by size and precision, and the versions of all packages.
    """
    text = prepare(settings.data, settings.work / "text")
    results: dict[str, Any] = {}
    versions: dict[str, str] = {}
    for size in settings.sizes:
        words = len(text.vocabulary.source)
        config = replace(model_preset(size), source_vocab_size=words, target_vocab_size=words)
        batches = choose_batches(text.train, settings.batches or BATCHES[size], config.max_length)
        path = settings.work / "batches" / f"{size}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_batches(path, batches)
        request = {"task": "training", "batches": str(path), "config": asdict(config)}
        request["shape"] = asdict(shape_of(config))
        results[size] = {}
        for precision in [name for name in settings.precisions if name in COMPETITORS]:
            competitors = [c for c in COMPETITORS[precision] if c.peer in (OURS, *settings.peers)]
            settings.report(f"training {size} in {precision}: loading")
            result = _contest(settings, competitors, request | {"precision": precision}, batches)
            versions |= result.pop("versions")
            results[size][precision] = result
    return results, versions


def _contest(
    settings: Settings, competitors: Sequence[Competitor], request: Message, batches: Sequence[Arrays]
) -> dict[str, Any]:
    """All rounds of one comparison."""
    speeds: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {"fp32": [], "bf16": []}
    shares: list[float] = []
    flops = step_flops(Shape(**request["shape"]), batches)
    with Contest(competitors, request, settings.work, settings.threads, settings.report) as contest:
        facts = dict(contest.facts)
        for number in range(settings.repeats):
            rate = contest.go_round([OURS], {"do": "rate"}).get(OURS, {})
            for precision, value in rate.items():
                rates[precision].append(value)
            answers = contest.go_round(contest.names, {"do": "steps"})
            for name, answer in answers.items():
                speeds.setdefault(name, []).append(answer["tokens"] / answer["seconds"])
            if OURS in answers:
                shares.append(flops / answers[OURS]["seconds"] / 1e9 / rate[request["precision"]])
            settings.report(f"round {number + 1} of {settings.repeats}: " + _in_words(answers))
        finished = contest.names
    rows = {name: summary(speeds[name]) for name in finished if name in speeds}
    add_ratios(rows, {"ratio": OURS}, more_is_better=True)
    for name, row in rows.items():
        row |= {key: value for key, value in facts[name].items() if key != "versions"}
    return {
        "target_tokens_per_second": rows,
        "machine_gflops": {precision: summary(values) for precision, values in rates.items() if values},
        "dragoman_share_of_machine": summary(shares) if shares else None,
        "model_gflop": rounded(flops / 1e9),
        "batches": len(batches),
        "target_tokens": sum(batch.num_tokens for batch in batches),
        "versions": {name: version for fact in facts.values() for name, version in fact["versions"].items()},
    }


def _in_words(answers: dict[str, Message]) -> str:
    return ", ".join(f"{name} {answer['tokens'] / answer['seconds']:,.0f}" for name, answer in answers.items())
