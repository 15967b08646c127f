"""The model folder, whose files docs/design.md lists, and everything a run saves."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
import yaml
from torch import Tensor

from dragoman.config import CHECK_FILE, SETTINGS_OF_ONE_CALL, ConfigError, DragomanError, ModelConfig, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.runtime.console import command, table_cell
from dragoman.runtime.files import make_folder, refuse_to_overwrite, write_atomically, write_together
from dragoman.text.subwords import VOCABULARY_FILES, Vocabulary

CONFIG_FILE, WEIGHTS_FILE, CARD_FILE, CURVES_FILE = "config.json", "model.safetensors", "README.md", "curves.svg"
EXPORT_FILE = "dragoman.json"
"""Marks a folder that was exported for another library."""
MODEL_FILES = (WEIGHTS_FILE, CONFIG_FILE, CARD_FILE, *VOCABULARY_FILES)
"""Every file that a model folder can have; none has all of them."""
CHECKPOINTS, HELD_OUT = "checkpoints", "heldout"
METRICS_FILE, RUN_FILE, LOCK_FILE, REPORT_FILE = "metrics.jsonl", "train.yaml", ".lock", "report.html"
RUN_FILES = (*MODEL_FILES, METRICS_FILE, RUN_FILE, CHECK_FILE, REPORT_FILE, CURVES_FILE)
RUN_FOLDERS = (CHECKPOINTS, "data", "tensorboard")
"""With RUN_FILES and HELD_OUT.*, everything that a training run writes."""

# Names of facts about a model.
AVERAGE_FACT = "average_of"  # the checkpoints that it is the mean of
TEXT_FACT = "training_text_sha256"
IMPORTED_FACT = "imported_from"  # the folder of another toolkit's model
LONGEST_FACT = "longest_training_side"  # subwords of the longest training sentence, `</s>` included
LONGEST_UNKNOWN = 128  # assumed for it in models from elsewhere: few sentences are longer
RUN_FACT = "whole_run"  # what its training run took as a whole, with the next three
SETTINGS_FACT, VALID_FACT, CHANGES_FACT = "settings_sha256", "validation_text_sha256", "changed_on_the_way"
OF_ONE_MODEL = ("validation", "signatures", "kept", "steps", "minutes", RUN_FACT)
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


@dataclass
class ModelFolder:
    """A model with all it needs to translate raw text."""

    model: Transformer
    vocabulary: Vocabulary
    direction: Direction

    @staticmethod
    def load(folder: Path | str) -> ModelFolder:
        """Read a model folder."""
        folder = Path(folder)
        settings = _read_config(folder)
        vocabulary = Vocabulary.load(folder)
        try:
            config = ModelConfig(**settings["model"])
            direction = Direction(settings["source"], settings["target"], settings.get("facts", {}))
            known = dict(settings.get("checksums") or {})
        except (KeyError, TypeError, ValueError) as error:
            raise DragomanError(f"{folder / CONFIG_FILE}: not a usable configuration ({error})") from None
        for name, content in vocabulary.files().items() if known else ():
            if known.get(name) != _sha256(content):
                raise DragomanError(f"{folder / name}: damaged, or of another model; copy the model again")
        sizes = (len(vocabulary.source), len(vocabulary.target))
        if sizes != (config.source_vocab_size, config.target_vocab_size):
            raise DragomanError(f"{folder}: the subword model has {sizes} subwords, {CONFIG_FILE} says otherwise")
        model = build_model(config, read_weights(folder / WEIGHTS_FILE), folder)
        return ModelFolder(model, vocabulary, direction)

    def save(self, folder: Path) -> None:
        """Write the model folder, all files or none, weights last; an earlier model's other subwords are removed."""
        make_folder(folder)
        weights = _serialise(dict(self.model.named_parameters()))
        files = self.vocabulary.files() | self._description(folder) | {WEIGHTS_FILE: weights}
        write_together({folder / name: content for name, content in files.items()})
        for name in set(VOCABULARY_FILES) - files.keys():
            (folder / name).unlink(missing_ok=True)

    def save_description(self, folder: Path) -> None:
        """Write config.json and the model card beside the weights that are there."""
        write_together({folder / name: content for name, content in self._description(folder).items()})

    def _description(self, folder: Path) -> dict[str, bytes]:
        settings = {
            "model_type": "dragoman",
            "source": self.direction.source,
            "target": self.direction.target,
            "model": asdict(self.model.config),
            "facts": self.direction.facts,
            "checksums": {name: _sha256(content) for name, content in self.vocabulary.files().items()},
        }
        content = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        return {CONFIG_FILE: content.encode(), CARD_FILE: (self._card() + picture_of_curves(folder)).encode()}

    def with_facts(self, facts: dict[str, Any]) -> ModelFolder:
        """The same model with more known about it."""
        return replace(self, direction=replace(self.direction, facts=self.direction.facts | facts))

    def identity(self) -> dict[str, Any]:
        """What can't change while weights keep their meaning: the shape of the model, and its subwords."""
        subwords = b"".join(self.vocabulary.files().values())
        return {"model": self.model.config.shape(), "subwords": _sha256(subwords)}

    def in_a_sentence(self) -> str:
        """What the model is and where it is from."""
        facts, origin = self.direction.facts, "trained with Dragoman"
        if imported := imported_from(facts):
            origin = f"imported into Dragoman from {imported}"
            origin += " and fine-tuned there" if TEXT_FACT in facts else ""
        return f"A Transformer of {self.model.num_parameters:,} parameters, {origin}."

    def table_of_facts(self) -> str:
        """All that is known about the model, in Markdown."""
        rows = (f"| {name.replace('_', ' ')} | {table_cell(value)} |\n" for name, value in self.direction.facts.items())
        return "| | |\n|---|---|\n" + "".join(rows)

    def _card(self) -> str:
        source, target = self.direction.source, self.direction.target
        return (
            f"---\nlanguage:\n- {json.dumps(source)}\n- {json.dumps(target)}\npipeline_tag: translation\n"
            f"library_name: dragoman\n---\n"
            f"# {source} → {target}\n\n{self.in_a_sentence()} It takes raw text:\n\n"
            f"```\necho '…' | dragoman translate DIR\n```\n\n{self.table_of_facts()}"
        )


def picture_of_curves(folder: Path) -> str:
    """The curves of the run in a folder as a paragraph of Markdown; empty if there are none."""
    return (
        f"\n![Loss, scores and learning rate of the training run]({CURVES_FILE})\n" * (folder / CURVES_FILE).is_file()
    )


def build_model(config: ModelConfig, weights: dict[str, Tensor], folder: Path) -> Transformer:
    """The model of a folder in evaluation mode; a DragomanError if memory is too small for it."""
    try:
        model = Transformer(config)
    except (RuntimeError, MemoryError):
        raise DragomanError(f"{folder}: its {CONFIG_FILE} describes a model larger than memory") from None
    put_weights(model, weights, folder / WEIGHTS_FILE)
    return model.eval()


def with_plain_keys(facts: Any) -> Any:
    """Facts with keys in snake_case; Dragoman 0.1.0 wrote keys such as "training text (SHA-256)"."""
    if not isinstance(facts, dict):
        return facts
    plain = {name: re.sub(r"\W+", "_", str(name).replace("SHA-256", "sha256")).strip("_") for name in facts}
    return {plain[name]: with_plain_keys(value) for name, value in facts.items()}


def imported_from(facts: Any) -> str:
    """The folder that a model of these facts, or the one it was fine-tuned from, was imported from; otherwise ""."""
    while isinstance(facts, dict):
        if IMPORTED_FACT in facts:
            return str(facts[IMPORTED_FACT])
        facts = facts.get("fine_tuned_from")
    return ""


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    if not folder.is_dir():
        raise DragomanError(f"{folder}: no such folder; give the --out of train, or of import")
    if (folder / EXPORT_FILE).is_file():
        raise DragomanError(f"{folder}: an exported model; give the model folder that it was made from")
    if not path.is_file():
        raise DragomanError(f"{folder}: has no {CONFIG_FILE}; a run saves its first model when it validates")
    try:
        settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        kind = settings["model_type"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DragomanError(f"{path}: damaged, unreadable, or not a Dragoman configuration") from None
    if kind != "dragoman":
        cure = f"; import it first: {command('import', folder, '--out', 'MODEL')}" if kind == "marian" else ""
        raise DragomanError(f"{folder}: a {kind} model, not one of Dragoman's{cure}")
    return settings


# ---- weights


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write weights as safetensors, atomically."""
    make_folder(path.parent)
    write_atomically(path, _serialise(weights))


def _serialise(weights: dict[str, Tensor]) -> bytes:
    tensors = {name: weight.detach().float().cpu().contiguous() for name, weight in weights.items()}
    return safetensors.torch.save(tensors, {"sha256": _digest(tensors)})  # of several keys the order would be random


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights and compare them with their checksum, if any.

    Raises DragomanError: the file is missing, damaged or no safetensors file, or memory is too small for it.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            expected = (file.metadata() or {}).get("sha256")
        tensors = safetensors.torch.load_file(path)
        kinds = {tensor.dtype for tensor in tensors.values()}
        if expected is not None and (expected != _digest(tensors) or kinds - {torch.float32}):
            raise ValueError("its checksum differs")
        return tensors
    except FileNotFoundError:
        raise DragomanError(f"{path}: no such file; the folder holds no trained model (yet)") from None
    except (safetensors.SafetensorError, ValueError) as error:
        raise DragomanError(f"{path}: damaged or truncated ({error}); copy it again") from None
    except (OSError, RuntimeError, MemoryError) as error:  # too little memory is an error of any of these kinds
        raise DragomanError(f"{path}: can't be read ({getattr(error, 'strerror', None) or error})") from None


def fingerprint(path: Path) -> str:
    """SHA-256 of the weights of a file: the same for the same weights, wherever and whenever they were saved."""
    return _digest(read_weights(path))


def put_weights(model: Transformer, weights: dict[str, Tensor], path: Path) -> None:
    """Put weights into a model, or leave it as it is if they do not fit; the path is for messages."""
    own = dict(model.named_parameters())
    for name in sorted(own.keys() | weights.keys()):
        weight = weights.get(name)
        fits = weight is not None and name in own and weight.shape == own[name].shape and weight.is_floating_point()
        if weight is None or not fits or not weight.float().isfinite().all():
            raise DragomanError(f"{path}: the tensor {name} is missing, damaged, or of another model; copy it again")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights (section 6.1), read one after the other."""
    total = {name: weight.double() for name, weight in read_weights(paths[0]).items()}
    for path in paths[1:]:
        weights = read_weights(path)
        if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in total.items()}:
            raise DragomanError(f"{path}: not a checkpoint of the same model as {paths[0]}")
        for name, weight in weights.items():
            total[name] += weight
    return {name: (weight / len(paths)).float() for name, weight in total.items()}


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
    refuse_to_overwrite(folder, names if _is_of_a_run(folder) else (), names)


def refuse_folder_for_average(folder: Path) -> None:
    """Refuse an output folder in which an average would write over anything except an earlier average."""
    is_average = False
    with suppress(DragomanError, TypeError):
        is_average = AVERAGE_FACT in _read_config(folder).get("facts", {})
    written = (*MODEL_FILES, RUN_FILE, LOCK_FILE, CHECKPOINTS)
    refuse_to_overwrite(folder, MODEL_FILES if is_average else (), written)


def _is_of_a_run(folder: Path) -> bool:
    """Whether a folder has the state of a run, or a train.yaml with every single setting, as nobody writes it."""
    names = {setting.name.rstrip("_") for setting in fields(TrainConfig)} - {*SETTINGS_OF_ONE_CALL}
    return any((folder / CHECKPOINTS).glob("state-*.pt")) or names <= run_settings(folder).keys()


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
