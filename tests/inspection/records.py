"""An inspection of a translation that never was, with random attention."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dragoman.inference.alignment import words_of
from dragoman.inspection.record import BeamNode, Candidate, Inspection, Prediction


def an_inspection(
    source_pieces: Sequence[str], outputs: Sequence[str], layers: int = 1, heads: int = 2, seed: int = 1, **changes: Any
) -> Inspection:
    """A translation of these subwords, both without their `</s>`; changes are fields of the record."""
    chance = np.random.default_rng(seed)
    lengths = {"source": len(source_pieces) + 1, "target": len(outputs) + 1}
    blocks = {
        "encoder.{}.self_attention": ("source", "source"),
        "decoder.{}.self_attention": ("target", "target"),
        "decoder.{}.cross_attention": ("target", "source"),
    }

    def weights(queries: str, keys: str) -> np.ndarray:
        sharp = chance.random((heads, lengths[queries], lengths[keys]), dtype=np.float32) ** 12
        return sharp / sharp.sum(axis=2, keepdims=True)

    def split(pieces: Sequence[str]) -> list[str]:
        places = words_of(pieces)
        return [
            "".join(p for p, place in zip(pieces, places, strict=True) if place == word) for word in sorted({*places})
        ]

    source, target = ("".join(pieces).replace("▁", " ").strip() for pieces in (source_pieces, outputs))
    ended = [*outputs, "</s>"]
    words = [*words_of(outputs), -1]
    ends = len(outputs)
    made = Inspection(
        languages=("en", "fr"),
        facts={"parameters": 1000, "num_heads": heads, "search": {"beam": 2, "precision": "fp32"}},
        source=source,
        target=target,
        source_pieces=[*source_pieces, "</s>"],
        inputs=["<s>", *outputs],
        outputs=ended,
        predictions=[Prediction(piece, 0.5, 1, [(piece, 0.5), ("x", 0.2)]) for piece in ended],
        log_prob=-1.23456,
        score=-0.65432,
        candidates=[Candidate(target, ended, -1.0, -0.5), Candidate("two", ["▁two", "</s>"], -3.0, -1.5)],
        chosen=0,
        tree=[BeamNode(i - 1, i, piece, -0.1 * i, 0 if i == ends else -1) for i, piece in enumerate(ended)],
        maps={block.format(i): weights(*sides) for block, sides in blocks.items() for i in range(layers)},
        source_words=[*words_of(source_pieces), -1],
        target_words=words,
        words=(split(source_pieces), split(outputs)),
        alignment=[(0, word) for word in range(max(words) + 1)] if source_pieces else [],
        alignment_layer=layers - 1,
    )
    return replace(made, **changes)
