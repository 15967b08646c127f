"""A recipe: a text, the settings of training, the seeds, and how the models are scored, in one YAML file."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from dragoman.cli.parsing import nearest
from dragoman.config import DragomanError
from dragoman.datasets.registry import SOURCES
from dragoman.runtime.files import checksum
from dragoman.text.corpus import locate

_OF_THE_RUN = ("out", "seed", "restart", "accept_changes", "dry_run", "device")
_OF_THE_SCORES = ("folder", "json", "markdown", "device")
_IMAGINED = ("pairs", "length")


@dataclass(frozen=True)
class Recipe:
    """What a recipe's file says."""

    about: str
    """One line for people."""
    download: str
    """The text, as the verb download calls it."""
    train: dict[str, Any]
    """Settings, as --config takes them; texts are below the folder of the data."""
    evaluate: dict[str, Any]
    """Options of evaluate; texts as in train."""
    seeds: list[int] = field(default_factory=lambda: [1])
    published: str = ""
    """What there is to compare the result with, and where it is from."""
    imagined: dict[str, float] = field(default_factory=dict)
    """Pairs and mean length of the text, for a rehearsal without it."""

    @staticmethod
    def read(path: Path) -> Recipe:
        """Read a recipe.

        Raises:
            DragomanError: there is no such file, or it is no recipe.
        """
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DragomanError(
                f"{path}: {error.strerror}; Dragoman's source repository has some, in recipes/"
            ) from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise _no_recipe(path, " ".join(str(error).split())) from None
        known = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(Recipe)}
        if not isinstance(content, dict):
            raise _no_recipe(path, f"it must have lines such as 'about: …', and {', '.join(list(known)[1:])}")
        if strange := [str(name) for name in content if name not in known]:
            raise _no_recipe(path, f"unknown setting {strange[0]}{nearest(strange[0], known)}")
        if missing := [name for name, required in known.items() if required and name not in content]:
            raise _no_recipe(path, f"it has no {' and no '.join(missing)}")
        recipe = Recipe(**content)
        if fault := next(recipe._faults(), None):
            raise _no_recipe(path, fault)
        return recipe

    def _faults(self) -> Iterator[str]:
        """What is of another kind than it should be; whoever goes on after the first may stumble over it."""
        for name in ("train", "evaluate", "imagined"):
            group = getattr(self, name)
            if not isinstance(group, dict):
                yield f"{name} is a group of settings, to be indented below it"
            elif strange := [key for key in group if not isinstance(key, str)]:
                yield f"{name} has {strange[0]!r} in place of a setting's name; quotes make a text of it"
        texts = {name: getattr(self, name) for name in ("about", "download", "published")}
        texts |= {f"train.{name}": self.train.get(name) for name in ("source", "target")}
        for name, text in texts.items():
            if not isinstance(text, str):
                yield f"{name} must be a text, in quotes where it looks like a number"
        lists = {"train.train": self.train.get("train"), "evaluate.test": self.evaluate.get("test")}
        lists |= {f"train.{name}": self.train[name] for name in ("valid", "test") if name in self.train}
        for name, found in lists.items():
            if not (isinstance(found, list) and found and all(isinstance(text, str) for text in found)):
                yield f"{name} must be a list of texts, such as [val]"
        whole = isinstance(self.seeds, list) and all(type(seed) is int and seed >= 0 for seed in self.seeds)
        if not whole or not self.seeds or len({*self.seeds}) < len(self.seeds):
            yield "seeds must be a list of whole numbers, each once, such as [1, 2, 3]"
        if strange := [key for key in self.imagined if key not in _IMAGINED]:
            yield f"what is imagined has pairs and a length, and no {strange[0]}"
        if not all(type(size) in (int, float) and size > 0 for size in self.imagined.values()):
            yield "what is imagined must have sizes above 0"
        for name, group, reserved in (("train", self.train, _OF_THE_RUN), ("evaluate", self.evaluate, _OF_THE_SCORES)):
            for setting in group:
                if setting.replace("-", "_") in reserved:
                    yield f"{name}.{setting} is for whoever follows the recipe to say"

    def files(self, data: str) -> list[Path]:
        """The files of all texts in a folder.

        Raises:
            DragomanError: one is missing.
        """
        texts = [*self.train["train"], *self.train.get("valid", []), *self.evaluate["test"]]
        languages = self.train["source"], self.train["target"]
        return [path for text in texts for path in locate(within(data, text), *languages).paths]

    def missing(self, data: str) -> str:
        """What a folder lacks of the texts, in words; empty where it has all."""
        try:
            self.files(data)
        except DragomanError as error:
            return str(error)
        return ""

    def strange_files(self, data: str) -> list[str]:
        """Those files of a folder that are not as the download is known to bring them; none where nobody knows."""
        files = SOURCES[self.download].files if self.download in SOURCES else ()
        known = {file.name: file.sha256 for file in files if file.sha256}
        return [str(path) for path in self.files(data) if not _is_known(path, known)] if known else []

    def settings(self, data: str) -> str:
        """The settings of training as a file for --config."""
        texts = {
            name: [within(data, text) for text in self.train[name]]
            for name in ("train", "valid", "test")
            if name in self.train
        }
        return yaml.safe_dump(self.train | texts, sort_keys=False, allow_unicode=True)


def within(data: str, text: str) -> str:
    """A text of a recipe in the folder of the data: a prefix, or a file for each language with a comma between."""
    return ",".join(str(Path(data, part)) for part in text.split(","))


def _no_recipe(path: Path, reason: str) -> DragomanError:
    return DragomanError(f"{path}: not a recipe ({reason}); see those in recipes/ of Dragoman's source repository")


def _is_known(path: Path, known: dict[str, str]) -> bool:
    """Whether a file has the checksum that is known of it; one that was packed later, by its content."""
    if path.name in known or path.suffix != ".gz":
        return known.get(path.name) == checksum(path)
    with gzip.open(path) as content:
        return known.get(path.stem) == hashlib.sha256(content.read()).hexdigest()
