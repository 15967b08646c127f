"""Every setting of Dragoman: frozen dataclasses whose field texts are the command line's help, and presets.

Imports nothing of the package and nothing heavy, so that `dragoman --help` answers at once.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

VERSION = "0.2.0"
CHECK_FILE = "check.json"
"""What the corpus check found in the text of a run, in the run's folder."""
SETTINGS_OF_ONE_CALL = ("restart", "accept_changes", "dry_run")
"""Settings of training that its train.yaml does not keep."""
PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The ids of the special symbols in every vocabulary: padding, unknown, start and end of a sentence."""


class DragomanError(Exception):
    """A failure that the user can cure: the message is one sentence naming the file, the place and the cure."""


class ConfigError(DragomanError, ValueError):
    """A setting with an impossible value, or two settings that exclude each other."""


def require(condition: bool, message: str) -> None:
    """Raise ConfigError with this message unless the condition holds."""
    if not condition:
        raise ConfigError(message)


class Between(NamedTuple):
    """What a number is annotated with that must be from `least` to `most`."""

    least: float
    most: float


Positive = Annotated[int, Between(1, 10**9)]
NotNegative = Annotated[int, Between(0, 10**9)]
Rate = Annotated[float, Between(0, 0.999999)]
LengthPenalty = Annotated[float, Between(0, 10)]

_NOUNS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list, such as [a, b]",
    dict: "a group",
}


class Settings:
    """Base of the dataclasses of settings: raises ConfigError for values that the types of the fields exclude."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            _require_type(name.rstrip("_"), kind, getattr(self, name))


def _require_type(name: str, kind: Any, value: Any) -> None:
    origin, arguments, shown = get_origin(kind), get_args(kind), reprlib.repr(value)
    if isinstance(value, str):
        is_text = "\0" not in value and value.encode(errors="replace").decode() == value
        require(is_text, f"{name} is not text: {shown!a}")
    if origin is Annotated:
        number, (least, most) = arguments
        _require_type(name, number, value)
        require(least <= value <= most, f"{name} must be between {least:,} and {most:,}, not {shown}")
    elif origin is Literal:
        require(value in arguments, f"{name} must be one of {', '.join(arguments)}, not {shown}")
    elif origin in (list, dict):
        require(isinstance(value, origin), f"{name} must be {_NOUNS[origin]}, not {shown}")
        for item in value.values() if origin is dict else value:
            _require_type(name, arguments[-1], item)
    elif noun := _NOUNS.get(kind):
        is_right = isinstance(value, (int, float) if kind is float else kind)
        require(is_right and (kind is bool or not isinstance(value, bool)), f"{name} must be {noun}, not {shown}")


def differences(before: Mapping[str, Any], now: Mapping[str, Any], free: Sequence[str] = (), at: str = "") -> list[str]:
    """List what differs between two versions of nested settings: "model.d_model was 512 and is 256".

    Settings that only one of them has are left out, and those that `free` names.
    """
    found = []
    for name in [name for name in before if name in now and name not in free]:
        old, new = before[name], now[name]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, at=f"{at}{name}.")
        elif old != new:
            found.append(f"{at}{name.rstrip('_')} was {old} and is {new}")
    return found


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The shape of a Transformer. The defaults are the paper's base model (Table 3)."""

    d_model: Annotated[int, Between(1, 2**20)] = 512
    """Width of every embedding and of every sub-layer's output (section 3.1)."""
    d_ff: Annotated[int, Between(1, 2**20)] = 2048
    """Width of the inner layer of the feed-forward networks (section 3.3)."""
    num_heads: Annotated[int, Between(1, 2**20)] = 8
    """Number of parallel attention heads h; each has d_k = d_model / h dimensions (section 3.2.2)."""
    num_encoder_layers: Annotated[int, Between(1, 1000)] = 6
    """Number of identical layers N in the encoder (section 3.1)."""
    num_decoder_layers: Annotated[int, Between(1, 1000)] = 6
    """Number of identical layers N in the decoder (section 3.1)."""
    dropout: Annotated[float, Between(0, 0.99)] = 0.1
    """P_drop: on every sub-layer's output and on the sums of embeddings and positions (section 5.4). In bf16 on a CPU
    the scale 1 / (1 - P_drop) is rounded, and the rate follows it: 0.1 drops 0.0986 and keeps the mean."""
    attention_dropout: Annotated[float, Between(0, 0.99)] = 0.0
    """Dropout on the attention weights; not in the paper."""
    activation_dropout: Annotated[float, Between(0, 0.99)] = 0.0
    """Dropout inside the feed-forward networks; not in the paper."""
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after the residual sum, LayerNorm(x + Sublayer(x)), as in the paper; or before each sub-layer."""
    positions: Literal["interleaved", "halves", "learned"] = "interleaved"
    """Sines and cosines interleaved (section 3.5), as two halves [sin | cos], or a learned table."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """Non-linearity of the feed-forward networks; the paper's is relu."""
    share_embeddings: bool = True
    """One embedding for source and target (section 3.4); needs a joint vocabulary."""
    tie_softmax: bool = True
    """Use the target embedding also as the weights of the softmax layer (section 3.4)."""
    softmax_bias: bool = False
    """A bias for each target subword in the softmax layer, as Marian's models have; not in the paper."""
    max_length: Annotated[int, Between(1, 2**16)] = 512
    """Longest sentence, in subwords, that the model takes or writes."""
    layer_norm_eps: Annotated[float, Between(1e-12, 1)] = 1e-5
    """Added to the variance in every LayerNorm."""
    init_gain: Annotated[float, Between(1e-6, 100)] = 1.0
    """Gain of the Glorot-uniform initialisation of all matrices except the embeddings."""
    embedding_gain: Annotated[float, Between(1e-6, 100)] = 1.0
    """Gain of the embeddings' normal initialisation, with a standard deviation of 1 / √d_model."""
    source_vocab_size: Annotated[int, Between(4, 2**24)] = 37_000
    """Number of source subwords. Training sets it from the subword model."""
    target_vocab_size: Annotated[int, Between(4, 2**24)] = 37_000
    """Number of target subwords. Training sets it from the subword model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        width, heads = self.d_model, self.num_heads
        require(width % heads == 0, f"d_model ({width}) must be a multiple of num_heads ({heads})")
        sines = self.positions != "learned"
        require(not sines or width % 2 == 0, f"d_model ({width}) must be even: pairs of it are a sine and a cosine")
        is_joint = self.source_vocab_size == self.target_vocab_size
        require(is_joint or not self.share_embeddings, "share_embeddings needs one joint vocabulary")

    @property
    def d_k(self) -> int:
        """Dimensions of one attention head."""
        return self.d_model // self.num_heads

    def shape(self) -> dict[str, Any]:
        """The settings that weights depend on: all except the rates of dropout and the initialisation."""
        return {name: value for name, value in asdict(self).items() if not name.endswith(("dropout", "_gain"))}


@dataclass(frozen=True)
class TextConfig(Settings):
    """How text becomes subwords (SentencePiece)."""

    vocab_size: Annotated[int, Between(300, 2**20)] = 8000
    """Number of subwords to learn. A corpus too small for it gets as many as it supports."""
    vocabulary: Literal["joint", "separate"] = "joint"
    """One subword model for both languages, or one for each."""
    subwords: Literal["bpe", "unigram"] = "bpe"
    """SentencePiece's algorithm."""
    character_coverage: Annotated[float, Between(0.9, 1)] = 0.9995
    """Share of the characters that get a subword of their own; rarer ones are spelt in bytes, never `<unk>`."""
    normalization: Literal["identity", "nfkc", "nmt_nfkc"] = "identity"
    """SentencePiece's normalisation rule. identity keeps all but repeated spaces and those around the text."""
    sample_lines: Positive = 1_000_000
    """Learn the subwords from at most this many lines, drawn at random from both languages."""
    max_length: Positive = 200
    """Leave out training pairs with a side of more subwords than this."""
    subword_dropout: Rate = 0.0
    """BPE-dropout (Provilkov et al., 2020), for small texts: probability of leaving out a merge when training reads a
    sentence, so that the model sees words in many segmentations. 0 is off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        has_merges = self.subwords == "bpe"
        require(has_merges or not self.subword_dropout, "subword_dropout leaves out merges: set subwords to bpe")


@dataclass(frozen=True)
class CleaningConfig(Settings):
    """Which pairs of the training text are left out. Empty pairs and those beyond text.max_length always are."""

    overlap: bool = True
    """Pairs that are also in the validation or test text."""
    duplicates: bool = False
    """All except the first of equal pairs."""
    near_duplicates: bool = False
    """All except the first of pairs that differ only in case, digits, spaces and punctuation."""
    copies: bool = False
    """Pairs whose target is the source."""
    ratio: bool = False
    """Pairs with one side far longer than the other, compared with the rest of this text."""
    characters: bool = False
    """Pairs with control characters, NUL, exotic line breaks or signs of a wrong encoding."""
    language: bool = False
    """Pairs with a side in the wrong script or language, or with the sides swapped."""


@dataclass(frozen=True)
class OptimizerConfig(Settings):
    """Adam, the learning-rate schedule, and what one step sees (section 5)."""

    batch_tokens: Positive = 4096
    """Budget of one batch: sentences × the longest side's length, padding included."""
    accumulate: Positive = 1
    """Number of batches whose gradients make one step."""
    schedule: Literal["paper", "inverse-sqrt", "linear", "cosine"] = "paper"
    """After the linear warm-up: the paper's formula (equation 3); the same form through a given peak_lr; or a
    straight line or half a cosine down to zero at the end of the run (max_steps or max_minutes). The last two fall from
    peak_lr at the first step, and the warm-up multiplies them."""
    lr_scale: Annotated[float, Between(1e-12, 1000)] = 1.0
    """Multiplies the paper's schedule."""
    peak_lr: Annotated[float, Between(1e-12, 1000)] = 1e-3
    """Learning rate at the end of the warm-up (linear and cosine have started to fall by then); unused by paper."""
    warmup_steps: Positive = 4000
    """Steps of linear warm-up (section 5.3)."""
    beta1: Rate = 0.9
    """Adam's decay of the first moment (section 5.3)."""
    beta2: Rate = 0.98
    """Adam's decay of the second moment (section 5.3)."""
    epsilon: Annotated[float, Between(1e-30, 1)] = 1e-9
    """Adam's epsilon (section 5.3)."""
    weight_decay: Annotated[float, Between(0, 10**6)] = 0.0
    """Decoupled weight decay (AdamW); the paper has none."""
    clip_norm: Annotated[float, Between(0, 10**6)] = 1.0
    """Scale a gradient with a larger norm down to this norm; 0 is off."""
    label_smoothing: Rate = 0.1
    """ε_ls: probability spread evenly over the vocabulary (section 5.4)."""
    r_drop: Annotated[float, Between(0, 10**6)] = 0.0
    """α of R-Drop (Liang et al., 2021), for small texts: every sentence goes through the model twice, with different
    dropout, and a KL penalty pulls both predictions together. It doubles the time of a step; 0 is off."""
    ema_decay: Rate = 0.0
    """Validate and keep an exponential moving average of the weights with this decay, such as 0.999; 0 is off."""


@dataclass(frozen=True)
class SearchConfig(Settings):
    """How the decoder searches for a translation (section 6.1)."""

    beam: Annotated[int, Between(1, 1000)] = 4
    """Hypotheses kept at each step; 1 is greedy search, where the length penalty has no effect."""
    length_penalty: LengthPenalty = 0.6
    """α of Wu et al. (2016), equation 14: scores are divided by ((5 + length) / 6)^α."""
    n_best: Annotated[int, Between(1, 1000)] = 1
    """Translations returned for each line, at most the beam."""
    min_length: NotNegative = 0
    """Fewest subwords before the end of the sentence."""
    max_length: Positive = 50
    """Most subwords beyond the length of the source (section 6.1)."""
    batch_tokens: Positive = 8192
    """Budget of one batch: sentences × beam × longest source."""
    long: Literal["split", "truncate", "error"] = "split"
    """What to do with long lines. split: split lines longer than any in training at sentence ends, and join the
    translations. truncate, error: cut off the end of a line longer than the model's max_length and say so, or stop."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.n_best <= self.beam, f"n_best ({self.n_best}) can't exceed the beam ({self.beam})")


@dataclass(frozen=True)
class ValidationConfig(Settings):
    """When and how a training run is validated, and which checkpoints it keeps."""

    every: Positive = 500
    """Steps between validations; each also saves a checkpoint."""
    metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """The metric that decides which model is the best."""
    beam: Annotated[int, Between(1, 1000)] = 1
    """Beam for translating the validation text during training."""
    max_lines: Positive = 1000
    """Translate at most this many lines; the loss is computed on all of them."""
    patience: NotNegative = 10
    """Stop after this many validations without improvement; 0 is off."""
    keep_last: Positive = 5
    """Number of checkpoints to keep; at the end of the run their average competes with the best one (section 6.1)."""


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Train a translator: from parallel text to a model folder."""

    source: str
    """Language code of the source: the suffix of its files, and its key in JSONL."""
    target: str
    """Language code of the target."""
    train: list[str]
    """Training text: PREFIX (PREFIX.en and PREFIX.de), FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; also .gz."""
    out: str
    """The model folder to write. Running the same command again continues an interrupted run."""
    valid: list[str] = field(default_factory=list)
    """Validation text, as in --train. Without it, pairs are held out of the training text, by distinct source
    sentence, and written to OUT/heldout."""
    test: list[str] = field(default_factory=list)
    """Test text, as in --train. Its pairs are left out of the training text; it is used for nothing else."""
    from_: str = ""
    """Fine-tune this model folder instead of starting from random weights. Its shape and its subwords are kept."""
    preset: Literal["tiny", "small", "base", "big"] = "base"
    """Starting values for the settings below: tiny and small for tens of thousands of sentence pairs, base and big
    (the paper's) for millions."""
    max_minutes: Annotated[float, Between(0, 10**9)] = 0.0
    """Stop after this many minutes of training; 0 is no limit."""
    max_steps: NotNegative = 0
    """Stop after this many steps; 0 is no limit."""
    max_epochs: NotNegative = 0
    """Stop after this many passes over the text; 0 is no limit."""
    seed: Annotated[int, Between(0, 2**63 - 1)] = 1
    """Seed of every random choice: initial weights, order of the batches, dropout."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto takes bf16 on processors that multiply it faster."""
    save_minutes: Annotated[float, Between(1e-6, 10**9)] = 10.0
    """Minutes between saves of the run's state, in addition to every validation: the most work a crash can lose."""
    log_every: Positive = 10
    """Steps between the training losses in metrics.jsonl and TensorBoard."""
    restart: bool = False
    """Remove the earlier run in OUT and start again."""
    accept_changes: bool = False
    """Continue the run in OUT although its settings or its text have changed since."""
    dry_run: bool = False
    """Say how much memory and time the run would take, after a few steps on a model that is not kept. The prepared
    text stays in OUT for the run itself."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The Transformer."""
    text: TextConfig = field(default_factory=TextConfig)
    """The subwords."""
    clean: CleaningConfig = field(default_factory=CleaningConfig)
    """The cleaning."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The optimisation."""
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    """The validation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        schedule, ends = self.optimizer.schedule, bool(self.max_steps or self.max_minutes)
        falls = schedule in ("linear", "cosine")
        require(ends or not falls, f"the {schedule} schedule ends at max_steps or max_minutes: give one of them")
        shares = self.text.vocabulary == "separate" and self.model.share_embeddings
        require(not shares, "separate vocabularies can't share embeddings: set model.share_embeddings to false")
        own, most = self.text.max_length, self.model.max_length
        require(own < most, f"text.max_length ({own}) must be below model.max_length ({most})")
        same = bool(self.from_) and os.path.realpath(self.from_) == os.path.realpath(self.out)
        require(not same, "from and out are the same folder: fine-tune into another one")


def _shape(layers: int, d_model: int, d_ff: int, heads: int, dropout: float) -> dict[str, Any]:
    return {
        "model.num_encoder_layers": layers,
        "model.num_decoder_layers": layers,
        "model.d_model": d_model,
        "model.d_ff": d_ff,
        "model.num_heads": heads,
        "model.dropout": dropout,
    }


# The paper's warm-up of 4,000 steps is longer than many runs on tens of thousands of sentences. Smaller initial weights
# let post-norm layers learn sooner. With smaller initial embeddings `small` translated better (docs/results.md),
# probably because a rare subword keeps much of its initial noise.
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
"""Starting values with --from: small steps and frequent validations."""


def model_preset(name: str) -> ModelConfig:
    """The ModelConfig of a preset."""
    require(name in PRESETS, f"there is no preset {name!r}: choose one of {', '.join(PRESETS)}")
    shape = {key.removeprefix("model."): value for key, value in PRESETS[name].items() if key.startswith("model.")}
    return ModelConfig(**shape)
