"""From words on the command line, or in a settings file, to the config dataclass of a verb.

Imports nothing heavy: `--help` answers at once.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, NoReturn, TypeVar, get_args, get_type_hints

import yaml
from docstring_parser import parse_from_object
from jsonargparse import ArgumentParser, Namespace

from dragoman.config import ConfigError, TrainConfig, require
from dragoman.options import ALONE
from dragoman.presets import FINE_TUNING, PRESETS

_Config = TypeVar("_Config")


@dataclass(frozen=True)
class Verb:
    """What the command line has to know of a verb."""

    config: type
    module: str
    """Where its function is, which has the verb's name."""
    positionals: tuple[str, ...] = ("folder",)
    hidden: tuple[str, ...] = ()
    """Settings that the verb finds out by itself."""
    function: str = ""
    """Its function, where that can't have the verb's name."""


_METAVARS = {"system": "FILE", "baseline": "FILE", "seeds": "SEED"}  # of lists that are not of texts
TRAIN = Verb(TrainConfig, "dragoman.train", (), ("model.source_vocab_size", "model.target_vocab_size"))


def first_sentence(config: type) -> str:
    """What a dataclass is for, in the words that its text begins with."""
    return re.split(r"[:.](?:\s|$)", (config.__doc__ or "").strip(), maxsplit=1)[0]


def on_one_line(message: str) -> str:
    """The message with line breaks and other control characters, as file names may have them, spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


# jsonargparse's wordings, and ours
_WORDINGS = (
    (r"Got value:$", "Got value: nothing"),
    (r'Parser key "([\w.]+)"(?: element \d+)?: Expected a', r"\1: Expected a"),
    (r"([\w.]+): Expected a typing\.Literal\[(.*?)\]\. Got value: (.*)", r"\1 must be one of \2, not \3"),
    (r"([\w.]+): Expected a <class '(\w+)'>\. Got value: (.*)", r"\1 must be \2, not \3"),
    (r"'str' object does not support item assignment", "train and valid are lists: write them as [text, …]"),
)


class _Parser(ArgumentParser):
    """Complains in one sentence, and names the nearest key when one is unknown."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print what is wrong and leave with exit code 2."""
        message = re.sub(r"\s+", " ", message).strip()
        for pattern, wording in _WORDINGS:
            message = re.sub(pattern, wording, message)
        required = re.fullmatch(r"the following arguments are required: (.*)", message)
        if required:
            flags = {action.dest: action.option_strings[-1:] for action in self._actions}
            names = ((flags.get(name) or [name])[0] for name in required[1].split(", "))
            message = f"these are required: {', '.join(names)}"
            greedy = [a.option_strings[-1] for a in self._actions if a.option_strings and a.nargs == "+"]
            if not flags.get(required[1]) and greedy:
                message += f"; write it before {greedy[0]}, which takes all that follows"
        keys = [action.dest for action in self._actions]
        unknown = re.search(r"(?:unrecognized arguments:|[Oo]ption|[Kk]ey) ['\":]*(--)?([\w.-]+)", message)
        if unknown and (name := unknown[2].replace("-", "_")) not in keys:
            message = f"unknown setting {name}{nearest(name, keys)}"
            if name.startswith("_") and "sentence" in keys:
                message = f"unknown option {unknown[2]}; a sentence that begins with a dash goes last, after --"
        print(f"{self.prog}: {on_one_line(message)} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def nearest(name: str, known: Sequence[str] | dict[str, Any]) -> str:
    """The end of a sentence that suggests what may have been meant; empty where nothing is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {found[0]}?)" if found else ""


def parse(name: str, verb: Verb, arguments: Sequence[str]) -> Any:
    """The config of a verb.

    Args:
        name: of the verb.
        verb: what to know of it.
        arguments: the words after its name.

    Raises:
        ConfigError: a setting has an impossible value.
        SystemExit: the words can't be understood, or ask for help; what there was to say has been printed.
    """
    arguments = _normalised(arguments, verb)
    parser = _Parser(prog=f"dragoman {name}", description=verb.config.__doc__, allow_abbrev=False)
    if name == "train":
        parser.add_argument("--config", action="config", help="YAML file of settings; later arguments win.")
    _add_fields(parser, verb.config, "", verb)
    parser.usage = _usage(parser)
    if name == "train":
        parser.set_defaults(_starting_values(arguments))
    try:
        return _build(verb.config, parser.parse_args(arguments))
    except TypeError as error:
        raise ConfigError(f"a setting has a value of the wrong kind ({error}); lists look like [a, b]") from None


def in_utf8(argument: str) -> str:
    """The same word.

    Raises:
        ConfigError: it has bytes that are no text.
    """
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the text {argument!a} can't be written in UTF-8") from None
    return argument


_OPTION = re.compile(r"--\w[\w.-]*(?==|$)")


def _normalised(arguments: Sequence[str], verb: Verb) -> list[str]:
    """Options as the parser wants them: --max-minutes for --max_minutes, a value for those that stand alone.

    What belongs together is tied with "=", and comes first in a verb that has positionals, so that these may stand
    anywhere among the options.
    """
    types = get_type_hints(verb.config)
    single = {_flag(name) for name, kind in types.items() if kind != list[str]}
    alone = {_flag(name): allowed for name, allowed in _standing_alone(verb.config).items()}
    _refuse_repeated_lists(arguments, {_flag(name) for name, kind in types.items() if kind == list[str]})
    others: list[str] = []
    tied: list[str] = [] if verb.positionals else others
    waiting = list(arguments)
    while waiting and waiting[0] != "--":
        argument = waiting.pop(0)
        if _OPTION.match(argument) and not argument.startswith("--print_config"):
            name, equals, value = argument.partition("=")
            argument = name.replace("_", "-") + equals + value
        following = waiting[0] if waiting else ""
        has_value = bool(waiting) and not _OPTION.match(following) and following != "--"
        if argument in alone and verb.positionals and following.lower() not in alone[argument]:
            has_value = False  # a positional follows
        if argument in alone and not has_value:
            tied.append(f"{argument}={alone[argument][0]}")
        elif argument in single and has_value:
            tied.append(f"{argument}={waiting.pop(0)}")
        else:
            (tied if argument.partition("=")[0] in single else others).append(argument)
    return (tied + others if verb.positionals else others) + waiting


def _refuse_repeated_lists(arguments: Sequence[str], lists: set[str]) -> None:
    """Raise ConfigError where a list is given in two parts: only the last of them would count."""
    words = list(arguments)[: arguments.index("--") if "--" in arguments else None]
    given = [word.partition("=")[0].replace("_", "-") for word in words]
    for name in lists:
        require(given.count(name) < 2, f"{name} is given twice: give all of its values after one {name}")


def _flag(name: str) -> str:
    """The option of a field; a name that is a Python keyword ends in an underscore."""
    return "--" + name.rstrip("_").replace("_", "-")


def _standing_alone(config: type) -> dict[str, list[str]]:
    """The fields whose option may come without a value: first the value that this means, then all that are possible."""
    types = get_type_hints(config)
    switches = {field.name: ["true", "false"] for field in fields(config) if types[field.name] is bool}
    choices = {field.name: field.metadata[ALONE] for field in fields(config) if ALONE in field.metadata}
    return switches | {name: [value, *get_args(types[name])] for name, value in choices.items()}


def _add_fields(parser: Any, config: type, prefix: str, verb: Verb) -> None:
    """One option for each field, under its dotted name, with the text under the field as help."""
    types = get_type_hints(config)
    documented = [base for base in reversed(config.__mro__) if is_dataclass(base)]
    texts = {p.arg_name: p.description or "" for base in documented for p in parse_from_object(base).params}
    for field in fields(config):
        name, kind = prefix + field.name.rstrip("_"), types[field.name]
        if name in verb.hidden:
            continue
        if is_dataclass(kind):
            group = parser.add_argument_group(f"{field.name}: {first_sentence(kind)}")  # type: ignore[arg-type]
            _add_fields(group, kind, f"{name}.", verb)  # type: ignore[arg-type]
            continue
        required = field.default is MISSING and field.default_factory is MISSING
        argument: dict[str, Any] = {"help": texts.get(field.name, "").replace("%", "%%")}
        if kind == list[str]:
            argument |= {"nargs": "+", "type": str, "metavar": _METAVARS.get(name, "TEXT")}
        else:
            kind = str if kind == str | None else kind  # or the word "null" would be none
            argument |= {"type": kind} | ({} if required else {"default": field.default})
        alone = True if kind is bool else field.metadata.get(ALONE)
        if name in verb.positionals:
            parser.add_argument(name, **argument, **({} if required else {"nargs": "?"}))
        else:
            argument |= {} if alone is None else {"nargs": "?", "const": alone}
            parser.add_argument(_flag(name), required=required, **argument)


def _usage(parser: _Parser) -> str:
    """What must be given, positionals first, since an option that takes several values would take them, too."""
    words = []
    for action in sorted(parser._actions, key=lambda action: bool(action.option_strings)):
        name = " ".join([*action.option_strings[-1:], str(action.metavar or action.dest.upper())])
        if not action.option_strings:
            words.append(action.dest if action.required else f"[{action.dest}]")
        elif action.required:
            words.append(f"{name} [{action.metavar} ...]" if action.nargs == "+" else name)
    words = [parser.prog, *words, "[options]"]
    return textwrap.fill(" ".join(words), 72, subsequent_indent=" " * 8, break_on_hyphens=False).replace("%", "%%")


def _starting_values(arguments: Sequence[str]) -> dict[str, Any]:
    """The defaults of train: those of the preset, or of the model to fine-tune."""
    values = dict(PRESETS.get(_chosen("preset", arguments, "base"), {}))
    parent = _chosen("from", arguments, "")
    if not parent:
        return values
    try:
        with open(os.path.join(parent, "config.json"), encoding="utf-8") as file:
            model = dict(json.load(file)["model"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return values  # training will say what is wrong with the folder
    shape = {f"model.{name}": value for name, value in model.items() if f"model.{name}" not in TRAIN.hidden}
    return values | FINE_TUNING | shape


def _chosen(name: str, arguments: Sequence[str], default: str) -> str:
    """The value that the arguments give a setting; needed before they are parsed, because others depend on it."""
    chosen = default
    for option, value in zip(arguments, [*arguments[1:], ""], strict=False):
        key, equals, attached = option.partition("=")
        value = attached if equals else value
        if key == f"--{name}":
            chosen = value
        elif key == "--config" and os.path.isfile(value):
            chosen = str(_read_settings(value).get(name, chosen))
        elif key == "--config":
            require(os.path.exists(value), f"--config {value!r}: no such file")
    return chosen


def _read_settings(path: str) -> dict[str, Any]:
    """What a --config file says.

    Raises:
        ConfigError: it is not YAML, or not as settings are: names with values, or with names with values.
    """
    try:
        with open(path, encoding="utf-8") as file:
            settings = yaml.safe_load(file) or {}
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: the --config file is not UTF-8") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise ConfigError(f"{path}{place}: the --config file is not YAML ({reason})") from None
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ConfigError(f"{path}: the --config file must have lines such as 'seed: 1'")
    types = get_type_hints(TrainConfig)
    for name, value in settings.items():
        kind = types.get(name)
        group, texts = isinstance(value, dict) or not is_dataclass(kind), isinstance(value, list) or kind != list[str]
        require(value is not None, f"{path}: {name} is empty: leave it out, or give it a value")
        require(group, f"{path}: {name} is no setting but a group of them, to be indented below it")
        require(texts, f"{path}: {name} is a list: write {name}: [text, …]")
        require(not _is_deeper_than(1, value), f"{path}: the value of {name} is nested more deeply than settings are")
    return settings


def _is_deeper_than(levels: int, value: Any) -> bool:
    """Whether lists or mappings stand so deep in one another; what aliases multiply is not followed further."""
    if not isinstance(value, (dict, list)):
        return False
    return levels == 0 or any(
        _is_deeper_than(levels - 1, v) for v in (value.values() if isinstance(value, dict) else value)
    )


def _build(config: type[_Config], values: Namespace) -> _Config:
    """The config dataclass from the parsed namespace."""
    types = get_type_hints(config)
    chosen: dict[str, Any] = {}
    for field in fields(config):  # type: ignore[arg-type]
        value = values.get(field.name.rstrip("_"))
        if is_dataclass(types[field.name]):
            require(isinstance(value, Namespace), f"{field.name} is a group of settings, not {value!r}")
            chosen[field.name] = _build(types[field.name], value)
        elif value is not None:
            chosen[field.name] = value
            for text in value if isinstance(value, list) else [value]:
                require("\0" not in in_utf8(str(text)), f"{field.name.rstrip('_')} contains a NUL character")
    return config(**chosen)
