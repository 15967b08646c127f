"""Named starting values for the settings of a training run."""

from __future__ import annotations

from typing import Any

from dragoman.config import ModelConfig, require


def _shape(layers: int, d_model: int, d_ff: int, heads: int, dropout: float) -> dict[str, Any]:
    return {
        "model.num_encoder_layers": layers,
        "model.num_decoder_layers": layers,
        "model.d_model": d_model,
        "model.d_ff": d_ff,
        "model.num_heads": heads,
        "model.dropout": dropout,
    }


# The paper's warm-up of 4,000 steps is longer than many a run on tens of thousands of sentences. And sub-layers that
# begin with little to say let post-norm layers learn sooner. With smaller embeddings small
# translated better (docs/results.md), probably because a rare subword keeps much of what it begins with: noise.
_SHORT_RUN = {"model.init_gain": 0.5, "optimizer.schedule": "inverse-sqrt", "optimizer.batch_tokens": 3072}

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _shape(4, 128, 256, 4, 0.3) | _SHORT_RUN | {"optimizer.peak_lr": 4e-3, "optimizer.warmup_steps": 1000},
    "small": _shape(3, 256, 1024, 4, 0.15)
    | _SHORT_RUN
    | {"model.embedding_gain": 0.3, "optimizer.peak_lr": 2e-3, "optimizer.warmup_steps": 400},
    "base": _shape(6, 512, 2048, 8, 0.1) | {"text.vocab_size": 37_000, "optimizer.batch_tokens": 25_000},
    "big": _shape(6, 1024, 4096, 16, 0.3) | {"text.vocab_size": 37_000, "optimizer.batch_tokens": 25_000},
}
"""Starting values by preset, under the dotted names of the command line. base and big are the paper's Table 3."""

FINE_TUNING: dict[str, Any] = {
    "optimizer.schedule": "inverse-sqrt",
    "optimizer.peak_lr": 2e-4,
    "optimizer.warmup_steps": 100,
    "optimizer.batch_tokens": 4096,
    "validation.every": 100,
}
"""What --from changes of these starting values: gentle steps, looked at often."""


def model_preset(name: str) -> ModelConfig:
    """The ModelConfig of a preset.

    Raises:
        ConfigError: there is no preset of this name.
    """
    require(name in PRESETS, f"there is no preset {name!r}: choose one of {', '.join(PRESETS)}")
    prefix = "model."
    return ModelConfig(**{key[len(prefix) :]: value for key, value in PRESETS[name].items() if key.startswith(prefix)})
