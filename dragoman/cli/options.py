"""The options of each verb, except those of train (config.py): frozen dataclasses whose field texts are the help."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from dragoman.config import Between, LengthPenalty, NotNegative, Positive, Precision, SearchConfig, Settings, require
from dragoman.serving.limits import Limits

CONST = "const"
"""Key of a field's metadata: the value of its option when it is given without one."""


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(Settings):
    """The languages of a model that has several."""

    source: str = ""
    """Language to translate from, if the model has several."""
    target: str = ""
    """Language to translate into, if the model has several."""


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(LanguageConfig, SearchConfig):
    """Options of the verbs that run a translator."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Precision = "auto"
    """auto: the fastest. On a CPU that is CTranslate2's int8, in which 1 or 2 lines in 100 depend on the lines
    translated with them. A CTranslate2 folder keeps its own precision."""
    engine: Literal["auto", "torch", "ctranslate2"] = "auto"
    """auto takes CTranslate2 on a CPU, except with bf16; it needs a copy of the model, made once in its folder."""
    workers: NotNegative = 0
    """Batches that CTranslate2 computes at the same time, each on one core; 0: one for each core."""
    ensemble: list[str] = field(default_factory=list)
    """Further model folders, such as other seeds, with the same subwords; PyTorch averages their probabilities."""


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(TranslatorConfig):
    """Translate raw text, line by line: from a file or stdin to stdout."""

    folder: str
    """Model folder."""
    file: str = "-"
    """Text to translate; - is stdin."""
    format: Literal["text", "moses", "json"] = "text"
    """text: the translation (with --n-best above 1: moses). moses: "line ||| translation ||| log-probability |||
    score". json: an object per line. Split lines get sums over their parts."""
    alignments: Literal["none", "auto", "words", "subwords"] = field(default="none", metadata={CONST: "auto"})
    """Also print which source word each target word comes from: "translation ||| 0-0 1-2", from 0, or words in JSON.
    auto, which needs no value: words, or subwords for languages written without spaces."""
    alignment_layer: int = 0
    """Decoder layer for alignments, from 1; 0: the last but one of six or more, else the last."""
    glossary: str = ""
    """TSV of terms that must come out: source term, tab, its translation."""
    out: str = ""
    """Prefix of files to write, not stdout, for long texts: OUT.00001, OUT.00002, …; the same command resumes."""
    shard_lines: Positive = 100_000
    """Lines in each file of --out."""
    prefix: str = ""
    """File of forced beginnings: a translation starts with its line of the file, unless that is empty. Uses PyTorch."""


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(TranslatorConfig):
    """Make training pairs from text in one language, by back-translation. The same command resumes it."""

    folder: str
    """Model folder that translates the text; for back-translation, one of the reverse direction."""
    text: list[str]
    """Text in the model's source language, one sentence per line; also .gz or .zst."""
    out: str
    """Prefix of the files to write: OUT.en, OUT.fr, OUT.json with what they were made from, and OUT.all.tsv with every
    translation, from which another call chooses anew."""
    tag: str = "<BT>"
    """First word of each source line, which tells synthetic text from human text (Caswell et al., 2019)."""
    forward: bool = False
    """Make the translations targets, not sources, for a model of the same direction (self-training, distillation)."""
    scorer: str = ""
    """Model folder that translates back, such as one of the pairs alone: leave out what it finds unlikely."""
    keep: Annotated[float, Between(0.01, 1)] = 0.8
    """With a scorer, the share of pairs to keep: those with its best log-probability per subword."""
    noise: bool = False
    """Damage the synthetic sources: a tenth of the words go, a tenth become blanks, others change places with near ones
    (Edunov et al., 2018)."""

    def _check(self) -> None:
        super()._check()
        require(not (self.noise and self.forward), "noise is for synthetic sources, which --forward does not make")


@dataclass(frozen=True, kw_only=True)
class InspectConfig(TranslatorConfig):
    """Open one translation: attention of every layer and head, probabilities, the beam, the alignment."""

    folder: str
    """Model folder."""
    sentence: str
    """Sentence to translate."""
    translation: str | None = None
    """Show this translation, not the model's own."""
    out: str = ""
    """Page to write; default: inspection.html, or none with --text, --json, --npz or --png."""
    text: bool = False
    """Print a summary."""
    json: str = ""
    """Write all except the attention to this file: candidates, probabilities, search tree, alignment."""
    npz: str = ""
    """Write the arrays to this file (numpy.load)."""
    png: str = ""
    """Write a figure of each attention block to this folder."""
    alignment_layer: int = 0
    """Decoder layer for the alignment, as in translate."""
    precision: Precision = "auto"
    """Precision of the search; what is shown is computed in fp32."""


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(TranslatorConfig):
    """Translate a test text and score it: sacreBLEU, chrF2 and chrF2++, with their signatures."""

    folder: str
    """Model folder."""
    test: list[str]
    """Test text: PREFIX, FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; also .gz, .zst, or a pattern ("part-*")."""
    tokenized: bool = False
    """The text is tokenised: score its tokens, in lower case. Compare only with tokenised BLEU."""
    json: str = ""
    """Write scores, settings and translations to this file, for compare."""
    markdown: str = ""
    """Write scores and settings to this file, as a table."""
    sentences: Literal["split", "keep"] = "keep"
    """keep: take a line as one sentence. split: translate the sentences of a line one by one."""
    precision: Precision = "fp32"
    """fp32 scores alike on every machine; auto is what is fastest, as in translate."""


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(LanguageConfig):
    """Score given translations in fp32: log-probability, score, number of SentencePiece's subwords; tab-separated."""

    folder: str
    """Model folder."""
    test: list[str]
    """Pairs: PREFIX, FILE.tsv, FILE.jsonl, or SOURCE_FILE,TARGET_FILE; also .gz, .zst, or a pattern ("part-*")."""
    length_penalty: LengthPenalty = 0.6
    """α; the score is log-probability / ((5 + length) / 6)^α."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Settings):
    """Compare evaluations of a text, with paired bootstrap resampling; or training runs, as curves on a page."""

    system: list[str] = field(default_factory=list)
    """Files of evaluate --json, one for each run, such as each seed."""
    baseline: list[str] = field(default_factory=list)
    """The same for another system; runs are compared in order."""
    json: str = ""
    """Write the result to this file."""
    runs: list[str] = field(default_factory=list)
    """Folders of one to six training runs to show on a page instead."""
    out: str = ""
    """Page to write for --runs."""

    def _check(self) -> None:
        require(bool(self.system) != bool(self.runs), "give either --system or --runs: what is to be compared")
        require(bool(self.out) == bool(self.runs), "--runs and --out go together: the page needs a name")
        require(not (self.runs and (self.baseline or self.json)), "--baseline and --json go with --system, not --runs")
        require(len(self.runs) <= 6, "--runs: at most six curves can be told apart")
        require(len(self.baseline) in (0, len(self.system)), "--baseline needs as many files as --system, run by run")


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig(Settings):
    """Follow a recipe from the text to a table of scores; the same command resumes it."""

    recipe: str
    """A YAML file such as recipes/multi30k-en-de.yaml."""
    data: str = ""
    """Folder of the text, downloaded if missing; default: data/TEXT."""
    out: str = ""
    """Folder for models and table; default: runs/RECIPE."""
    seeds: list[int] = field(default_factory=list)
    """Train with each of these seeds; default: the recipe's."""
    restart: bool = False
    """Remove earlier runs of these seeds and start again."""
    accept_changes: bool = False
    """Resume although recipe or text have changed."""
    dry_run: bool = False
    """Only report memory and time; missing text is replaced by random text."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""

    def _check(self) -> None:
        possible = all(0 <= seed < 2**63 for seed in self.seeds) and len({*self.seeds}) == len(self.seeds)
        require(possible, "seeds must be different numbers from 0 to 2^63 - 1")


@dataclass(frozen=True, kw_only=True)
class AverageConfig(Settings):
    """Average a run's last checkpoints into a new model folder."""

    folder: str
    """Model folder of the run."""
    out: str
    """Model folder to write."""
    last: Positive = 5
    """Number of checkpoints."""


@dataclass(frozen=True, kw_only=True)
class ProofConfig(Settings):
    """Options of export and import: the sentences that both sides are compared on."""

    valid: list[str] = field(default_factory=list)
    """Text to compare on; default: the run's validation text, or random subwords."""
    sentences: Positive = 200
    """Sentences to compare."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig(ProofConfig, LanguageConfig):
    """Export a model for another library, and check that results are the same there."""

    folder: str
    """Model folder."""
    to: Literal["ctranslate2", "huggingface", "argos", "onnx", "web"]
    """ctranslate2: for CTranslate2. huggingface: for transformers (MarianMTModel). argos: for Argos Translate and
    LibreTranslate. onnx: encoder and decoder step as ONNX graphs. web: a page that translates in the browser."""
    out: str
    """Folder to write; with argos also FILE.argosmodel."""
    quantization: Literal["auto", "float32", "int8", "int16", "float16", "bfloat16"] = "auto"
    """Weight type: any for ctranslate2 and argos; int8 or float32 for web. auto: int8 for web, else float32."""
    assets: str = ""
    """For web: the node_modules folder that transformers.js is installed in."""
    package_version: str = "1.0"
    """Version of an Argos package."""

    def _check(self) -> None:
        if self.quantization == "auto":
            object.__setattr__(self, "quantization", "int8" if self.to == "web" else "float32")
        quantizes = self.to in ("ctranslate2", "argos") or (self.to == "web" and self.quantization == "int8")
        require(
            quantizes or self.quantization == "float32", f"--to {self.to} has no --quantization {self.quantization}"
        )
        require(self.to == "web" or not self.assets, f"--assets is for --to web, not for --to {self.to}")
        chosen = self.source or self.target
        require(self.to == "argos" or not chosen, "--source and --target are for --to argos; others take all languages")


@dataclass(frozen=True, kw_only=True)
class ImportConfig(ProofConfig):
    """Import a Marian or OPUS-MT folder in Hugging Face's format, and check that results are the same."""

    folder: str
    """Folder with config.json, model.safetensors, vocab.json, source.spm and target.spm."""
    out: str
    """Model folder to write."""
    source: str = ""
    """Source language code; default: the folder's."""
    target: str = ""
    """Target language code; default: the folder's."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig(Settings):
    """Train a small translator on Dragoman's English–French phrasebook, and try it."""

    out: str = "demo"
    """Folder for the phrasebook and the model."""


@dataclass(frozen=True, kw_only=True)
class DownloadConfig(Settings):
    """Download public parallel text by name, or list the names."""

    name: str = ""
    """Name of the text; without it, the texts are listed."""
    out: str = "data"
    """Folder to write to."""
    mirror: str = ""
    """Download from below this address instead."""


@dataclass(frozen=True, kw_only=True)
class SplitConfig(Settings):
    """Divide parallel text into training, validation and test text that share no sentence."""

    source: str
    """Source language code: file suffix, JSONL key."""
    target: str
    """Target language code."""
    text: list[str]
    """Text: PREFIX (PREFIX.en, PREFIX.de), FILE.tsv, FILE.jsonl, SOURCE_FILE,TARGET_FILE, or a pattern ("part-*")."""
    out: str
    """Folder for train, valid and test."""
    pairs: Positive = 1000
    """About this many pairs each for validation and testing, at most a tenth."""

    def _check(self) -> None:
        one = "," not in f"{self.source}{self.target}"
        require(one, "split takes one source and one target language: divide the text of each direction by itself")


@dataclass(frozen=True, kw_only=True)
class CheckConfig(Settings):
    """Check parallel text before training: what is wrong, how often, where, what to do. Exits with 1 for an error."""

    source: str
    """Source language code: file suffix, JSONL key."""
    target: str
    """Target language code."""
    train: list[str]
    """Training text: PREFIX (PREFIX.en, PREFIX.de), FILE.tsv, FILE.jsonl, SOURCE_FILE,TARGET_FILE, or a pattern."""
    valid: list[str] = field(default_factory=list)
    """Validation text, searched for in the training text."""
    test: list[str] = field(default_factory=list)
    """Test text, searched for in the training text."""
    json: str = ""
    """Write the report to this file."""
    examples: NotNegative = 3
    """Examples of each issue."""


@dataclass(frozen=True, kw_only=True)
class FiguresConfig(Settings):
    """Draw the Transformer's pictures: masks, positions, learning rate, label smoothing, attention step by step."""

    out: str
    """Folder to write to."""
    format: Literal["png", "svg"] = "png"
    """File format."""
    dpi: Annotated[int, Between(10, 1200)] = 200
    """Pixels per inch of a PNG."""
    model: str = ""
    """Model folder of a translator: also draw its attention."""
    sentence: str = ""
    """Sentence to translate."""

    def _check(self) -> None:
        require(bool(self.model) == bool(self.sentence), "--model and --sentence go together: give both or neither")


@dataclass(frozen=True, kw_only=True)
class ServeConfig(TranslatorConfig, Limits):
    """Translate over HTTP, as LibreTranslate does, with a page to translate on."""

    folder: list[str]
    """Model folders."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in."""
    port: Annotated[int, Between(0, 65535)] = 5000
    """Port to listen on; 0 takes a free one."""
    processes: Annotated[int, Between(1, 256)] = 1
    """Processes behind the port, each with its own copy of the models."""
    pivot: bool = False
    """Join languages that no model joins by way of a third one."""
    cache: NotNegative = 0
    """Translated lines that each process keeps in memory to answer them again."""
    api_keys: str = ""
    """File of API keys, one on each line, perhaps followed by how many texts a minute it may translate in each
    process; requests need one of them."""
