"""From the words of the command line, and the settings files that they name, to the config dataclass of a verb.

Every option is a field of a dataclass, and its help is the text under the field. Imports nothing heavy, so that
`--help` answers at once.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import textwrap
from argparse import Action, ArgumentError
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docstring_parser import parse_from_object
from jsonargparse import ArgumentParser, DefaultHelpFormatter

from dragoman.cli.options import CONST
from dragoman.config import FINE_TUNING, PRESETS, ConfigError, OptimizerConfig, TrainConfig, require
from dragoman.runtime.console import shorten

_LONGEST_MESSAGE = 400
_METAVARS = {"system": "FILE", "baseline": "FILE", "seeds": "SEED"}  # of lists that are not of texts
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "dict": "a group"}


@dataclass(frozen=True)
class Verb:
    """What the command line knows of a verb."""

    config: type
    module: str
    """Where its function is, which has the verb's name."""
    positionals: tuple[str, ...] = ("folder",)
    hidden: tuple[str, ...] = ()
    """Settings that are no options of this verb."""
    function: str = ""
    """The function's name where it is not the verb's."""

    @cached_property
    def options(self) -> list[Option]:
        """The verb's options, positionals included, in the order of its help."""
        return [option for option in _options(self.config) if option.name not in self.hidden]

    def usage(self, program: str) -> str:
        """The words that must be given: positionals first, because an option of several values would take them."""
        options = self.options
        positionals = [option for option in options if option.name in self.positionals]
        words = [option.name if option.default is MISSING else f"[{option.name}]" for option in positionals]
        required = [option for option in options if option.default is MISSING and option not in positionals]
        words += [f"{option.flag} {option.metavar}" for option in required]
        return " ".join([program, *words, "[options]"])


@dataclass(frozen=True)
class Option:
    """One setting of a verb."""

    name: str
    """Dotted, as in a settings file: model.d_model."""
    kind: Any
    """The type of its value."""
    default: Any
    """MISSING where the option is required."""
    const: Any
    """The value of the option when it is given without one; None where it needs one."""
    text: str
    """What it is for."""

    @property
    def flag(self) -> str:
        """As on the command line: --model.d-model."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self.kind) is list

    @property
    def metavar(self) -> str:
        """What stands for its value in a usage line."""
        name = _METAVARS.get(self.name, "TEXT")
        return f"{name} [{name} ...]" if self.is_list else self.name.upper()

    @property
    def default_text(self) -> str:
        """The default as people write it; empty where it is empty, or there is none."""
        if self.default in (MISSING, "", [], None):
            return ""
        plain = f"{self.default:g}" if isinstance(self.default, float) else str(self.default)
        return plain.lower() if self.kind is bool else plain

    @property
    def values(self) -> Collection[str]:
        """The words that can only be this option's value; empty where it can be any word."""
        if self.kind is bool:
            return ("true", "false")
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()


def _options(config: type, prefix: str = "") -> Iterator[Option]:
    """The settings of a dataclass, its own before those it inherits, then those of the dataclasses in it."""
    types = get_type_hints(config)
    own = {name: place for place, name in enumerate(inspect.get_annotations(config))}
    bases = [base for base in reversed(config.__mro__) if is_dataclass(base)]
    texts = {param.arg_name: param.description or "" for base in bases for param in parse_from_object(base).params}
    place = {field.name: (is_dataclass(types[field.name]), own.get(field.name, len(own))) for field in fields(config)}
    for field in sorted(fields(config), key=lambda field: place[field.name]):
        kind, name = types[field.name], prefix + field.name.rstrip("_")
        if is_dataclass(kind):
            yield from _options(kind, f"{name}.")  # type: ignore[arg-type]
            continue
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        const = True if kind is bool else field.metadata.get(CONST)
        yield Option(name, str if kind == str | None else kind, default, const, texts.get(field.name, ""))


def first_sentence(config: type) -> str:
    """What a dataclass is for: the beginning of its docstring."""
    return re.split(r"[:.](?:\s|$)", (config.__doc__ or "").strip(), maxsplit=1)[0]


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a sentence that suggests what may have been meant; empty where nothing is near."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {found[0]}?)" if found else ""


def parse(name: str, verb: Verb, words: Sequence[str]) -> Any:
    """The config of a verb, from the words that follow the verb; raises ConfigError for wrong words."""
    options = {option.flag: option for option in verb.options}
    words = _options_first(words, options)
    parser = _parser(verb, f"dragoman {name}")
    to_print = [word for word in words if word.startswith("--print_config")]
    with _plain_errors(verb):
        given = _given(parser, verb, [word for word in words if word not in to_print])
        starting: dict[str, Any] = {}
        if verb.config is TrainConfig:
            starting = _starting_values(given)
            _refuse_unused_rate(starting | given, words)
            for word in words:
                without_effect = word.split("=")[0] in ("--preset", "--from") and starting.keys() <= given.keys()
                require(not without_effect, f"{word} has no effect, because the settings it chooses are all given")
        if to_print:
            defaults = {option.name: option.default for option in verb.options if option.default is not MISSING}
            parser.set_defaults(defaults | starting)
            parser.parse_args(words)  # prints, and exits
        missing = [option for option in options.values() if option.default is MISSING and option.name not in given]
        wanted = ", ".join(option.name if option.name in verb.positionals else option.flag for option in missing)
        require(not missing, f"required: {wanted} (usage: {verb.usage(parser.prog)})")
        return _build(verb.config, starting | given)


def read_settings(config: type, path: Path) -> Any:
    """The config dataclass of which a YAML file has the settings; raises ConfigError for a wrong file."""
    file = Verb(config, "", ())
    with _plain_errors(file):
        given = _given(_parser(file), file, [f"--config={path}"])
        missing = [option.name for option in file.options if option.default is MISSING and option.name not in given]
        require(not missing, f"{', '.join(missing)} missing")
        return _build(config, given)


@contextmanager
def _plain_errors(verb: Verb) -> Iterator[None]:
    """Raise ConfigError with one sentence where jsonargparse raises ArgumentError."""
    try:
        yield
    except ArgumentError as error:
        raise ConfigError(shorten(_in_plain_words(error.message, verb), _LONGEST_MESSAGE)) from None
    except ConfigError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:  # of PyYAML
        raise ConfigError(f"the settings can't be understood ({shorten(str(error), _LONGEST_MESSAGE)})") from None


def _given(parser: ArgumentParser, verb: Verb, words: Sequence[str]) -> dict[str, Any]:
    """The settings that the words and the files they name give, by dotted name, without defaults."""
    given = vars(parser.parse_args(words, defaults=False).as_flat())
    given.pop("config", None)
    names = {option.name for option in verb.options}
    for name in given:
        require(name in names, f"{name} is a group of settings: give each of them by its name")
    return {name: value for name, value in given.items() if value is not None or name not in verb.positionals}


# ---- the parser


class _HelpFormatter(DefaultHelpFormatter):
    """Shows help texts as they are: they say what a value is, and have the default at their end."""

    def _get_help_string(self, action: Action) -> str:
        return action.help or ""


def _parser(verb: Verb, program: str = "dragoman") -> ArgumentParser:
    """The parser of a verb."""
    parser = ArgumentParser(
        prog=program,
        usage=textwrap.fill(verb.usage(program), 72, subsequent_indent=" " * 8, break_on_hyphens=False),
        description=verb.config.__doc__,
        allow_abbrev=False,
        exit_on_error=False,
        formatter_class=_HelpFormatter,
    )
    if not verb.module or verb.config is TrainConfig:
        parser.add_argument(
            "--config",
            action="config",
            help="YAML file of settings. Files and options apply in order; the last one wins.",
        )
    groups: dict[str, Any] = {"": parser}
    types = get_type_hints(verb.config)
    for option in verb.options:
        group = option.name.rpartition(".")[0]
        if group not in groups:
            groups[group] = parser.add_argument_group(group, first_sentence(types[group]))
        settings: dict[str, Any] = {"type": option.kind}
        if option.is_list:
            settings = {"type": get_args(option.kind)[0], "nargs": "+", "metavar": option.metavar.split()[0]}
        elif option.name in verb.positionals:
            settings["nargs"] = "?"
        elif option.const is not None:
            settings |= {"nargs": "?", "const": option.const}
        note = "required" if option.default is MISSING else f"default: {option.default_text}"
        settings["help"] = f"{option.text} ({note})" if not note.endswith(": ") else option.text
        groups[group].add_argument(option.name if option.name in verb.positionals else option.flag, **settings)
    return parser


def _options_first(words: Sequence[str], options: Mapping[str, Option]) -> list[str]:
    """The words as argparse understands them: options, spelt with dashes, and after "--" the positionals.

    By itself, argparse gives an optional positional its default at the first option, gives a switch the positional
    that follows it, and drops the first of two parts of a list.
    """
    waiting, arranged, positionals = list(words), list[str](), list[str]()
    while waiting and waiting[0] != "--":
        word = waiting.pop(0)
        if not word.startswith("--"):
            (arranged if re.match(r"-\w", word) else positionals).append(word)
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-").replace("--print-config", "--print_config")
        option = options.get(flag)
        if option and option.is_list:
            require(flag not in arranged, f"{flag} is given twice: give all of its values after one {flag}")
            arranged += [flag, *([value] if equals else [])]
            while waiting and not waiting[0].startswith("--"):
                arranged.append(waiting.pop(0))
        elif option and option.const is not None and not equals:
            has_value = bool(waiting) and waiting[0].lower() in option.values
            arranged.append(f"{flag}={waiting.pop(0) if has_value else option.const}")
        else:
            arranged.append(f"{flag}{equals}{value}")
            if not equals and waiting and not waiting[0].startswith("--"):
                arranged.append(waiting.pop(0))
    positionals += waiting[1:]
    return [*arranged, "--", *positionals] if positionals else arranged


def _in_plain_words(message: str, verb: Verb) -> str:
    """A complaint of jsonargparse as one sentence, with the option that may have been meant where one is unknown."""
    message = " ".join(message.split())
    expected = r"Expected an? (?:<class '(\w+)'>|typing\.Literal.*)\. Got value: ?(.*)"
    if wrong := re.match(rf'Parser key "([\w.]+)".*?: {expected}', message):
        name, kind, value = wrong.groups()
        choices = ", ".join(next(option.values for option in verb.options if option.name == name))
        return f"{name} must be {_KINDS[kind] if kind else f'one of {choices}'}, not {value or 'nothing'}"
    if unknown := re.match(r"unrecognized arguments: (?:-- )?([^= ]+)", message):
        if unknown[1] in [f"--{name}" for name in verb.positionals]:
            return f"unknown option {unknown[1]}: give its value without the name"
        if unknown[1].startswith("--"):
            return f"unknown option {unknown[1]}{nearest(unknown[1], [option.flag for option in verb.options])}"
        if unknown[1].startswith("-"):
            return f"unknown option {unknown[1]}; text that begins with a dash goes last, after --"
        return f"unexpected argument {unknown[1]!r}; text with spaces goes in quotes"
    if unknown := re.match(r"Option '(\S+)' is not accepted", message):
        return f"unknown setting {unknown[1]}{nearest(unknown[1], [option.name for option in verb.options])}"
    if "item assignment" in message or "not iterable" in message:
        return "a list is written as [text, …] in a settings file"
    return re.sub(r'^Parser key "([\w.]+)": ', r"--\1: ", message)


def _build(config: type, values: Mapping[str, Any], prefix: str = "") -> Any:
    """The config dataclass from the values of its settings, by dotted name."""
    types, chosen = get_type_hints(config), dict[str, Any]()
    for field in fields(config):
        name = prefix + field.name.rstrip("_")
        if is_dataclass(types[field.name]):
            chosen[field.name] = _build(types[field.name], values, f"{name}.")
        elif name in values:
            value = chosen[field.name] = values[name]
            texts = value if isinstance(value, list) else [value]
            needed = get_origin(types[field.name]) is list or (types[field.name] is str and field.default != "")
            require(value is not None, f"{name} has no value: give it one, or leave it out")
            require("" not in texts or not needed, f"{name} is empty: it needs a value")
            require(all(map(_is_text, map(str, texts))), f"{name} is not text: {value!a}")
    try:
        return config(**chosen)
    except ConfigError as error:
        named = str(error).split(" ")[0] in chosen
        raise ConfigError(f"{prefix if named else ''}{error}") from None


def _is_text(value: str) -> bool:
    """Whether a value can be written in UTF-8, and can be the name of a file."""
    return "\0" not in value and value.encode(errors="replace").decode() == value


# ---- what the settings of training start from


def _starting_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that the preset chooses, or the model to fine-tune, by dotted name."""
    values = dict(PRESETS[given.get("preset", TrainConfig.preset)])
    if parent := given.get("from"):
        values |= FINE_TUNING
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # training will complain about it
            shape = dict(json.loads(Path(parent, "config.json").read_text(encoding="utf-8"))["model"])
            values |= {f"model.{name}": shape[name] for name in shape if not name.endswith("vocab_size")}
    return values


def _refuse_unused_rate(settings: Mapping[str, Any], words: Sequence[str]) -> None:
    """Refuse a learning rate on the command line that the schedule does not use."""
    schedule = settings.get("optimizer.schedule", OptimizerConfig.schedule)
    unused, used = "--optimizer.peak-lr", "--optimizer.lr-scale"
    if schedule != "paper":
        unused, used = used, unused
    given = unused in [word.partition("=")[0] for word in words]
    require(not given, f"{unused} has no effect on the schedule {schedule}: choose {used}, or another schedule")
