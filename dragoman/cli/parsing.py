"""From the words of the command line, and the settings files that they name, to the config dataclass of a verb.

An option is a field of a dataclass; its help is the text under it. Imports nothing heavy, so that `--help` is quick.
"""

import argparse
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import yaml
from docstring_parser import parse_from_object

from dragoman.cli.options import CONST
from dragoman.config import FINE_TUNING, PRESETS, ConfigError, OptimizerConfig, TrainConfig, require
from dragoman.runtime.console import nearest, shorten
from dragoman.runtime.files import read_json


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
        words += [f"{option.flag} {option.name.upper()}{' …' * option.is_list}" for option in required]
        return " ".join([program, *words, "[options]"])


_FILE_OPTIONS = (
    Option("config", str, "", None, "YAML file of settings. Of files and options, the last wins."),
    Option("print_config", bool, False, True, "Print the settings, as --config takes them, and exit."),
)
"""What train takes besides its settings."""


def _options(config: type, group: str = "") -> Iterator[Option]:
    """The settings of a dataclass, its own before those it inherits."""
    types, settings, texts = get_type_hints(config), {field.name: field for field in fields(config)}, dict[str, str]()
    for base in filter(is_dataclass, config.__mro__):
        for param in parse_from_object(base).params:
            texts.setdefault(param.arg_name, param.description or "")
    for field_name, text in texts.items():
        kind, field, name = types[field_name], settings[field_name], group + field_name.rstrip("_")
        if is_dataclass(kind):
            yield from _options(kind, f"{name}.")  # type: ignore[arg-type]
            continue
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        const = True if kind is bool else field.metadata.get(CONST)
        yield Option(name, str if kind == str | None else kind, default, const, text)


def first_sentence(config: type) -> str:
    """What a dataclass is for: the beginning of its docstring."""
    return re.split(r"[:.](?:\s|$)", (config.__doc__ or "").strip(), maxsplit=1)[0]


def parse(
    name: str, verb: Verb, words: Sequence[str], choose_preset: Callable[[TrainConfig], str] = lambda run: "base"
) -> Any:
    """The config of a verb from the words after it; raises ConfigError. choose_preset gets a run that names none."""
    program = f"dragoman {name}"
    if {"-h", "--help"} & {*takewhile(lambda word: word != "--", words)}:
        print(_help(verb, program), end="", flush=True)
        raise SystemExit(0)
    given = _read_words(verb, words)
    to_print, starting = given.pop("print_config", False), dict[str, Any]()
    to_choose = verb.config is TrainConfig and given.get("preset", "auto") == "auto"
    to_choose = to_choose and any(preset.keys() - given.keys() for preset in PRESETS.values())
    required = [option for option in verb.options if option.default is MISSING]
    missing = [option for option in required if given.get(option.name) in (None, "", [], [""])]
    wanted = ", ".join(option.name if option.name in verb.positionals else option.flag for option in missing)
    require(not missing or (to_print and not to_choose), f"required: {wanted} (usage: {verb.usage(program)})")
    if to_choose:
        given["preset"] = choose_preset(_build(TrainConfig, {n: given[n] for n in given if "." not in n}))
    if verb.config is TrainConfig:
        starting = _starting_values(given)
        _refuse_without_effect(starting, given, words)
    if to_print:
        defaults = {option.name: option.default for option in verb.options if option.default is not MISSING}
        print(yaml.safe_dump(defaults | starting | given, sort_keys=False, allow_unicode=True), end="", flush=True)
        raise SystemExit(0)
    return _build(verb.config, starting | given)


def _help(verb: Verb, program: str) -> str:
    usage = textwrap.fill(verb.usage(program), 72, subsequent_indent=" " * 8, break_on_hyphens=False)
    parser = argparse.ArgumentParser(usage=usage, description=verb.config.__doc__, add_help=False)
    groups: dict[str, Any] = {"": parser}
    types = get_type_hints(verb.config)
    for option in [*(_FILE_OPTIONS if verb.config is TrainConfig else ()), *verb.options]:
        group = option.name.rpartition(".")[0]
        if group not in groups:
            groups[group] = parser.add_argument_group(group, first_sentence(types[group]))
        is_required = option.default is MISSING and option.name not in verb.positionals
        note = "required" if is_required else option.default_text and f"default: {option.default_text}"
        text = f"{option.text} ({note})" if note else option.text
        shape: dict[str, Any] = {"nargs": None if option.const is None else "?"}
        if option.name in verb.positionals:
            name = option.name
        elif option.values:
            name, shape["choices"] = option.flag, option.values
        else:
            name, shape["metavar"] = option.flag, option.name.rpartition(".")[2].upper() + " …" * option.is_list
        groups[group].add_argument(name, help=" ".join(text.split()).replace("%", "%%"), **shape)
    return parser.format_help()


# ---- words and files


def _read_words(verb: Verb, words: Sequence[str]) -> dict[str, Any]:
    """The settings that the words and the files they name give, by dotted name: the last of several wins."""
    known = [*(_FILE_OPTIONS if verb.config is TrainConfig else ()), *verb.options]
    options = {option.flag: option for option in known if option.name not in verb.positionals}
    given, lists, waiting, others = dict[str, Any](), set[str](), list(words), list[str]()
    while waiting and waiting[0] != "--":
        word = waiting.pop(0)
        if not re.match(r"--|-\w", word):
            others.append(word)
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        require(flag in options, f"unknown option {shorten(flag, 80)}{nearest(flag, options)}")
        option = options[flag]
        values = [value] if equals else _take_values(option, waiting)
        require(bool(values), f"{flag} needs a value")
        require(flag not in lists, f"{flag} is given twice: give all of its values after one {flag}")
        if option.is_list:
            lists.add(flag)
        if flag == "--config":
            given |= _flat(read_yaml(Path(values[0])), {option.name: option for option in verb.options})
        else:
            given[option.name] = _converted(option.kind, values if option.is_list else values[0])
    others += waiting[1:]
    for option in verb.options:
        if option.name in verb.positionals and others:
            given[option.name] = others if option.is_list else others[0]
            others = [] if option.is_list else others[1:]
    require(not others, f"unexpected argument {''.join(others[:1])!r}; text with spaces goes in quotes")
    return given


def _take_values(option: Option, waiting: list[str]) -> list[Any]:
    """Take the values of an option from the words after it."""
    if option.const is not None:
        has_value = bool(waiting) and waiting[0].lower() in option.values
        return [waiting.pop(0) if has_value else option.const]
    taken = list(takewhile(lambda word: not word.startswith("--"), waiting))
    taken = taken if option.is_list else taken[:1]
    del waiting[: len(taken)]
    return taken


def read_yaml(path: Path) -> dict[Any, Any]:
    """The settings in a YAML file; raises ConfigError for a file without."""
    try:
        settings = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        raise ConfigError(f"{path}: can't be understood ({shorten(' '.join(str(error).split()), 300)})") from None
    require(isinstance(settings, dict), f"{path}: has no settings, such as seed: 1")
    return cast(dict[Any, Any], settings)


def _flat(settings: Mapping[Any, Any], options: Mapping[str, Option], group: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        name = f"{group}{key}"
        if name in options:
            yield name, _converted(options[name].kind, value)
        elif isinstance(value, dict) and any(known.startswith(f"{name}.") for known in options):
            yield from _flat(value, options, f"{name}.")
        else:
            raise ConfigError(f"unknown setting {shorten(name, 80)}{nearest(name, options)}")


def _converted(kind: Any, value: Any) -> Any:
    """A word as what it is written for; unchanged where it is no such thing, which the config refuses."""
    if get_origin(kind) is list and isinstance(value, list):
        return [_converted(get_args(kind)[0], item) for item in value]
    if kind is bool and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    if kind in (int, float) and type(value) in (str, int):
        with suppress(ValueError, OverflowError):
            return kind(value)
    return value


def _build(config: type, values: Mapping[str, Any], group: str = "") -> Any:
    """The config dataclass from the values of its settings, by dotted name."""
    chosen = dict[str, Any]()
    for name, kind in get_type_hints(config).items():
        dotted = group + name.rstrip("_")
        if is_dataclass(kind):
            chosen[name] = _build(kind, values, f"{dotted}.")  # type: ignore[arg-type]
        elif dotted in values:
            chosen[name] = values[dotted]
    try:
        return config(**chosen)
    except ConfigError as error:
        is_named = str(error).split(" ")[0] in chosen
        raise ConfigError(f"{group if is_named else ''}{error}") from None


# ---- what the settings of training start from


def _starting_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that the preset chooses, or the model to fine-tune, by dotted name."""
    values = dict(PRESETS.get(str(given.get("preset")), {}))
    if "optimizer.schedule" in values and (given.get("max_steps") or given.get("max_minutes")):
        values["optimizer.schedule"] = "linear"
    if parent := given.get("from"):
        values |= FINE_TUNING
        shape = read_json(Path(str(parent), "config.json")).get("model")  # without one, training will complain
        if isinstance(shape, dict):
            values |= {f"model.{name}": value for name, value in shape.items() if not name.endswith("vocab_size")}
    return values


def _refuse_without_effect(starting: Mapping[str, Any], given: Mapping[str, Any], words: Sequence[str]) -> None:
    """Refuse words that change nothing: a rate that the schedule does not use, starting values beside a whole file."""
    schedule = {**starting, **given}.get("optimizer.schedule", OptimizerConfig.schedule)
    rates = ("--optimizer.peak-lr", "--optimizer.lr-scale")
    unused, used = rates if schedule == "paper" else reversed(rates)
    for word in words:
        flag = word.partition("=")[0].replace("_", "-")
        require(flag != unused, f"{flag} has no effect on the schedule {schedule}: choose {used}, or another schedule")
        is_overridden = flag in ("--preset", "--from") and bool(starting) and starting.keys() <= given.keys()
        require(not is_overridden, f"{flag} has no effect, because the settings it chooses are all given")
