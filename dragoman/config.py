"""Every setting: frozen dataclasses, whose field texts are the help, and presets. Imports nothing heavy, for --help."""

import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

VERSION = "0.2.0"
CHECK_FILE, HELD_OUT = "check.json", "heldout"
"""In the folder of a run: what the corpus check found in its text; and the prefix of pairs held out of that text."""
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
Weight = Annotated[float, Between(0.001, 1000)]
LengthPenalty = Annotated[float, Between(0, 10)]
Precision = Literal["auto", "fp32", "bf16"]

_NOUNS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list, such as [a, b]",
    dict: "a group",
}


_types = cache(partial(get_type_hints, include_extras=True))


class Settings:
    """Base of the dataclasses of settings: raises ConfigError for values that the types of the fields exclude."""

    def __post_init__(self) -> None:
        for name, kind in _types(type(self)).items():  # type: ignore[arg-type]
            _require_type(name.rstrip("_"), kind, getattr(self, name))
        self._check()

    def _check(self) -> None:
        """Raise ConfigError for values that exclude each other."""


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
    """List what differs between settings that both have, except `free`: "model.d_model was 512 and is 256"."""
    found = []
    for name in [name for name in before if name in now and name not in free]:
        old, new = before[name], now[name]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, at=f"{at}{name}.")
        elif old != new:
            was, now_is = (value if value != "" else "not given" for value in (old, new))
            found.append(f"{at}{name.rstrip('_')} was {was} and is {now_is}")
    return found


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The shape of a Transformer. The defaults are the paper's base model (Table 3)."""

    d_model: Annotated[int, Between(1, 2**20)] = 512
    """Width of embeddings and sub-layer outputs (§3.1)."""
    d_ff: Annotated[int, Between(1, 2**20)] = 2048
    """Inner width of the feed-forward networks (§3.3)."""
    num_heads: Annotated[int, Between(1, 2**20)] = 8
    """Attention heads h, each of d_k = d_model / h dimensions (§3.2.2)."""
    num_encoder_layers: Annotated[int, Between(1, 1000)] = 6
    """Encoder layers N (§3.1)."""
    num_decoder_layers: Annotated[int, Between(1, 1000)] = 6
    """Decoder layers N (§3.1)."""
    dropout: Annotated[float, Between(0, 0.99)] = 0.1
    """P_drop on sub-layer outputs and embeddings with positions (§5.4); in bf16 on a CPU, 0.1 drops 0.0986."""
    attention_dropout: Annotated[float, Between(0, 0.99)] = 0.0
    """Dropout on attention weights; not in the paper."""
    activation_dropout: Annotated[float, Between(0, 0.99)] = 0.0
    """Dropout inside the feed-forward networks; not in the paper."""
    norm: Literal["post", "pre"] = "post"
    """post: LayerNorm(x + Sublayer(x)), as in the paper. pre: LayerNorm before each sub-layer."""
    positions: Literal["interleaved", "halves", "learned"] = "interleaved"
    """Interleaved sines and cosines (§3.5), halves [sin | cos], or a learned table."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """Feed-forward non-linearity; the paper's is relu."""
    share_embeddings: bool = True
    """One embedding for both languages (§3.4); needs a joint vocabulary."""
    tie_softmax: bool = True
    """Target embedding and softmax layer share weights (§3.4)."""
    softmax_bias: bool = False
    """A softmax bias for each target subword, as in Marian; not in the paper."""
    max_length: Annotated[int, Between(1, 2**16)] = 512
    """Longest sentence, in subwords."""
    layer_norm_eps: Annotated[float, Between(1e-12, 1)] = 1e-5
    """Added to the variance in LayerNorm."""
    init_gain: Annotated[float, Between(1e-6, 100)] = 1.0
    """Gain of the Glorot-uniform initialisation, except of embeddings."""
    embedding_gain: Annotated[float, Between(1e-6, 100)] = 1.0
    """Gain of the embeddings' normal initialisation, with standard deviation 1 / √d_model."""
    source_vocab_size: Annotated[int, Between(4, 2**24)] = 37_000
    """Number of source subwords. Training sets it from the subword model."""
    target_vocab_size: Annotated[int, Between(4, 2**24)] = 37_000
    """Number of target subwords. Training sets it from the subword model."""

    def _check(self) -> None:
        width, heads = self.d_model, self.num_heads
        require(width % heads == 0, f"d_model ({width}) must be a multiple of num_heads ({heads})")
        sines = self.positions != "learned"
        require(not sines or width % 2 == 0, f"d_model ({width}) must be even: pairs of it are a sine and a cosine")
        is_joint = self.source_vocab_size == self.target_vocab_size
        require(is_joint or not self.share_embeddings, "share_embeddings needs one joint vocabulary")

    def shape(self) -> dict[str, Any]:
        """The settings that weights depend on: all except the rates of dropout and the initialisation."""
        return {name: value for name, value in asdict(self).items() if not name.endswith(("dropout", "_gain"))}


@dataclass(frozen=True)
class TextConfig(Settings):
    """How text becomes subwords (SentencePiece)."""

    vocab_size: Annotated[int, Between(300, 2**20)] = 8000
    """Subwords to learn; a small text may support fewer."""
    vocabulary: Literal["joint", "separate"] = "joint"
    """One subword model for both languages, or one each."""
    subwords: Literal["bpe", "unigram"] = "bpe"
    """SentencePiece's algorithm."""
    character_coverage: Annotated[float, Between(0.9, 1)] = 0.9995
    """Share of characters that get a subword; rarer ones are spelt in bytes, never `<unk>`."""
    normalization: Literal["identity", "nfkc", "nmt_nfkc"] = "identity"
    """SentencePiece's normalisation; identity only trims and merges spaces."""
    sample_lines: Positive = 1_000_000
    """Learn subwords from at most this many random lines."""
    max_length: Positive = 200
    """Leave out training pairs with a side of more subwords."""
    subword_dropout: Rate = 0.0
    """BPE-dropout (Provilkov et al., 2020), for small texts: probability of skipping a merge in training; 0 is off."""
    placeholders: Rate = 0.02
    """Share of training pairs to repeat with symbols for placeholders ({name}, %s, tags, addresses, emoji), so that
    translations keep them; 0 is off."""

    def _check(self) -> None:
        has_merges = self.subwords == "bpe"
        require(has_merges or not self.subword_dropout, "subword_dropout leaves out merges: set subwords to bpe")


@dataclass(frozen=True)
class CleaningConfig(Settings):
    """Training pairs to leave out. Empty ones and those beyond text.max_length always are."""

    overlap: bool = True
    """Pairs that are also validation or test text."""
    duplicates: bool = False
    """Repetitions of a pair."""
    near_duplicates: bool = False
    """Repetitions that differ only in case, digits, spaces and punctuation."""
    copies: bool = False
    """Pairs whose target equals the source."""
    ratio: bool = False
    """Pairs with one side far longer than is usual in this text."""
    characters: bool = False
    """Pairs with control characters, exotic line breaks or a wrong encoding."""
    language: bool = False
    """Pairs in a wrong script or language, or with swapped sides."""


@dataclass(frozen=True)
class OptimizerConfig(Settings):
    """Adam, learning rate and batches (section 5)."""

    batch_tokens: Positive = 4096
    """Tokens of a batch: sentences × longest side, padding included."""
    accumulate: Positive = 1
    """Batches per step."""
    schedule: Literal["paper", "inverse-sqrt", "linear", "cosine"] = "paper"
    """paper: equation 3. inverse-sqrt: its shape, through peak_lr. linear, cosine: from peak_lr at the first step to
    zero at max_steps or max_minutes, multiplied by the warm-up. A preset's inverse-sqrt is linear with such a limit."""
    lr_scale: Annotated[float, Between(1e-12, 1000)] = 1.0
    """Multiplies the paper's schedule."""
    peak_lr: Annotated[float, Between(1e-12, 1000)] = 1e-3
    """Peak learning rate of the other schedules."""
    warmup_steps: Positive = 4000
    """Steps of linear warm-up (§5.3)."""
    beta1: Rate = 0.9
    """Adam's first-moment decay (§5.3)."""
    beta2: Rate = 0.98
    """Adam's second-moment decay (§5.3)."""
    epsilon: Annotated[float, Between(1e-30, 1)] = 1e-9
    """Adam's epsilon (§5.3)."""
    weight_decay: Annotated[float, Between(0, 10**6)] = 0.0
    """Decoupled weight decay (AdamW); not in the paper."""
    clip_norm: Annotated[float, Between(0, 10**6)] = 1.0
    """Largest norm of a gradient; 0 is off."""
    label_smoothing: Rate = 0.1
    """ε_ls: probability spread over the vocabulary (§5.4)."""
    r_drop: Annotated[float, Between(0, 10**6)] = 0.0
    """α of R-Drop (Liang et al., 2021), for small texts: KL penalty between two passes, at twice the time; 0 is off."""
    ema_decay: Rate = 0.0
    """Validate and keep a moving average of the weights with this decay, such as 0.999; 0 is off."""


@dataclass(frozen=True)
class SearchConfig(Settings):
    """How the decoder searches for a translation (section 6.1)."""

    beam: Annotated[int, Between(1, 1000)] = 4
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: LengthPenalty = 0.6
    """α: scores are divided by ((5 + length) / 6)^α (Wu et al., 2016)."""
    n_best: Annotated[int, Between(1, 1000)] = 1
    """Translations for each line; without sampling, at most the beam."""
    sampling: Annotated[float, Between(0, 1000)] = 0.0
    """Temperature for drawing subwords at random, such as 1; 0 searches for the best translation. Uses PyTorch."""
    top_k: NotNegative = 0
    """With sampling, draw from this many of the likeliest subwords; 0: from all."""
    top_p: Annotated[float, Between(1e-6, 1)] = 1.0
    """With sampling, draw from the fewest subwords with this total probability (Holtzman et al., 2020)."""
    sampling_seed: NotNegative = 1
    """Seed for sampling."""
    min_length: NotNegative = 0
    """Fewest subwords of a translation."""
    max_length: Positive = 50
    """Most subwords beyond the source's length (§6.1)."""
    batch_tokens: Positive = 8192
    """Size of a batch in PyTorch: sentences × beam × longest source."""
    sentences: Literal["split", "keep"] = "split"
    """split: translate the sentences of a line one by one. keep: take a line as one sentence."""
    log_probs: bool = True  # no option. If not, CTranslate2's greedy search is faster, and log_prob may be NaN

    def _check(self) -> None:
        few = self.n_best <= self.beam or bool(self.sampling)
        require(few, f"n_best ({self.n_best}) can't exceed the beam ({self.beam})")
        drawn = bool(self.sampling) or (not self.top_k and self.top_p == 1)
        require(drawn, "top_k and top_p say what is drawn from: set sampling above 0, such as 1")


@dataclass(frozen=True)
class ValidationConfig(Settings):
    """When and how a run is validated, and which checkpoints it keeps."""

    every: Positive = 500
    """Steps between validations; each saves a checkpoint."""
    metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """What decides which model is best."""
    beam: Annotated[int, Between(1, 1000)] = 1
    """Beam for translating the validation text."""
    max_lines: Positive = 1000
    """Most lines to translate; the loss is of all."""
    patience: NotNegative = 10
    """Stop after this many validations without improvement; 0 is off."""
    keep_last: Positive = 5
    """Checkpoints to keep; in the end their average competes with the best one (§6.1)."""


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Train a translator: from parallel text to a model folder."""

    source: str
    """Source language code: file suffix, JSONL key. Several, such as en,de: from each into every other target."""
    target: str
    """Target language code, or several."""
    train: list[str]
    """Training text: PREFIX (PREFIX.en and PREFIX.de), FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; also
    .gz, .zst, or a pattern of several, such as "part-*"."""
    out: str
    """Model folder to write. The same command again resumes an interrupted run."""
    valid: list[str] = field(default_factory=list)
    """Validation text. Without it, pairs are held out of the training text, by distinct source, into OUT/heldout."""
    test: list[str] = field(default_factory=list)
    """Test text; only used to leave its pairs out of training."""
    from_: str = ""
    """Fine-tune this model folder, with its shape and subwords."""
    preset: Literal["auto", "tiny", "small", "fast", "base", "big"] = "auto"
    """Starting values for the settings below. auto: tiny below 10,000 pairs, base from 1,000,000 on an NVIDIA GPU, else
    small; resuming and fine-tuning keep it."""
    max_minutes: Annotated[float, Between(0, 10**9)] = 0.0
    """Minutes of training; 0 is no limit."""
    max_steps: NotNegative = 0
    """Steps of training; 0 is no limit."""
    max_epochs: NotNegative = 0
    """Passes over the text; 0 is no limit."""
    weights: list[Weight] = field(default_factory=list)
    """How often each text of train is read in a pass, such as 3 0.5; default: once."""
    temperature: Annotated[float, Between(1, 100)] = 1.0
    """T: above 1, small texts are read more often, in proportion to size^(1/T)."""
    seed: Annotated[int, Between(0, 2**63 - 1)] = 1
    """Seed of initial weights, batches and dropout."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Precision = "auto"
    """auto takes bf16 where it is faster."""
    compile: bool = False
    """Compile the model with torch.compile (PyTorch 2): minutes at the start, then faster steps on GPUs."""
    save_minutes: Annotated[float, Between(1e-6, 10**9)] = 10.0
    """Minutes between saves, besides validations: the most work a crash can lose."""
    log_every: Positive = 10
    """Steps between losses in metrics.jsonl and TensorBoard."""
    restart: bool = False
    """Remove the run in OUT and start again."""
    accept_changes: bool = False
    """Resume although settings or text have changed."""
    dry_run: bool = False
    """Report memory and time from a few steps; only the prepared text stays in OUT."""
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

    def _check(self) -> None:
        each = len(self.weights) in (0, len(self.train))
        require(each, f"weights needs a number for each of the {len(self.train)} texts of train")
        is_one = "," not in self.source + self.target
        require(is_one or bool(self.valid), "several languages need --valid: none of their text is held out")
        schedule, ends = self.optimizer.schedule, bool(self.max_steps or self.max_minutes)
        require(ends or schedule not in ("linear", "cosine"), f"schedule {schedule} needs max_steps or max_minutes")
        shares = self.text.vocabulary == "separate" and self.model.share_embeddings
        require(not shares, "separate vocabularies can't share embeddings: set model.share_embeddings to false")
        own, most = self.text.max_length, self.model.max_length
        require(own < most, f"text.max_length ({own}) must be below model.max_length ({most})")
        same = bool(self.from_) and os.path.realpath(self.from_) == os.path.realpath(self.out)
        require(not same, "from and out are the same folder: fine-tune into another one")

    def lasting(self) -> dict[str, Any]:
        """The settings as train.yaml keeps them: without those that are meant for one call."""
        of_one_call = ("restart", "accept_changes", "dry_run")
        return {name.rstrip("_"): value for name, value in asdict(self).items() if name not in of_one_call}


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
# let post-norm layers learn sooner. `small` translated better with smaller initial embeddings, probably because a rare
# subword keeps much of its initial noise, and with half the tokens in twice as many steps (docs/results.md).
_SHORT_RUN = {"model.init_gain": 0.5, "optimizer.schedule": "inverse-sqrt"}
_SHORT_RUN |= {"optimizer.batch_tokens": 1536, "validation.every": 1000}
_NARROW_RUN = _SHORT_RUN | {"optimizer.peak_lr": 4e-3, "optimizer.warmup_steps": 1000}
_SMALL_RUN = _SHORT_RUN | {"optimizer.peak_lr": 2e-3, "optimizer.warmup_steps": 400}

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _shape(4, 128, 256, 4, 0.3) | _NARROW_RUN,
    "small": _shape(3, 256, 1024, 4, 0.15) | {"model.embedding_gain": 0.3} | _SMALL_RUN,
    "fast": _shape(4, 128, 768, 4, 0.1) | {"model.num_decoder_layers": 1} | _NARROW_RUN,
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
