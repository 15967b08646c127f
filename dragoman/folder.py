"""The files of model folders, runs and exports, which docs/design.md lists, and what they say about the model."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import yaml

from dragoman.config import CHECK_FILE, HELD_OUT, VERSION, ConfigError, DragomanError, ModelConfig, TrainConfig
from dragoman.runtime.console import command
from dragoman.runtime.files import checksum, read_json, refuse_to_overwrite
from dragoman.text.languages import directions
from dragoman.text.subwords import VOCABULARY_FILES, Vocabulary

CONFIG_FILE, WEIGHTS_FILE, CARD_FILE, CURVES_FILE = "config.json", "model.safetensors", "README.md", "curves.svg"
MODEL_FILE = "model.bin"
"""The model as CTranslate2 reads it."""
EXPORT_FILE, PARITY_FILE = "dragoman.json", "parity.json"
"""Of a folder that was exported for another library: what it is, and the result of the proof."""
MODEL_FILES = (WEIGHTS_FILE, CONFIG_FILE, CARD_FILE, *VOCABULARY_FILES)
"""Every file that a model folder can have; none has all of them."""
CHECKPOINTS = "checkpoints"
METRICS_FILE, RUN_FILE, LOCK_FILE, REPORT_FILE = "metrics.jsonl", "train.yaml", ".lock", "report.html"
RUN_FILES = (*MODEL_FILES, METRICS_FILE, RUN_FILE, CHECK_FILE, REPORT_FILE, CURVES_FILE)
CONVERTED = "ctranslate2"
"""Folder beside the weights: the model as CTranslate2 reads it, by precision, made when it first translates so."""
_COPY_VERSION = 2  # of what a copy holds; 2 gives attention away
RUN_FOLDERS = (CHECKPOINTS, CONVERTED, "data", "tensorboard")
"""With RUN_FILES and HELD_OUT.*, everything that a training run writes."""

# Names of facts about a model.
AVERAGE_FACT = "average_of"  # the checkpoints that it is the mean of
TEXT_FACT = "training_text_sha256"
IMPORTED_FACT = "imported_from"  # the folder of another toolkit's model
LONGEST_FACT = "longest_training_side"  # subwords of the longest training sentence, `</s>` included
_LONGEST_UNKNOWN = 128  # few sentences are longer
PAIRS_FACT = "trained_directions"  # such as "en>de de>en", of a model of several directions
RUN_FACT = "whole_run"  # what its training run took as a whole, with the next three
SETTINGS_FACT, VALID_FACT, CHANGES_FACT = "settings_sha256", "validation_text_sha256", "changed_on_the_way"
OF_ONE_MODEL = ("validation", "signatures", "kept", "steps", "minutes")
"""Facts that do not hold for a model made from this one."""

_CODE = re.compile(r"[^\s/\\\"'`]+")


@dataclass(frozen=True)
class Direction:
    """What a model folder translates, by language codes, and what is known about the model."""

    source: str
    target: str
    facts: dict[str, Any] = field(default_factory=dict)
    """Training data fingerprint, steps, scores with their signatures, …; JSON values only."""

    def __post_init__(self) -> None:
        for code in (self.source, self.target):
            # They go into the names of files and into programs.
            if not (isinstance(code, str) and code.isprintable() and _CODE.fullmatch(code)):
                raise ConfigError(f"{code!r} is no language code")
        if not isinstance(self.facts, dict):
            raise ConfigError("facts are no mapping")
        object.__setattr__(self, "facts", with_plain_keys(self.facts))

    @property
    def languages(self) -> list[str]:
        """The codes of both sides, each once."""
        return [*dict.fromkeys(f"{self.source},{self.target}".split(","))]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The directions that the model was trained in, or all, if it is not known which."""
        every, known = directions(self.source, self.target), str(self.facts.get(PAIRS_FACT)).split()
        return [pair for pair in every if ">".join(pair) in known] or every

    @property
    def longest(self) -> int:
        """Subwords of the longest training sentence, the end included; a guess for models from elsewhere."""
        seen = self.facts.get(LONGEST_FACT)
        return seen if isinstance(seen, int) and seen > 1 else _LONGEST_UNKNOWN

    @property
    def imported_from(self) -> str:
        """The folder that the model, or the one it was fine-tuned from, was imported from; otherwise ""."""
        facts: Any = self.facts
        while isinstance(facts, dict):
            if IMPORTED_FACT in facts:
                return str(facts[IMPORTED_FACT])
            facts = facts.get("fine_tuned_from")
        return ""


def with_plain_keys(facts: Any) -> Any:
    """Facts with keys in snake_case; Dragoman 0.1.0 wrote keys such as "training text (SHA-256)"."""
    if not isinstance(facts, dict):
        return facts
    plain = {name: re.sub(r"\W+", "_", str(name).replace("SHA-256", "sha256")).strip("_") for name in facts}
    return {plain[name]: with_plain_keys(value) for name, value in facts.items()}


def read_config(folder: Path) -> dict[str, Any]:
    """The content of a model folder's config.json; a DragomanError if there is none of Dragoman's."""
    path = folder / CONFIG_FILE
    if not folder.is_dir():
        raise DragomanError(f"{folder}: no such folder; give the --out of train, or of import")
    if (folder / EXPORT_FILE).is_file():
        raise DragomanError(f"{folder}: an exported model; give the model folder that it was made from")
    if not path.is_file():
        inside = ", ".join(str(found.parent) for found in sorted(folder.glob(f"*/{CONFIG_FILE}")))
        cure = f"name a model in it: {inside}" if inside else "a run saves its first model when it validates"
        raise DragomanError(f"{folder}: has no {CONFIG_FILE}; {cure}")
    settings = read_json(path)
    if "model_type" not in settings:
        raise DragomanError(f"{path}: damaged, unreadable, or not a Dragoman configuration")
    if (kind := settings["model_type"]) != "dragoman":
        cure = f"; import it first: {command('import', folder, '--out', 'MODEL')}" if kind == "marian" else ""
        raise DragomanError(f"{folder}: a {kind} model, not one of Dragoman's{cure}")
    return settings


def read_description(folder: Path) -> tuple[ModelConfig, Vocabulary, Direction]:
    """All of a model folder except its weights."""
    settings = read_config(folder)
    vocabulary = Vocabulary.load(folder)
    try:
        config = ModelConfig(**settings["model"])
        direction = Direction(settings["source"], settings["target"], settings.get("facts", {}))
        known = dict(settings.get("checksums") or {})
    except (KeyError, TypeError, ValueError) as error:
        raise DragomanError(f"{folder / CONFIG_FILE}: not a usable configuration ({error})") from None
    for name, content in vocabulary.files().items() if known else ():
        if known.get(name) != hashlib.sha256(content).hexdigest():
            raise DragomanError(f"{folder / name}: damaged, or of another model; copy the model again")
    sizes = (len(vocabulary.source), len(vocabulary.target))
    if sizes != (config.source_vocab_size, config.target_vocab_size):
        raise DragomanError(f"{folder}: the subword model has {sizes} subwords, {CONFIG_FILE} says otherwise")
    return config, vocabulary, direction


def model_key(folder: Path) -> str:
    """What changes with a model folder's weights, description or the way it is copied; or with an exported folder.

    Weights that come with a checksum are not read.
    """
    if (folder / MODEL_FILE).is_file():
        return checksum(folder / EXPORT_FILE)
    path = folder / WEIGHTS_FILE
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            weights = (file.metadata() or {}).get("sha256") or checksum(path)
    except (OSError, safetensors.SafetensorError):
        return ""
    return f"{weights} {checksum(folder / CONFIG_FILE)} {_COPY_VERSION}"


# ---- exported folders

_DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError)


@dataclass(frozen=True)
class Description:
    """What `dragoman.json` says about its folder, or `config.json` about a model folder."""

    target: str  # what the model was exported to; empty for a model folder
    direction: Direction
    config: ModelConfig
    checksums: dict[str, str]  # SHA-256 of each file that the library reads, by its path in the folder
    made_from: str  # model_key of the model folder, if this is its copy
    attends: bool  # whether a model for CTranslate2 gives its attention away


def describe(direction: Direction, config: ModelConfig, target: str, folder: Path, made_from: str = "") -> bytes:
    """The content of `dragoman.json`, with the checksums of the files that the library reads: all in the folder."""
    content = {
        "format": target,
        "source": direction.source,
        "target": direction.target,
        "model": asdict(config),
        "facts": direction.facts,
        "checksums": {name: checksum(folder / name) for name in _files_in(folder)},
        "made_from": made_from,
        "attends": target == "ctranslate2",
        "dragoman": VERSION,
    }
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def read_exported(folder: Path, verify: bool = False) -> Description:
    """What an exported folder says about itself; verify compares its files with their checksums."""
    try:
        description = _read(folder / EXPORT_FILE)
    except _DAMAGE as error:
        raise DragomanError(f"{folder / EXPORT_FILE}: missing or damaged ({error}); export the model again") from None
    for name, expected in description.checksums.items() if verify else ():
        if not (folder / name).is_file() or checksum(folder / name) != expected:
            raise DragomanError(f"{folder / name}: missing, damaged, or of another model; export the model again")
    return description


def _read(path: Path) -> Description:
    content = json.loads(path.read_text(encoding="utf-8"))
    direction = Direction(content["source"], content["target"], content["facts"])
    model, checksums = ModelConfig(**content["model"]), dict(content.get("checksums", {}))
    target, made_from = content.get("format", ""), content.get("made_from", "")
    return Description(target, direction, model, checksums, made_from, bool(content.get("attends")))


def files_of_earlier_result(folder: Path, ours: Direction, config: ModelConfig, target: str = "") -> set[str]:
    """Names of what an earlier export of this model to this target left in a folder; without a target, an import of it.

    The same model has the same languages, origin and shape. The result is empty if the folder has something else.
    """
    with suppress(*_DAMAGE):
        found = _read(folder / (EXPORT_FILE if target else CONFIG_FILE))
        names = [(one.source, one.target, one.imported_from) for one in (found.direction, ours)]
        same = names[0] == names[1] and found.config.shape() == config.shape()
        if same and found.target == target and (folder / PARITY_FILE).is_file():
            written = {*(found.checksums if target else MODEL_FILES), CARD_FILE, EXPORT_FILE, PARITY_FILE}
            if not target:
                return {*written, CONVERTED}
            others = {name.partition("/")[0] for name in _files_in(folder) if name not in written}
            return {name.partition("/")[0] for name in written} - others
    return set()


def files_of_model(folder: Path) -> list[Path]:
    """What a model folder, exported or not, and its run may contain that begins as a report; none may replace it."""
    return [folder / name for name in (*RUN_FILES, EXPORT_FILE, PARITY_FILE)]


# ---- the folder of a run


def read_records(folder: Path) -> Iterator[dict[str, Any]]:
    """What a run has recorded in METRICS_FILE, without lines that are none, as a crash may leave one."""
    path = folder / METRICS_FILE
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                record = dict(json.loads(line))
                yield record | {"step": int(record["step"])}


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where a run keeps the weights of one step."""
    return folder / CHECKPOINTS / f"step-{step:08d}.safetensors"


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that a run keeps, oldest first."""
    return sorted(p for p in (folder / CHECKPOINTS).glob("step-*.safetensors") if re.fullmatch(r"step-\d+", p.stem))


def learned_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that a run has trained, oldest first, without the model that fine-tuning started from."""
    return [path for path in list_checkpoints(folder) if path != checkpoint_path(folder, 0)]


def refuse_folder_for_run(config: TrainConfig) -> None:
    """Refuse an output folder with files that a run would write and no run wrote; train.yaml marks those of runs."""
    folder, names = Path(config.out), {*RUN_FOLDERS, *RUN_FILES}
    if not config.valid:
        names |= {f"{HELD_OUT}.{language}" for language in (config.source, config.target)}
    # Nobody writes every single setting.
    is_run = any((folder / CHECKPOINTS).glob("state-*.pt")) or config.lasting().keys() <= run_settings(folder).keys()
    refuse_to_overwrite(folder, names if is_run else (), names)


def refuse_folder_for_average(folder: Path) -> None:
    """Refuse an output folder in which an average would write over anything except an earlier average."""
    is_average = False
    with suppress(DragomanError, TypeError):
        is_average = AVERAGE_FACT in read_config(folder).get("facts", {})
    written = (*MODEL_FILES, RUN_FILE, LOCK_FILE, CHECKPOINTS)
    refuse_to_overwrite(folder, MODEL_FILES if is_average else (), written)


def run_settings(folder: Path) -> dict[str, Any]:
    """The settings in the train.yaml of a run; empty if there are none that can be read."""
    try:
        settings = yaml.safe_load((folder / RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def remove_run(folder: Path, keep: Iterable[Path] = ()) -> None:
    """Remove what a training run wrote into its folder, or nothing if a file to keep is part of it."""
    folders = [folder / name for name in RUN_FOLDERS]
    files = [*folder.glob(f"{HELD_OUT}.*"), *(folder / name for name in RUN_FILES if name != RUN_FILE)]
    removed = {folder.resolve() / path.name for path in (*folders, *files)}
    for path in keep:
        linked, place = path.parent.resolve() / path.name, path.resolve()
        if not removed.isdisjoint((linked, *linked.parents, place, *place.parents)):
            raise DragomanError(f"{path}: --restart would remove this text; move it to another folder first")
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    for path in (*files, folder / RUN_FILE):
        path.unlink(missing_ok=True)
