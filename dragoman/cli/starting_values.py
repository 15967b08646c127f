"""Where the settings of a run begin: with a preset, a model to fine-tune, or a file of settings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, get_type_hints

import yaml

from dragoman.config import FINE_TUNING, PRESETS, SETTINGS_OF_ONE_CALL, ConfigError, TrainConfig, require

FOUND_OUT = ("model.source_vocab_size", "model.target_vocab_size")
"""Settings that training finds out by itself."""
_ORIGINS = {"preset": "base", "from": ""}  # what the starting values of the others depend on, and what it is by default
_TYPES = get_type_hints(TrainConfig)
_PLAIN = {field.name.rstrip("_") for field in fields(TrainConfig) if not is_dataclass(_TYPES[field.name])}
_GROUPS = [field.name for field in fields(TrainConfig) if is_dataclass(_TYPES[field.name])]
_DEFAULTS = {
    name: value
    for group in _GROUPS
    for key, value in asdict(_TYPES[group]()).items()
    if (name := f"{group}.{key}") not in FOUND_OUT
}


def starting_values(arguments: Sequence[str]) -> dict[str, Any]:
    """The defaults of train, under dotted names: those of the preset, or of the model to fine-tune.

    Args:
        arguments: with what belongs to an option tied to it by "=", as for the functions below.

    Raises:
        ConfigError: a --config file can't be read.
    """
    origins = _origins_of(arguments)
    return _values_of(origins["preset"], origins["from"])


def _values_of(preset: str, parent: str) -> dict[str, Any]:
    values = _DEFAULTS | PRESETS.get(preset, {})
    if not parent:
        return values
    shape = _shape_of(parent)  # training will say what is wrong with the folder
    return values | FINE_TUNING | {name: shape[key] for name in values if (key := name.removeprefix("model.")) in shape}


def _shape_of(parent: str) -> dict[str, Any]:
    """The settings of a model to fine-tune, as far as its folder can be read."""
    try:
        with open(os.path.join(parent, "config.json"), encoding="utf-8") as file:
            return dict(json.load(file)["model"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _origins_of(arguments: Sequence[str]) -> dict[str, str]:
    """The preset and the parent that the arguments name; needed before they are parsed, as others depend on them."""
    chosen = dict(_ORIGINS)
    for option, value in _pairs(arguments):
        said = read_settings(value) if option == "--config" else {option.removeprefix("--"): value}
        chosen |= {name: str(said[name]) for name in _ORIGINS if name in said}
    return chosen


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value."""
    for word in arguments:
        option, _, value = word.partition("=")
        yield option, value


def settings_of(arguments: Sequence[str]) -> dict[str, str]:
    """The file that says what a setting is to be, by the setting's dotted name, for each --config of the arguments.

    Raises:
        ConfigError: there is no such file, or it has no settings.
    """
    known: dict[str, str] = {}
    for option, path in _pairs(arguments):
        if option == "--config":
            require(os.path.exists(path), f"--config {path!r}: no such file")
            require(not os.path.isdir(path), f"--config {path!r}: a folder; name a file, such as train.yaml in it")
            require(os.path.isfile(path), f"--config {path!r}: can be read only once; write the settings into a file")
            known |= dict.fromkeys(_dotted(read_settings(path)), path)
    return known


def without_replaced_origins(arguments: Sequence[str]) -> list[str]:
    """The arguments, with settings in place of a run's file of them where a later option replaces preset or parent.

    Such a file has all settings, most of them from the preset that it names. Those would keep the starting values of
    the other one from having any effect, so that only what the run had chosen otherwise is left.

    Raises:
        ConfigError: the parent of that run is gone, so that nobody knows what it had chosen.
    """
    origins = _origins_of(arguments)
    words = []
    for word in arguments:
        option, _, path = word.partition("=")
        words.append(f"--config={_what_is_left(path, origins)}" if option == "--config" else word)
    return words


def _what_is_left(path: str, origins: dict[str, str]) -> str:
    """The file itself, or what a run has chosen otherwise than its own preset or parent, where these are replaced."""
    settings = read_settings(path)
    known = {*_dotted(settings)}
    if not known >= {*_DEFAULTS} | _PLAIN - {*SETTINGS_OF_ONE_CALL}:
        return path  # not written by a run: all that it says is meant
    own = {name: str(settings[name]) for name in _ORIGINS}
    if own == origins:
        return path
    parent = own["from"]
    require(not parent or bool(_shape_of(parent)), f"{path}: {parent}, which its run fine-tuned, is not there any more")
    usual = _values_of(own["preset"], parent)
    for group in _GROUPS:
        settings[group] = {k: value for k, value in settings[group].items() if usual.get(f"{group}.{k}") != value}
    return _in_ascii(json.dumps({name: value for name, value in settings.items() if value != {}}, ensure_ascii=False))


def _in_ascii(content: str) -> str:
    """JSON as YAML takes it, to which half a character's code means nothing."""
    return "".join(c if c.isascii() and c.isprintable() else f"\\U{ord(c):08x}" for c in content)


class _Loader(yaml.SafeLoader):
    """Refuses a name that stands twice: only the last of its values would count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for (key, _), name in zip(node.value, names, strict=True):
            if names.count(name) > 1:
                raise yaml.MarkedYAMLError(problem=f"{name} stands there twice", problem_mark=key.start_mark)
        return dict(super().construct_mapping(node, deep))


def read_settings(path: str) -> dict[str, Any]:
    """What a --config file says.

    Raises:
        ConfigError: it is not YAML, or not as settings are: names with values, or with names with values.
    """
    try:
        with open(path, encoding="utf-8") as file:
            settings = yaml.load(file, _Loader)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: the --config file is not UTF-8") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise ConfigError(f"{path}{place}: the --config file is not YAML as it should be ({reason})") from None
    require(settings is not None, f"{path}: the --config file has no settings")
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ConfigError(f"{path}: the --config file must have lines such as 'seed: 1'")
    for name, value in settings.items():
        _require_form(path, name, value)
    return settings


def _require_form(path: str, name: str, value: Any) -> None:
    """Raise ConfigError unless a value is of the form that a setting's is."""
    kind = _TYPES.get("from_" if name == "from" else name)
    group, texts = isinstance(value, dict) or not is_dataclass(kind), isinstance(value, list) or kind != list[str]
    require(value is not None, f"{path}: {name} is empty: leave it out, or give it a value")
    require(group, f"{path}: {name} is no setting but a group of them, to be indented below it")
    require(texts, f"{path}: {name} is a list: write {name}: [text, …]")
    require(not _is_deeper_than(1, value), f"{path}: the value of {name} is nested more deeply than settings are")
    text = not isinstance(value, bool) or kind is not str
    require(text, f"{path}: YAML reads the value of {name} as {str(value).lower()}: put it in quotes")
    for inner, one in value.items() if isinstance(value, dict) else ():
        require(one is not None, f"{path}: {name}.{inner} is empty: leave it out, or give it a value")


def _dotted(settings: dict[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        yield from (f"{name}.{inner}" for inner in value) if isinstance(value, dict) else [name]


def _is_deeper_than(levels: int, value: Any) -> bool:
    """Whether lists or mappings stand so deep in one another; what aliases multiply is not followed further."""
    if not isinstance(value, (dict, list)):
        return False
    return levels == 0 or any(
        _is_deeper_than(levels - 1, v) for v in (value.values() if isinstance(value, dict) else value)
    )
