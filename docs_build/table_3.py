"""Table 3 of the paper: the settings of each model, and its number of parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from dragoman.config import ModelConfig, OptimizerConfig, model_preset
from dragoman.model.transformer import Transformer


@dataclass(frozen=True)
class Row:
    """One model of table 3, and what the paper reports about it."""

    label: str
    settings: dict[str, Any] | None
    """Differences from base, under the names of the command line; None if they can't be set."""
    perplexity: float
    bleu: float
    millions: int | None = None
    """Parameters; None if the paper leaves the cell empty because they are those of base."""
    preset: str = "base"
    what: str = ""
    """The difference in words, if there are no settings for it."""


ROWS = [
    Row("base", {}, 4.92, 25.8, 65),
    Row("(A)", {"model.num_heads": 1}, 5.29, 24.9),
    Row("", {"model.num_heads": 4}, 5.00, 25.5),
    Row("", {"model.num_heads": 16}, 4.91, 25.8),
    Row("", {"model.num_heads": 32}, 5.01, 25.4),
    Row("(B)", None, 5.16, 25.1, 58, what="d_k = 16"),
    Row("", None, 5.01, 25.4, 60, what="d_k = 32"),
    Row("(C)", {"model.num_encoder_layers": 2, "model.num_decoder_layers": 2}, 6.11, 23.7, 36),
    Row("", {"model.num_encoder_layers": 4, "model.num_decoder_layers": 4}, 5.19, 25.3, 50),
    Row("", {"model.num_encoder_layers": 8, "model.num_decoder_layers": 8}, 4.88, 25.5, 80),
    Row("", {"model.d_model": 256}, 5.75, 24.5, 28),
    Row("", {"model.d_model": 1024}, 4.66, 26.0, 168),
    Row("", {"model.d_ff": 1024}, 5.12, 25.4, 53),
    Row("", {"model.d_ff": 4096}, 4.75, 26.2, 90),
    Row("(D)", {"model.dropout": 0.0}, 5.77, 24.6),
    Row("", {"model.dropout": 0.2}, 4.95, 25.5),
    Row("", {"optimizer.label_smoothing": 0.0}, 4.67, 25.3),
    Row("", {"optimizer.label_smoothing": 0.2}, 5.47, 25.7),
    Row("(E)", {"model.positions": "learned"}, 4.92, 25.7),
    Row("big", {}, 4.33, 26.4, 213, preset="big"),
]


def parameters(row: Row) -> int | None:
    """Return the number of parameters of a row's model with 37,000 subwords; building it also checks the settings."""
    if row.settings is None:
        return None
    groups: dict[str, dict[str, Any]] = {"model": {}, "optimizer": {}}
    for name, value in row.settings.items():
        group, _, field = name.partition(".")
        groups[group][field] = value
    OptimizerConfig(**groups["optimizer"])
    shape: ModelConfig = replace(model_preset(row.preset), **groups["model"])
    with torch.device("meta"):
        return Transformer(shape).num_parameters


def table_3() -> str:
    """Return the table."""
    lines = [
        "| row | setting | perplexity | BLEU | parameters, paper | parameters, here |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in ROWS:
        count = parameters(row)
        here = "" if count is None else f"{count / 1e6:.0f} M"
        paper = "" if row.millions is None else f"{row.millions} M"
        lines.append(f"| {row.label} | {_settings(row)} | {row.perplexity:.2f} | {row.bleu:.1f} | {paper} | {here} |")
    return "\n".join(lines)


def _settings(row: Row) -> str:
    if row.settings is None:
        return f"{row.what}: can't be set"
    options = [f"--{name.replace('_', '-')} {value}" for name, value in row.settings.items()]
    return " ".join(f"`{option}`" for option in options or [f"--preset {row.preset}"])
