"""Damaged settings: YAML files and command lines."""

import functools
import importlib
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints
from unittest import mock

import yaml
from hypothesis import strategies as st

from dragoman.cli.main import VERBS
from dragoman.config import TrainConfig
from tests.fuzz.running import NASTY, SHARES, TEXTS, Draw, command, damage_bytes, damage_value, refused
from tests.sample_run import model_folder


@contextmanager
def recorded_verbs() -> Iterator[list[Any]]:
    """The verbs only record the settings that they are called with."""
    calls: list[Any] = []

    def record(config: Any) -> int:
        calls.append(config)
        return 0

    with ExitStack() as stack:
        for name, verb in VERBS.items():
            stack.enter_context(mock.patch.object(importlib.import_module(verb.module), verb.function or name, record))
        yield calls


def assert_well_typed(config: Any) -> None:
    """Every setting has the type that it is declared with, and is a number one can count with."""
    types = get_type_hints(type(config))
    for field in fields(config):
        value, kind = getattr(config, field.name), types[field.name]
        if is_dataclass(value):
            assert_well_typed(value)
        elif get_origin(kind) is Literal:
            assert value in get_args(kind), (field.name, value)
        elif get_origin(kind) is list:
            assert isinstance(value, list), (field.name, value)
            assert all(type(item) is get_args(kind)[0] for item in value), (field.name, value)
        elif kind == str | None:
            assert value is None or type(value) is str, (field.name, value)
        elif kind is float:
            assert isinstance(value, (int, float)), (field.name, value)
            assert not isinstance(value, bool), (field.name, value)
            assert math.isfinite(value), (field.name, value)
        else:
            assert type(value) is kind, (field.name, value)


def judge_settings(calls: list[Any], *arguments: object) -> str:
    """Whether a command line leads to settings that make sense, or to a clear complaint."""
    outcome = command(*arguments)
    if refused(outcome):
        assert not calls
        return "refused"
    if not calls:
        assert "usage" in outcome.out.lower() or outcome.out, outcome
        return "told"
    (config,) = calls
    assert_well_typed(config)
    if isinstance(config, TrainConfig):
        written = importlib.import_module("dragoman.train")._as_yaml(config)
        Path("again.yaml").write_bytes(written)
        again = command("train", "--config", "again.yaml")
        assert again.code == 0, again
        assert calls[1] == replace(config, restart=False, accept_changes=False, dry_run=False), (config, calls[1])
    return "accepted"


# fmt: off
YAML_NOISE = st.sampled_from([
    "\t", "- ", ": ", "&a ", "*a ", "!!python/object/apply:os.system ['true']", "!!binary x", "<<: *a", "? ", "|\n",
    "{", "[", "]", "}", "#", "'", '"', "%YAML 9.9\n", "---\n", "...\n", "\x00", "\ufeff", "\u2028", "0x1F", "1_000",
    "2001-01-01", "!!set {a, b}", ".nan", ".inf", "-.INF", "~", "yes", "1e3", "1:30", "0o17", "!!int 'x'",
    "!!float x", "@", "`", "null",
])
# fmt: on


@functools.cache
def good_settings() -> dict[str, Any]:
    """What a run writes into train.yaml."""
    loaded: dict[str, Any] = yaml.safe_load((model_folder() / "train.yaml").read_text(encoding="utf-8"))
    return loaded


def bomb(depth: int) -> str:
    """A few lines that mean very many."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, depth)]
    return "\n".join(lines) + f"\ntrain: *a{depth - 1}\n"


def yaml_settings(draw: Draw, folder: Path) -> str:
    """A --config file with anything in it."""
    how = draw(st.sampled_from(["value", "value", "value", "text", "text", "bytes", "structure", "bomb"]))
    plain = yaml.safe_dump(good_settings(), sort_keys=False, allow_unicode=True)
    if how == "value":
        value: Any = good_settings()
        for _ in range(draw(st.integers(1, 3))):
            value = damage_value(draw, value)
        data = yaml.safe_dump(value, allow_unicode=draw(st.booleans())).encode(errors="surrogatepass")
    elif how == "text":
        lines = plain.split("\n")
        for _ in range(draw(st.integers(1, 3))):
            line, share = draw(st.integers(0, len(lines) - 1)), draw(SHARES)
            place = int(share * (len(lines[line]) + 1))
            lines[line] = lines[line][:place] + draw(YAML_NOISE) + lines[line][place:]
            if draw(st.integers(0, 4)) == 0:
                lines.insert(draw(st.integers(0, len(lines))), lines[line])
        data = "\n".join(lines).encode()
    elif how == "bytes":
        data = damage_bytes(draw, plain.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-16", "latin-1"]))))
    elif how == "structure":
        nested = st.recursive(
            NASTY, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4)
        )
        data = yaml.safe_dump(draw(nested)).encode(errors="surrogatepass")
    else:
        data = (plain + bomb(draw(st.integers(1, 8)))).encode()
    (folder / "settings.yaml").write_bytes(data)
    with recorded_verbs() as calls:
        return judge_settings(calls, "train", "--config", "settings.yaml")


_KEYS = st.one_of(
    st.sampled_from(
        [field.name for field in fields(TrainConfig)] + ["d_model", "from", "model.d_model", "config", "__dict__"]
    ),
    st.text(max_size=3),
    st.integers(),
)


@functools.cache
def options_of(verb: str) -> list[str]:
    """All options of a verb."""
    found = []

    def collect(config: type, prefix: str) -> None:
        types = get_type_hints(config)
        for field in fields(config):
            if is_dataclass(types[field.name]):
                collect(types[field.name], f"{prefix}{field.name}.")  # type: ignore[arg-type]
            else:
                found.append(f"--{prefix}{field.name.rstrip('_')}")

    collect(VERBS[verb].config, "")
    return [*found, *(name.replace("_", "-") for name in found), "--help", "--config", "--version"]


# fmt: off
_WORDS = st.sampled_from([
    "", "0", "1", "-1", "3", "0.5", "nan", "inf", "-inf", "1e400", "1e-400", "true", "false", "null", "none",
    "auto", "a", "a b", "[a, b]", "{a: b}", "[", "{", "--", "-", "---", "=", "*a", "&a x", "!!x", "9" * 400, "1_0",
    "0x10", "١", "en", "de", "bleu", "words", "subwords", "json", "moses", "split", "text", "linear", "cosine",
    "post", "pre", "%s", "%", "$(x)", "\\", "line\nbreak", "\udcff", "\u2028", "été", "missing.yaml", ".", "/",
    "@x", "cpu", "cuda:99",
])
# fmt: on
VALUES = st.one_of(_WORDS, TEXTS)


# fmt: off
NUMBERS = st.sampled_from([
    "0", "1", "2", "8", "-1", "0.0", "0.5", "1.0", "1e-9", "1e9", "1e300", "nan", ".nan", "inf", ".inf", "-inf",
    "1_000", "100000000000000000000", "True", "false", "1.", "+1", "1e3", "0x1f", "1:30", " 1", "1 ",
])
# fmt: on


def command_line(draw: Draw, folder: Path) -> str:
    """Options in odd orders, without values, twice, unknown, of other verbs."""
    name = draw(st.sampled_from([*VERBS, *VERBS, "tran", "", "-", "--", "--version", "--help", "été"]))
    known = options_of(name if name in VERBS else "train")
    words: list[str] = []
    if name in VERBS and draw(st.integers(0, 3)):
        required = {"train": "--source en --target de --train a --out o", "check": "--source en --target de --train a"}
        required |= {"evaluate": "m --test a", "score": "m --test a", "inspect": "m s", "average": "m --out o"}
        words = required.get(name, "m").split()
    aimed = bool(words) and draw(st.booleans())
    for _ in range(0 if aimed else draw(st.integers(0, 5))):
        option = draw(st.one_of(st.sampled_from(known), st.sampled_from(options_of("train")), VALUES))
        how = draw(st.sampled_from(["value", "value", "alone", "attached", "many", "cut"]))
        word = option[: max(3, len(option) - 2)] if how == "cut" else option
        values = [draw(VALUES) for _ in range({"value": 1, "attached": 1, "many": 3}.get(how, 0))]
        phrase = [f"{word}={values[0]}"] if how == "attached" else [word, *values]
        place = draw(st.integers(0, len(words)))
        words[place:place] = phrase
    for _ in range(draw(st.integers(1, 2)) if aimed else 0):
        words += [draw(st.sampled_from(known[:-4])), draw(st.one_of(NUMBERS, VALUES))]
    words = [word.replace("\x00", "") for word in words]  # no system passes these on
    with recorded_verbs() as calls:
        return judge_settings(calls, name, *words)
