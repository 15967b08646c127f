"""The options of each verb, except those of train (config.py): frozen dataclasses whose field texts are the help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from dragoman.config import Between, LengthPenalty, NotNegative, Positive, SearchConfig, Settings, require

CONST = "const"
"""Key of a field's metadata: the value of its option when it is given without one."""


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(SearchConfig):
    """Options of the verbs that run a translator."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto takes bf16 on processors that multiply it faster. In bf16, rounding depends on the batch: 1 or 2 lines in
    100 change with --batch-tokens or --workers."""
    engine: Literal["auto", "torch", "ctranslate2"] = "auto"
    """Inference engine; auto picks it from the folder type. A folder exported for CTranslate2 computes in the precision
    it was stored in, or in float32 on processors without it, whatever --precision says."""
    workers: NotNegative = 0
    """Processes that translate at the same time on a CPU, at most one per core; 0: as many as PyTorch has threads."""


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(TranslatorConfig):
    """Translate raw text, line by line: from a file or stdin to stdout."""

    folder: str
    """The model folder."""
    file: str = "-"
    """The text to translate; - is stdin."""
    format: Literal["text", "moses", "json"] = "text"
    """text: one translation per line (with --n-best above 1: moses). moses: "line ||| translation ||| log-probability
    ||| score". json: one object per line. If a line was split, log-probability and score are the sums over its parts,
    whose number json tells."""
    alignments: Literal["none", "auto", "words", "subwords"] = field(default="none", metadata={CONST: "auto"})
    """Also print which source word each target word comes from, in Pharaoh's format ("translation ||| 0-0 1-2", counted
    from 0), or in JSON with the words. Words are separated by spaces; auto takes subwords for languages written without
    spaces. Without a value: auto."""
    alignment_layer: int = 0
    """Decoder layer to read alignments from, from 1; 0: the last but one of six layers or more, else the last."""


@dataclass(frozen=True, kw_only=True)
class InspectConfig(TranslatorConfig):
    """Open one translation: attention of every layer and head, probabilities, the beam, the alignment."""

    folder: str
    """The model folder."""
    sentence: str
    """The sentence to translate."""
    translation: str | None = None
    """Show this translation instead of the model's own."""
    out: str = ""
    """The page to write. The default is inspection.html, or no page if --text, --json, --npz or --png is given."""
    text: bool = False
    """Print a summary for the terminal."""
    json: str = ""
    """Write everything except the attention to this file: candidates, probabilities, search tree, alignment."""
    npz: str = ""
    """Write the arrays to this file, for numpy.load."""
    png: str = ""
    """Write a figure of each attention block into this folder."""
    alignment_layer: int = 0
    """Decoder layer to read the alignment from, counted from 1; 0 is the recommended one, as in translate."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of the search, as in translate. What is shown about the translation is computed in fp32."""


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(TranslatorConfig):
    """Translate a test text and score it: sacreBLEU, chrF2 and chrF2++, with their signatures."""

    folder: str
    """The model folder."""
    test: list[str]
    """Test text: PREFIX, FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; each may end in .gz."""
    tokenized: bool = False
    """The test text is tokenised, as the model's training text was: score its tokens as they are, in lower case. Such a
    BLEU can only be compared with published tokenised BLEU."""
    json: str = ""
    """Also write the scores, the settings and the translations to this file, for compare."""
    markdown: str = ""
    """Also write the scores and everything they depend on to this file, as a table."""
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    """fp32 gives the same scores on every machine; auto takes bf16 on processors that multiply it faster. In bf16,
    rounding depends on the batch: 1 or 2 lines in 100 change with --batch-tokens or --workers."""


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(Settings):
    """Score given translations: log-probability, score and number of subwords, in tab-separated lines.

    Computed in fp32, with the subwords SentencePiece splits the translation into. A search may have written the same
    text with other subwords.
    """

    folder: str
    """The model folder."""
    test: list[str]
    """Sentence pairs: PREFIX, FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; each may end in .gz."""
    length_penalty: LengthPenalty = 0.6
    """α; the score is the log-probability divided by ((5 + length) / 6)^α."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Settings):
    """Compare evaluations of a text, with paired bootstrap resampling; or training runs, as curves on a page."""

    system: list[str] = field(default_factory=list)
    """Files written by evaluate --json, one for each run of the system, such as for each seed."""
    baseline: list[str] = field(default_factory=list)
    """The same for another system, with the same number of runs. Runs are compared in the order given."""
    json: str = ""
    """Also write the result to this file."""
    runs: list[str] = field(default_factory=list)
    """Folders of one to six training runs to show on a page, instead of evaluations."""
    out: str = ""
    """The page to write for --runs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.system) != bool(self.runs), "give either --system or --runs: what is to be compared")
        require(bool(self.out) == bool(self.runs), "--runs and --out go together: the page needs a name")
        require(not (self.runs and (self.baseline or self.json)), "--baseline and --json go with --system, not --runs")
        require(len(self.runs) <= 6, "--runs: at most six curves can be told apart")
        for files in (self.system, self.baseline, self.runs):
            require(len({*files}) == len(files), "a file is given twice: each counts as a run of its own")
        paired = len(self.baseline) in (0, len(self.system))
        require(paired, "--baseline needs as many files as --system: runs are compared in pairs")


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig(Settings):
    """Follow a recipe from the text to a table of scores; run it again to continue an interrupted one."""

    recipe: str
    """The recipe: a YAML file such as recipes/multi30k-en-de.yaml."""
    data: str = ""
    """Folder of the text, which is downloaded if it is missing. The default is data/TEXT, with the recipe's TEXT."""
    out: str = ""
    """Folder for the models and the table. The default is runs/NAME, with the recipe's file NAME."""
    seeds: list[int] = field(default_factory=list)
    """Train once with each of these seeds. The default is the recipe's seeds."""
    restart: bool = False
    """Remove the earlier runs of these seeds and start again."""
    accept_changes: bool = False
    """Continue runs although the recipe or the text has changed since."""
    dry_run: bool = False
    """Train nothing, but say how much memory and time it would take; missing text is replaced by random text."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        possible = all(0 <= seed < 2**63 for seed in self.seeds) and len({*self.seeds}) == len(self.seeds)
        require(possible, "seeds must be different numbers from 0 to 2^63 - 1")


@dataclass(frozen=True, kw_only=True)
class AverageConfig(Settings):
    """Average the last checkpoints of a training run into a new model folder."""

    folder: str
    """The model folder of the run."""
    out: str
    """The model folder to write."""
    last: Positive = 5
    """Number of checkpoints."""


@dataclass(frozen=True, kw_only=True)
class ProofConfig(Settings):
    """Options of export and import: the sentences that both sides are compared on."""

    valid: list[str] = field(default_factory=list)
    """Text to compare on, as in training. The default is the validation text of the training run, or lines of random
    subwords if that text is gone."""
    sentences: Positive = 200
    """Number of sentences to compare."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig(ProofConfig):
    """Export a model for another library, and check that it gives the same results there."""

    folder: str
    """The model folder."""
    to: Literal["ctranslate2", "huggingface", "argos", "onnx"]
    """ctranslate2: a folder for CTranslate2. huggingface: one for transformers (MarianMTModel). argos: a package for
    Argos Translate and LibreTranslate. onnx: encoder and decoder step as ONNX graphs."""
    out: str
    """The folder to write."""
    quantization: Literal["float32", "int8", "int16", "float16", "bfloat16"] = "float32"
    """Type of the weights that CTranslate2 (also in an Argos package) stores."""
    package_version: str = "1.0"
    """Version of an Argos package."""

    def __post_init__(self) -> None:
        super().__post_init__()
        quantizes = self.to in ("ctranslate2", "argos")
        require(quantizes or self.quantization == "float32", f"--to {self.to} has no --quantization")


@dataclass(frozen=True, kw_only=True)
class ImportConfig(ProofConfig):
    """Import a Marian or OPUS-MT folder in Hugging Face's format, and check that it gives the same results here."""

    folder: str
    """The folder: config.json, model.safetensors, vocab.json, source.spm and target.spm."""
    out: str
    """The model folder to write."""
    source: str = ""
    """Language code of the source. The default is the folder's."""
    target: str = ""
    """Language code of the target. The default is the folder's."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig(Settings):
    """Train a small translator on the English–French phrasebook that comes with Dragoman, and show what it can do."""

    out: str = "demo"
    """Folder for the phrasebook and the model."""


@dataclass(frozen=True, kw_only=True)
class DownloadConfig(Settings):
    """Download public parallel text by name, or list the names."""

    name: str = ""
    """Name of the text. Without a name, the texts are listed."""
    out: str = "data"
    """The folder to write to."""
    mirror: str = ""
    """Download from below this address instead of the text's own."""


@dataclass(frozen=True, kw_only=True)
class SplitConfig(Settings):
    """Divide parallel text into training, validation and test text; no sentence of either side is in two of them."""

    source: str
    """Language code of the source: the suffix of its files, and its key in JSONL."""
    target: str
    """Language code of the target."""
    text: list[str]
    """The text: PREFIX (PREFIX.en and PREFIX.de), FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; also .gz."""
    out: str
    """Folder for train, valid and test, with a file for each language."""
    pairs: Positive = 1000
    """Approximate number of pairs for validation, and again for testing; of a short text, a tenth."""


@dataclass(frozen=True, kw_only=True)
class CheckConfig(Settings):
    """Check parallel text before training on it: what is wrong, how often, in which lines, and what to do.

    The exit code is 1 if an error is found, and 0 if there are only warnings and notes.
    """

    source: str
    """Language code of the source: the suffix of its files, and its key in JSONL."""
    target: str
    """Language code of the target."""
    train: list[str]
    """Training text: PREFIX (PREFIX.en and PREFIX.de), FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; also .gz."""
    valid: list[str] = field(default_factory=list)
    """Validation text. The training text is searched for its pairs."""
    test: list[str] = field(default_factory=list)
    """Test text. The training text is searched for its pairs."""
    json: str = ""
    """Also write the report to this file."""
    examples: NotNegative = 3
    """Examples shown of each issue."""


@dataclass(frozen=True, kw_only=True)
class FiguresConfig(Settings):
    """Draw the Transformer's pictures: masks, positions, learning rate, label smoothing, attention step by step."""

    out: str
    """The folder to write to."""
    format: Literal["png", "svg"] = "png"
    """File format."""
    dpi: Annotated[int, Between(10, 1200)] = 200
    """Pixels per inch of a PNG."""
    model: str = ""
    """A model folder: also draw the attention of this translator."""
    sentence: str = ""
    """The sentence that this translator translates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.model) == bool(self.sentence), "--model and --sentence go together: give both or neither")
