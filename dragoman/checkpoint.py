"""The model folder: configuration, weights and subword model together, and everything a run saves.

`config.json`, `model.safetensors`, `sentencepiece.model` (or `source.spm` and `target.spm`) and `README.md`, the
model card. Each file is written beside its place, flushed to disk and renamed: what was there survives any failure.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dragoman.config import ConfigError, DragomanError, ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.text.subword import JOINT_FILE, SOURCE_FILE, TARGET_FILE, Vocabulary

CONFIG_FILE, WEIGHTS_FILE, CARD_FILE = "config.json", "model.safetensors", "README.md"
CHECKPOINTS, TRAINING_STATE = "checkpoints", "training_state.pt"
METRICS_FILE, RUN_FILE = "metrics.jsonl", "train.yaml"


@dataclass(frozen=True)
class Direction:
    """What a model folder translates, and what is known about how it came to be."""

    source: str
    """Source language code."""
    target: str
    """Target language code."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Training data fingerprint, steps, scores with their signatures, …; JSON values only."""


@dataclass
class ModelFolder:
    """A model with all it needs to translate raw text."""

    model: Transformer
    vocabulary: Vocabulary
    direction: Direction

    @staticmethod
    def load(folder: Path | str) -> ModelFolder:
        """Read a model folder.

        Raises:
            DragomanError: it is no model folder, or part of it is missing or damaged.
        """
        folder = Path(folder)
        settings = _read_config(folder)
        vocabulary = Vocabulary.load(folder)
        try:
            config = ModelConfig(**settings["model"])
            direction = Direction(settings["source"], settings["target"], settings.get("facts", {}))
        except (KeyError, TypeError, ConfigError) as error:
            raise DragomanError(f"{folder / CONFIG_FILE}: not a usable configuration ({error})") from None
        sizes = (len(vocabulary.source), len(vocabulary.target))
        if sizes != (config.source_vocab_size, config.target_vocab_size):
            raise DragomanError(f"{folder}: the subword model has {sizes} subwords, {CONFIG_FILE} says otherwise")
        model = Transformer(config)
        load_weights(model, folder / WEIGHTS_FILE)
        return ModelFolder(model.eval(), vocabulary, direction)

    def save(self, folder: Path) -> None:
        """Write the model folder; the weights last, so that a new folder is a model only when it is complete.

        Raises:
            DragomanError: the folder can't be written; its earlier files are intact.
        """
        self.save_description(folder)
        save_weights(dict(self.model.named_parameters()), folder / WEIGHTS_FILE)

    def save_description(self, folder: Path) -> None:
        """Write all but the weights."""
        make_folder(folder)
        for name, content in self.vocabulary.files().items():
            write_atomically(folder / name, content)
        settings = {
            "model_type": "dragoman",
            "source": self.direction.source,
            "target": self.direction.target,
            "model": asdict(self.model.config),
            "facts": self.direction.facts,
        }
        write_atomically(folder / CONFIG_FILE, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        write_atomically(folder / CARD_FILE, self._card().encode())

    def with_facts(self, facts: dict[str, Any]) -> ModelFolder:
        """The same model with more known about it."""
        return replace(self, direction=replace(self.direction, facts=self.direction.facts | facts))

    def _card(self) -> str:
        source, target = self.direction.source, self.direction.target
        rows = "".join(f"| {name} | {_in_words(value)} |\n" for name, value in self.direction.facts.items())
        return (
            f"---\nlanguage:\n- {source}\n- {target}\npipeline_tag: translation\nlibrary_name: dragoman\n---\n"
            f"# {source} → {target}\n\n"
            f"A Transformer of {self.model.num_parameters:,} parameters, trained with Dragoman. It takes raw text:\n\n"
            f"```\necho '…' | dragoman translate DIR\n```\n\n| | |\n|---|---|\n{rows}"
        )


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return "<br>".join(f"{key}: {_in_words(inner)}" for key, inner in value.items())
    return str(value).replace("|", "\\|")


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    if not folder.is_dir():
        raise DragomanError(f"{folder}: no such folder")
    if not path.is_file():
        raise DragomanError(f"{folder}: not a model folder (it has no {CONFIG_FILE}); give the --out of a training run")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        if settings["model_type"] != "dragoman":
            raise DragomanError(f"{folder}: a {settings['model_type']} model, not one of Dragoman's")
    except (ValueError, KeyError, TypeError):
        raise DragomanError(f"{path}: damaged, or not a Dragoman configuration") from None
    return settings  # type: ignore[no-any-return]


def make_folder(folder: Path) -> None:
    """Make a folder and its parents.

    Raises:
        DragomanError: it can't be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DragomanError(f"{folder}: can't be written ({error.strerror}); choose another place") from None
    if not os.access(folder, os.W_OK):
        raise DragomanError(f"{folder}: can't be written (read-only); choose another place")


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content, or leave it as it was.

    Raises:
        DragomanError: it can't be written, for example because the disk is full.
    """
    if path.exists() and not path.is_file():  # a pipe or a device takes bytes, but can't be replaced
        _write_into(path, content)
        return
    path = path.resolve()  # a link stays one
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _not_saved(path, error) from None


def _write_into(path: Path, content: bytes) -> None:
    try:
        with path.open("wb") as file:
            file.write(content)
    except BrokenPipeError:
        raise  # the reader had enough: no failure of ours
    except OSError as error:
        raise _not_saved(path, error) from None


def _not_saved(path: Path, error: OSError | RuntimeError) -> DragomanError:
    full = not isinstance(error, OSError) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = error.strerror if isinstance(error, OSError) else "the disk may be full"
    before = "; what was there before is intact" if path.is_file() else ""
    cure = "make room and run the same command again" if full else "name another place"
    return DragomanError(f"{path}: could not be saved ({reason}){before}; {cure}")


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write weights as safetensors, atomically; errors as for write_atomically."""
    make_folder(path.parent)
    tensors = {name: weight.detach().float().cpu().contiguous() for name, weight in weights.items()}
    metadata = {"format": "pt", "sha256": _digest(tensors)}
    write_atomically(path, safetensors.torch.save(tensors, metadata=metadata))


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights, and compare them with their checksum where the file has one.

    Raises:
        DragomanError: the file is missing, damaged or no safetensors file.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            expected = (file.metadata() or {}).get("sha256")
        tensors = safetensors.torch.load_file(path)
        if expected is not None and expected != _digest(tensors):
            raise ValueError("its checksum differs")
        return tensors
    except FileNotFoundError:
        raise DragomanError(f"{path}: no such file; the folder holds no trained model (yet)") from None
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        raise DragomanError(f"{path}: damaged or truncated ({error}); copy it again") from None


def load_weights(model: Transformer, path: Path) -> None:
    """Read weights into a model; every one must be there, with the right shape, and no other.

    Raises:
        DragomanError: the file is missing or damaged, or does not fit the model.
    """
    weights = read_weights(path)
    own = dict(model.named_parameters())
    if differing := sorted(own.keys() ^ weights.keys()):
        name = differing[0]
        problem = "is missing" if name in own else "is unknown to this model"
        raise DragomanError(f"{path}: the tensor {name} {problem}; the file does not fit its {CONFIG_FILE}")
    for name, parameter in own.items():
        if parameter.shape != weights[name].shape:
            shapes = f"{tuple(weights[name].shape)}, not {tuple(parameter.shape)}"
            raise DragomanError(f"{path}: the tensor {name} is {shapes}; the file does not fit its {CONFIG_FILE}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])


def remove_run(folder: Path) -> None:
    """Remove what a training run wrote into its folder, and nothing else."""
    for name in (CHECKPOINTS, "data", "tensorboard"):
        shutil.rmtree(folder / name, ignore_errors=True)
    files = [CONFIG_FILE, WEIGHTS_FILE, CARD_FILE, JOINT_FILE, SOURCE_FILE, TARGET_FILE, METRICS_FILE, RUN_FILE]
    for path in [*(folder / name for name in files), *folder.glob("heldout.*")]:
        path.unlink(missing_ok=True)


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights (section 6.1), holding two of them in memory at a time.

    Raises:
        DragomanError: there is none, one is damaged, or they are of different models.
    """
    if not paths:
        raise DragomanError("no checkpoints to average")
    total = {name: weight.double() for name, weight in read_weights(paths[0]).items()}
    for path in paths[1:]:
        weights = read_weights(path)
        if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in total.items()}:
            raise DragomanError(f"{path}: not a checkpoint of the same model as {paths[0]}")
        for name, weight in weights.items():
            total[name] += weight
    return {name: (weight / len(paths)).float() for name, weight in total.items()}


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where a run keeps the weights of one step."""
    return folder / CHECKPOINTS / f"step-{step:08d}.safetensors"


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that a run keeps, oldest first."""
    return sorted(p for p in (folder / CHECKPOINTS).glob("step-*.safetensors") if re.fullmatch(r"step-\d+", p.stem))


def save_training_state(folder: Path, state: dict[str, Any]) -> None:
    """Write all that a run needs to continue, atomically: tensors, numbers, texts, lists and dicts."""
    partial = folder / CHECKPOINTS / (TRAINING_STATE + ".partial")
    final = partial.with_name(TRAINING_STATE)
    make_folder(partial.parent)
    try:
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(final)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        partial.unlink(missing_ok=True)
        raise _not_saved(final, error) from None


def load_training_state(folder: Path) -> dict[str, Any] | None:
    """What save_training_state wrote, or None where nothing was saved.

    Raises:
        DragomanError: the file is damaged.
    """
    path = folder / CHECKPOINTS / TRAINING_STATE
    if not path.is_file():
        return None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError, KeyError):
        raise DragomanError(f"{path}: damaged or truncated; begin again with --restart true") from None
