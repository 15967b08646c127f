"""From words on the command line, or in a settings file, to the config dataclass of a verb.

Imports nothing heavy: `--help` answers at once.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
import textwrap
from argparse import Action
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, get_args, get_type_hints

from docstring_parser import parse_from_object
from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace

from dragoman.cli.options import ALONE
from dragoman.cli.starting_values import FOUND_OUT, settings_of, starting_values, without_replaced_origins
from dragoman.config import ConfigError, TrainConfig, require
from dragoman.runtime.console import say

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
TRAIN = Verb(TrainConfig, "dragoman.train", (), FOUND_OUT)


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
    (r"([\w.]+): Expected a <class 'int'>\. Got value: (.*)", r"\1 must be a whole number, not \2"),
    (r"([\w.]+): Expected a <class 'float'>\. Got value: (.*)", r"\1 must be a number, not \2"),
    (r"([\w.]+): Expected a <class 'bool'>\. Got value: (.*)", r"\1 must be true or false, not \2"),
    (r"([\w.]+): Expected a <class 'str'>\. Got value: (.*)", r"\1 must be text, not \2: put it in quotes"),
    (r"'str' object does not support item assignment", "train and valid are lists: write them as [text, …]"),
)


class _Formatter(DefaultHelpFormatter):
    """Tells the default where there is one; of what type a value is, that and the text say."""

    def _get_help_string(self, action: Action) -> str:
        text = super()._get_help_string(action)
        useless = ["type: %(type)s"] + ["default: %(default)s"] * (action.default in (None, "", []))
        for note in useless:
            text = re.sub(rf"(, )?{re.escape(note)}", "", text)
        return text.replace("(, ", "(").removesuffix(" ()")


class _Parser(ArgumentParser):
    """Complains in one sentence, and names the nearest key when one is unknown."""

    files: Mapping[str, str] = MappingProxyType({})
    """By setting, the file that gives it, where one does."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print what is wrong and leave with exit code 2."""
        message = re.sub(r"\s+", " ", message).strip()
        for pattern, wording in _WORDINGS:
            message = re.sub(pattern, wording, message)
        message = in_file(self._of_missing(self._of_unknown(message)), self.files)
        say(f"{self.prog}: {on_one_line(message)} (see {self.prog} --help)")
        sys.exit(2)

    def _of_unknown(self, message: str) -> str:
        if word := re.match(r"unrecognized arguments: (?:-- )?([^-]\S*)", message):
            return f"{word[1]!r} is one word too many; text with spaces goes in quotes"
        if " must be " in message:
            return message  # what follows is the user's
        keys = [action.dest for action in self._actions]
        unknown = re.search(r"(?:unrecognized arguments:|[Oo]ption|[Kk]ey) ['\":]*(?:--)?([\w.-]+)", message)
        if not unknown or (name := unknown[1].replace("-", "_")) in keys:
            return message
        if name.startswith("_") and "sentence" in keys:
            return f"unknown option {unknown[1]}; a sentence that begins with a dash goes last, after --"
        if members := [key for key in keys if key.startswith(f"{name}.")]:
            return f"{name} is no setting but a group of them: give one, such as --{members[0].replace('_', '-')}"
        return f"unknown setting {name}{nearest(name, keys)}"

    def _of_missing(self, message: str) -> str:
        required = re.fullmatch(r"the following arguments are required: (.*)", message)
        if not required:
            return message
        flags = {action.dest: action.option_strings[-1:] for action in self._actions}
        missing = required[1].split(", ")
        message = f"these are required: {', '.join((flags.get(name) or [name])[0] for name in missing)}"
        greedy = [a.option_strings[-1] for a in self._actions if a.option_strings and a.nargs == "+"]
        if greedy and not all(map(flags.get, missing)):
            message += f"; write it before {greedy[0]}, which takes all that follows"
        return message


def in_file(message: str, files: Mapping[str, str]) -> str:
    """The message with the name of the file in front that gives the setting which it begins with, if one does."""
    setting = re.match(r"(?:unknown setting )?([\w.]+)", message)
    file = files.get(setting[1]) if setting else None
    return f"{file}: {message}" if file else message


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
    words = _normalised(arguments, verb)
    parser = _Parser(
        prog=f"dragoman {name}", description=verb.config.__doc__, allow_abbrev=False, formatter_class=_Formatter
    )
    if name == "train":
        parser.add_argument("--config", action="config", help="YAML file of settings; later arguments win.")
    _add_fields(parser, verb.config, "", verb)
    parser.usage = _usage(parser)
    try:
        return _build(verb.config, parser.parse_args(words)) if name != "train" else _parse_training(parser, words)
    except TypeError as error:
        raise ConfigError(f"a setting has a value of the wrong kind ({error}); lists look like [a, b]") from None


def _parse_training(parser: _Parser, words: Sequence[str]) -> TrainConfig:
    """The config of a run, whose settings may be in files and depend on one another."""
    given = {word[2:].partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    parser.files = {setting: file for setting, file in settings_of(words).items() if setting not in given}
    starting = starting_values(words)
    parser.set_defaults(starting)
    try:
        config = _build(TrainConfig, parser.parse_args(without_replaced_origins(words)))
        _refuse_unused_rate(config, starting, given)
    except ConfigError as error:
        raise ConfigError(in_file(str(error), parser.files)) from None
    return config


def _refuse_unused_rate(config: TrainConfig, starting: Mapping[str, Any], given: set[str]) -> None:
    """Raise ConfigError where the learning rate was chosen in a way that its schedule knows nothing of.

    One from a file may be left over where an option, which comes later, chooses another schedule.
    """
    schedule = config.optimizer.schedule
    unused, used = ("peak_lr", "lr_scale") if schedule == "paper" else ("lr_scale", "peak_lr")
    name = f"optimizer.{unused}"
    left_over = bool({"optimizer.schedule", "preset", "from"} & given)
    chosen = name in given or (getattr(config.optimizer, unused) != starting[name] and not left_over)
    others = ", which multiplies its rates, or choose another --optimizer.schedule" if schedule == "paper" else ""
    require(
        not chosen,
        f"{name} means nothing to the schedule {schedule}: leave it out and give "
        f"--optimizer.{used.replace('_', '-')}{others}",
    )


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
    leaves = dict(_leaves(verb.config))
    lists = {_flag(name) for name, (_, kind) in leaves.items() if kind == list[str]}
    single = ({_flag(name) for name in leaves} - lists) | ({"--config"} if verb == TRAIN else set())
    alone = {_flag(name): _alone(field, kind) for name, (field, kind) in leaves.items() if _alone(field, kind)}
    _refuse_repeated_lists(arguments, lists)
    others: list[str] = []
    tied: list[str] = [] if verb.positionals else others
    waiting = list(arguments)
    while waiting and waiting[0] != "--":
        argument = waiting.pop(0)
        if _OPTION.match(argument):
            name, equals, value = argument.partition("=")
            argument = name.replace("_", "-").replace("--print-config", "--print_config") + equals + value
        following = waiting[0] if waiting else ""
        has_value = bool(waiting) and not _OPTION.match(following) and following != "--"
        if argument in alone and verb.positionals and following.lower() not in alone[argument]:
            has_value = False  # a positional follows
        if argument in alone and not has_value:
            tied.append(f"{argument}={alone[argument][0]}")
        elif argument in single and not has_value:
            odd = following.partition("=")[0].replace("_", "-") not in {"", "--", *single, *lists}
            hint = f"; one that begins with dashes is given as {argument}={following}" if odd else ""
            raise ConfigError(f"{argument} needs a value{hint}")
        elif argument in single:
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
    """The option of a setting."""
    return "--" + name.replace("_", "-")


def _leaves(config: type, prefix: str = "") -> Iterator[tuple[str, tuple[Field[Any], Any]]]:
    """The settings under their dotted names, each with its field and type; no groups of them."""
    types = get_type_hints(config)
    for field in fields(config):
        kind, name = types[field.name], prefix + field.name.rstrip("_")
        if is_dataclass(kind):
            yield from _leaves(kind, f"{name}.")  # type: ignore[arg-type]
        else:
            yield name, (field, kind)


def _alone(field: Field[Any], kind: Any) -> list[str]:
    """Of an option that may come without a value: first the one that this means, then all that are possible."""
    if kind is bool:
        return ["true", "false"]
    return [field.metadata[ALONE], *get_args(kind)] if ALONE in field.metadata else []


def _add_fields(parser: Any, config: type, prefix: str, verb: Verb) -> None:
    """One option for each field, under its dotted name, with the text under the field as help."""
    types = get_type_hints(config)
    documented = [base for base in reversed(config.__mro__) if is_dataclass(base)]
    texts = {p.arg_name: p.description or "" for base in documented for p in parse_from_object(base).params}
    own = inspect.get_annotations(config)  # first, before what other verbs have, too
    for field in sorted(fields(config), key=lambda field: field.name not in own):
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


def _build(config: type[_Config], values: Namespace, group: str = "") -> _Config:
    """The config dataclass from the parsed namespace; group is what its fields are called with, such as "model."."""
    types = get_type_hints(config)
    chosen: dict[str, Any] = {}
    for field in fields(config):  # type: ignore[arg-type]
        name = field.name.rstrip("_")
        value = values.get(name)
        if is_dataclass(types[field.name]):
            require(isinstance(value, Namespace), f"{field.name} is a group of settings, not {value!r}")
            chosen[field.name] = _build(types[field.name], value, f"{name}.")
        elif value is not None:
            chosen[field.name] = value
            for text in value if isinstance(value, list) else [value]:
                require("\0" not in in_utf8(str(text)), f"{name} contains a NUL character")
            if types[field.name] is str and field.default != "":
                require(value != "", f"{name} is empty: it needs a value")
    try:
        return config(**chosen)
    except ConfigError as error:
        raise ConfigError(re.sub(rf"^(?=({'|'.join(chosen)})\b)", group, str(error))) from None
