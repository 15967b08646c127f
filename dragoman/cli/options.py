"""What each verb of the command line takes, training apart: frozen dataclasses as in config.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dragoman.config import SearchConfig, require, require_between

CONST = "const"
"""Key of a field's metadata: the value of its option when it is given without one."""


@dataclass(frozen=True, kw_only=True)
class AligningConfig(SearchConfig):
    """What the verbs that align share."""

    alignment_layer: int = 0
    """The decoder layer that alignments are read from, from 1; 0 is the recommended one: the last, of six or more the
    one before it."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        super().__post_init__()
        require_between(self, 0, 10**9, "alignment_layer")


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(AligningConfig):
    """Translate raw text, line by line: from a file or stdin to stdout."""

    folder: str
    """The model folder."""
    file: str = "-"
    """The text to translate; - is stdin."""
    format: Literal["text", "moses", "json"] = "text"
    """text: one translation a line (with --n-best above 1: moses); moses: "line ||| translation ||| log-probability
    ||| score"; json: one object a line. Of a line that was split, log-probability and score are the sums of its parts'
    (json: "parts")."""
    alignments: Literal["none", "auto", "words", "subwords"] = field(default="none", metadata={CONST: "auto"})
    """Also print which source word each target word comes from (Pharaoh's format: "translation ||| 0-0 1-2", counted
    from 0; in JSON with the words). Words are what spaces separate; auto takes subwords for languages that are written
    without spaces. Without a value: auto."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto takes bf16 on processors that multiply it faster. In bf16, rounding depends on the batch:
    1 or 2 lines in 100 change with --batch-tokens or --workers."""
    engine: Literal["auto", "torch", "ctranslate2"] = "auto"
    """What computes; auto: what the folder is for. A folder exported for CTranslate2 computes as it was stored, or in
    float32 where the processor can't, whatever --precision says."""
    workers: int = 0
    """Processes that translate at the same time, on a CPU; 0: one for each thread that PyTorch would take."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        super().__post_init__()
        require_between(self, 0, 10**9, "workers")


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(SearchConfig):
    """Translate a test text and score it: sacreBLEU, chrF2 and chrF2++, with their signatures."""

    folder: str
    """The model folder."""
    test: list[str]
    """Test text: PREFIX, FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; each may end in .gz."""
    tokenized: bool = False
    """The test text is tokenised, as the model's: score its tokens as they are, in lower case. Such a BLEU
    compares with published tokenised BLEU, and with nothing else."""
    json: str = ""
    """Also write the scores, the settings and the translations to this file, for compare."""
    markdown: str = ""
    """Also write the scores with all that they depend on to this file, as a table."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    """auto takes bf16 on processors that multiply it faster; fp32 scores alike on every machine. In bf16, rounding
    depends on the batch: 1 or 2 lines in 100 change with --batch-tokens or --workers."""
    engine: Literal["auto", "torch", "ctranslate2"] = "auto"
    """What computes; auto: what the folder is for. A folder exported for CTranslate2 computes as it was stored, or in
    float32 where the processor can't, whatever --precision says."""
    workers: int = 0
    """Processes that translate at the same time, on a CPU; 0: one for each thread that PyTorch would take."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        super().__post_init__()
        require_between(self, 0, 10**9, "workers")


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """Say how probable given translations are: log-probability, score, number of subwords; tab-separated lines.

    Computed in fp32, of the subwords into which SentencePiece cuts the translation; a search may have written the same
    text in others.
    """

    folder: str
    """The model folder."""
    test: list[str]
    """Sentence pairs: PREFIX, FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; each may end in .gz."""
    length_penalty: float = 0.6
    """α; the score is the log-probability divided by ((5 + length) / 6)^α."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        require_between(self, 0, 10, "length_penalty")


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """Compare evaluations of the same text: mean and spread over several runs, and paired bootstrap resampling."""

    system: list[str]
    """What evaluate --json wrote; one file for each run of the system, such as for each seed."""
    baseline: list[str] = field(default_factory=list)
    """The same of another system: as many runs, each of which is compared with the one in the same place."""
    json: str = ""
    """Also write the result to this file."""

    def __post_init__(self) -> None:
        """Refuse what has no partner."""
        require(bool(self.system), "compare needs the evaluation of a system at least")
        for name, files in (("system", self.system), ("baseline", self.baseline)):
            require(len({*files}) == len(files), f"--{name} names a file twice: each counts as a run of its own")
        require(
            len(self.baseline) in (0, len(self.system)),
            f"--baseline and --system need as many runs each, not {len(self.baseline)} and {len(self.system)}",
        )


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig:
    """Follow a recipe from the text to a table of scores; an interrupted one continues."""

    recipe: str
    """The recipe: a YAML file such as recipes/multi30k-en-de.yaml."""
    data: str = ""
    """Where the text is, or is downloaded to; data/TEXT without it, where TEXT is the recipe's."""
    out: str = ""
    """Where to put the models and the table; runs/NAME without it."""
    seeds: list[int] = field(default_factory=list)
    """Train once with each of these seeds; by default with those of the recipe."""
    restart: bool = False
    """Throw away what earlier runs of these seeds left and begin again."""
    accept_changes: bool = False
    """Continue runs although the recipe or the text has changed since."""
    dry_run: bool = False
    """Train nothing; say what it would take. Where the text is not there, one of the same size is imagined."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""

    def __post_init__(self) -> None:
        """Refuse impossible seeds."""
        require(all(0 <= seed < 2**63 for seed in self.seeds), "seeds must be from 0 to 2^63 - 1")
        require(len({*self.seeds}) == len(self.seeds), "seeds has a number twice")


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """Average the last checkpoints of a training run into a new model folder."""

    folder: str
    """The model folder of the run."""
    out: str
    """The model folder to write."""
    last: int = 5
    """How many checkpoints."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        require_between(self, 1, 10**9, "last")


@dataclass(frozen=True, kw_only=True)
class ProofConfig:
    """What exports and imports share: the sentences that both sides are compared on."""

    valid: list[str] = field(default_factory=list)
    """Text for the proof, as in training; without it the validation text of the training run, where it is still in
    its place, or else lines of random subwords."""
    sentences: int = 200
    """How many sentences to compare."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        require_between(self, 1, 10**9, "sentences")


@dataclass(frozen=True, kw_only=True)
class ExportConfig(ProofConfig):
    """Export a model for another library, and prove that it answers there as it does here."""

    folder: str
    """The model folder."""
    to: Literal["ctranslate2", "huggingface", "argos", "onnx"]
    """ctranslate2: a folder for CTranslate2; huggingface: one for transformers (MarianMTModel); argos: a package for
    Argos Translate and LibreTranslate; onnx: encoder and decoder step as ONNX graphs."""
    out: str
    """The folder to write."""
    quantization: Literal["float32", "int8", "int16", "float16", "bfloat16"] = "float32"
    """How CTranslate2 (and an Argos package) keeps the weights."""
    package_version: str = "1.0"
    """Version of an Argos package."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        super().__post_init__()
        for_ctranslate2 = self.to in ("ctranslate2", "argos")
        require(for_ctranslate2 or self.quantization == "float32", f"--to {self.to} has no --quantization")
        own_version = self.package_version != ExportConfig.package_version
        require(self.to == "argos" or not own_version, f"--to {self.to} has no --package-version")
        numbers = all(part.isdigit() for part in self.package_version.split("."))
        require(numbers, f"package_version must be numbers with dots between, not {self.package_version!r}")


@dataclass(frozen=True, kw_only=True)
class ImportConfig(ProofConfig):
    """Import a Marian or OPUS-MT folder in Hugging Face's format, and prove that it answers here as it does there."""

    folder: str
    """The folder: config.json, model.safetensors, vocab.json, source.spm and target.spm."""
    out: str
    """The model folder to write."""
    source: str = ""
    """Language code of the source; by default what the folder says."""
    target: str = ""
    """Language code of the target; by default what the folder says."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Train a small translator on the English–French phrasebook that comes with Dragoman, and show what it can do."""

    out: str = "demo"
    """Where to put the phrasebook and the model."""


@dataclass(frozen=True, kw_only=True)
class InspectConfig(AligningConfig):
    """Open one translation: attention of every layer and head, probabilities, the beam, the alignment."""

    folder: str
    """The model folder."""
    sentence: str
    """The sentence to translate."""
    translation: str | None = None
    """Look at this translation instead of the model's own."""
    out: str = ""
    """The page to write; inspection.html unless --text, --json, --npz or --png asks for something else."""
    text: bool = False
    """Print a summary for the terminal."""
    json: str = ""
    """Write all but the attention to this file: candidates, probabilities, the tree of the search, the alignment."""
    npz: str = ""
    """Write the arrays to this file, for numpy.load."""
    png: str = ""
    """Write a figure of each attention block into this folder."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of the search, as for translate; what is shown of the translation that it finds is computed in fp32."""


@dataclass(frozen=True, kw_only=True)
class DownloadConfig:
    """Download public parallel text by name; without a name, say what there is."""

    name: str = ""
    """Of the text."""
    out: str = "data"
    """The folder to write to."""
    mirror: str = ""
    """Fetch from below this address instead of the text's own."""

    def __post_init__(self) -> None:
        """Refuse what is no address."""
        web = self.mirror.isascii() and self.mirror.startswith(("http://", "https://"))
        require(not self.mirror or web, f"a mirror is an address that begins with https://, not {self.mirror!r}")


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """Divide parallel text into training, validation and test text; no sentence of either side is in two of them."""

    source: str
    """Language code of the source: the suffix of its files, and its key in JSONL."""
    target: str
    """Language code of the target."""
    text: list[str]
    """The text: PREFIX (for PREFIX.en and PREFIX.de), FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; each may end in
    .gz."""
    out: str
    """Folder for train, valid and test, a file for each language."""
    pairs: int = 1000
    """About so many for validation and as many for testing; of short text a tenth."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        require(bool(self.text), "split needs at least one text")
        require(bool(self.source and self.target), "source and target need a language code each, such as en and de")
        require_between(self, 1, 10**9, "pairs")


@dataclass(frozen=True, kw_only=True)
class CheckConfig:
    """Check parallel text before training: what is wrong, how often, in which lines, and what to do.

    The exit code is 1 if an error is found, and 0 if there are only warnings and notes.
    """

    source: str
    """Language code of the source: the suffix of its files, and its key in JSONL."""
    target: str
    """Language code of the target."""
    train: list[str]
    """Training text: PREFIX (for PREFIX.en and PREFIX.de), FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE;
    each may end in .gz."""
    valid: list[str] = field(default_factory=list)
    """Validation text; also looked for in the training text."""
    test: list[str] = field(default_factory=list)
    """Test text; also looked for in the training text."""
    json: str = ""
    """Also write the report to this file."""
    examples: int = 3
    """Examples shown of each fault."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        require(bool(self.train), "check needs at least one text")
        require(bool(self.source and self.target), "source and target need a language code each, such as en and de")
        require_between(self, 0, 10**9, "examples")


@dataclass(frozen=True, kw_only=True)
class FiguresConfig:
    """Draw the Transformer's pictures: masks, positions, learning rate, label smoothing, attention step by step."""

    out: str
    """The folder to write to."""
    format: Literal["png", "svg"] = "png"
    """Kind of file."""
    dpi: int = 200
    """Pixels per inch of a PNG."""
    model: str = ""
    """A model folder: draw the attention of this translator, too."""
    sentence: str = ""
    """What the translator is to translate."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        require(10 <= self.dpi <= 1200, f"dpi must be between 10 and 1,200, not {self.dpi}")
        require(bool(self.model) == bool(self.sentence), "--model and --sentence go together: give both or neither")
