"""The model folder with its weights, and the checkpoints of a run."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dragoman.config import DragomanError, ModelConfig
from dragoman.folder import CARD_FILE, CONFIG_FILE, CURVES_FILE, TEXT_FACT, WEIGHTS_FILE, Direction, read_description
from dragoman.model.transformer import Transformer
from dragoman.runtime.console import table_cell
from dragoman.runtime.files import make_folder, write_atomically, write_together
from dragoman.text.subwords import Vocabulary


@dataclass
class ModelFolder:
    """A model with all it needs to translate raw text."""

    model: Transformer
    vocabulary: Vocabulary
    direction: Direction

    @staticmethod
    def load(folder: Path | str) -> "ModelFolder":
        """Read a model folder."""
        folder = Path(folder)
        config, vocabulary, direction = read_description(folder)
        model = build_model(config, read_weights(folder / WEIGHTS_FILE), folder)
        return ModelFolder(model, vocabulary, direction)

    def save(self, folder: Path) -> None:
        """Write the model folder, all files or none, weights last; an earlier model's other subwords are removed."""
        make_folder(folder)
        weights = {WEIGHTS_FILE: _serialise(dict(self.model.named_parameters()))}
        self.vocabulary.save(folder, self._description(folder) | weights)

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
            "checksums": {name: hashlib.sha256(data).hexdigest() for name, data in self.vocabulary.files().items()},
        }
        content = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        return {CONFIG_FILE: content.encode(), CARD_FILE: (self._card() + picture_of_curves(folder)).encode()}

    def with_facts(self, facts: dict[str, Any]) -> "ModelFolder":
        """The same model with more known about it."""
        return replace(self, direction=replace(self.direction, facts=self.direction.facts | facts))

    def identity(self) -> dict[str, Any]:
        """What can't change while weights keep their meaning: the shape of the model, and its subwords."""
        subwords = b"".join(self.vocabulary.files().values())
        return {"model": self.model.config.shape(), "subwords": hashlib.sha256(subwords).hexdigest()}

    def in_a_sentence(self) -> str:
        """What the model is and where it is from."""
        facts, origin = self.direction.facts, "trained with Dragoman"
        if imported := self.direction.imported_from:
            origin = f"imported into Dragoman from {imported}"
            origin += " and fine-tuned there" if TEXT_FACT in facts else ""
        return f"A Transformer of {self.model.num_parameters:,} parameters, {origin}."

    def table_of_facts(self) -> str:
        """All that is known about the model, in Markdown."""
        rows = (f"| {name.replace('_', ' ')} | {table_cell(value)} |\n" for name, value in self.direction.facts.items())
        return "| | |\n|---|---|\n" + "".join(rows)

    def _card(self) -> str:
        source, target = self.direction.source, self.direction.target
        languages = "".join(f"- {json.dumps(code)}\n" for code in self.direction.languages)
        return (
            f"---\nlanguage:\n{languages}pipeline_tag: translation\nlibrary_name: dragoman\n---\n"
            f"# {source} → {target}\n\n{self.in_a_sentence()} It takes raw text:\n\n"
            f"```\necho '…' | dragoman translate DIR\n```\n\n{self.table_of_facts()}"
        )


def picture_of_curves(folder: Path) -> str:
    """The curves of the run in a folder as a paragraph of Markdown; empty if there are none."""
    has_curves = (folder / CURVES_FILE).is_file()
    return f"\n![Loss, scores and learning rate of the training run]({CURVES_FILE})\n" * has_curves


def build_model(config: ModelConfig, weights: dict[str, Tensor], folder: Path) -> Transformer:
    """The model of a folder in evaluation mode; a DragomanError if memory is too small for it."""
    try:
        model = Transformer(config)
    except (RuntimeError, MemoryError):
        raise DragomanError(f"{folder}: its {CONFIG_FILE} describes a model larger than memory") from None
    put_weights(model, weights, folder / WEIGHTS_FILE)
    return model.eval()


# ---- weights


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write weights as safetensors, atomically."""
    make_folder(path.parent)
    write_atomically(path, _serialise(weights))


def _serialise(weights: dict[str, Tensor]) -> bytes:
    tensors = {name: weight.detach().float().cpu().contiguous() for name, weight in weights.items()}
    return safetensors.torch.save(tensors, {"sha256": _digest(tensors)})  # of several keys the order would be random


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
