"""Check a function of the exercises, and say in words what is wrong with it.

    from checks import check
    check(attention)

A function that returns what Dragoman's own code returns is correct. One that returns what a classic mistake returns
(`mistakes.py` has them) gets told which. For any other, the first difference is described.
"""

from __future__ import annotations

import dis
import functools
import inspect
import math
import textwrap
import traceback
from typing import Any

import other_solutions
import solutions
import torch
from mistakes import EXERCISES, Exercise, Function, WrongShape
from torch import Tensor

NUMBERS = {name: number for number, name in enumerate(EXERCISES, start=1)}
_CORRECT = "correct"
_done: set[str] = set()


def check(function: Function) -> None:
    """Print whether the function of an exercise is correct, and if not, what is wrong."""
    name = function.__name__
    found = verdict(function)
    (_done.add if found == _CORRECT else _done.discard)(name)
    line = f"{'✓' if found == _CORRECT else '✗'} {NUMBERS[name]} {name}: {found}"
    print("\n".join(textwrap.fill(part, 100, subsequent_indent="  ") for part in line.split("\n")))


def all_correct() -> bool:
    """Whether every exercise was correct when it was last checked; prints the ones that were not."""
    missing = [f"{NUMBERS[name]} {name}" for name in EXERCISES if name not in _done]
    if missing:
        print("Still to be solved and checked:", ", ".join(missing))
    return not missing


def solution(function: Function) -> None:
    """Print a solution of an exercise, or two in different styles."""
    for module in (solutions, other_solutions):
        if hasattr(module, function.__name__):
            print(inspect.getsource(getattr(module, function.__name__)))


def verdict(function: Function) -> str:
    """Return "correct", "not written yet", or what is wrong with the function.

    Raises:
        KeyError: no exercise has the function's name.
    """
    exercise = EXERCISES[function.__name__]
    calls = _calls(exercise, function)
    for call in calls:
        if isinstance(call.result, NotImplementedError) or (call.result is None and _is_empty(function)):
            unwritten = _innermost(call.result, function)
            return (
                "not written yet" if unwritten == function.__name__ else f"uses {unwritten}, which is not written yet"
            )
    right, mistakes = _answers(function.__name__)
    problems = [_difference(own.result, other.result) for own, other in zip(calls, right, strict=True)]
    if not any(problems):
        return next((call.side_effect for call in calls if call.side_effect), _CORRECT)
    open_ones = [f"{NUMBERS[name]} {name}" for name in exercise.uses if name not in _done]
    first = f"\n  It builds on {', '.join(open_ones)}: check that first." if open_ones else ""
    for message, wrong in mistakes.items():
        if _is_this_mistake(calls, wrong, right):
            return f"{message}{first}"
    number = next(i for i, problem in enumerate(problems) if problem)
    call = _described(function, exercise.inputs()[number])
    return f"{problems[number]}\n  The call was {call}.{first}"


class _Call:
    """One call of a function: what it returned or raised, and what else it did."""

    def __init__(self, exercise: Exercise, function: Function, arguments: tuple[Any, ...]) -> None:
        given = [_that_learns(argument) for argument in arguments]
        self.function, self.side_effect = function, ""
        torch.manual_seed(1)
        try:
            result = function(*given)
            self.result = None if result is None or result is ... else exercise.result(result, *arguments)
        except Exception as error:  # whatever a learner's code raises is to be explained
            self.result = error
            return
        for name, before, after in zip(inspect.signature(function).parameters, arguments, given, strict=False):
            if type(before) is Tensor and not torch.equal(before, after):
                self.side_effect = f"the result is right, but {name} is changed by the call. Make a new tensor instead."
        learns = any(type(argument) is Tensor and argument.requires_grad for argument in given)
        floats = [x for x in _flat(self.result) if isinstance(x, Tensor) and x.is_floating_point()]
        if learns and floats and not floats[0].requires_grad:
            self.side_effect = (
                "the result is right, but no gradient flows back through it. Avoid .data, .detach(), .item(), numpy "
                "and torch.tensor(…) on what was computed."
            )


def _calls(exercise: Exercise, function: Function) -> list[_Call]:
    return [_Call(exercise, function, arguments) for arguments in exercise.inputs()]


@functools.cache
def _answers(name: str) -> tuple[list[_Call], dict[str, list[_Call]]]:
    """Return the right calls of an exercise, and those of each mistake."""
    exercise = EXERCISES[name]
    wrong = {message: _calls(exercise, mistake) for message, mistake in exercise.mistakes.items()}
    return _calls(exercise, exercise.right), wrong


def _that_learns(argument: Any) -> Any:
    if type(argument) is not Tensor:
        return argument
    return argument.clone().requires_grad_().clone() if argument.is_floating_point() else argument.clone()


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _is_empty(function: Function) -> bool:
    """Whether a function consists of `...`, `pass` or a docstring."""
    return sum(i.opname not in ("RESUME", "NOP", "CACHE") for i in dis.get_instructions(function)) <= 2


def _innermost(error: Any, function: Function) -> str:
    """Return the name of the function that raised an error, among the exercises."""
    frames = traceback.extract_tb(error.__traceback__) if isinstance(error, Exception) else []
    return next((frame.name for frame in reversed(frames) if frame.name in EXERCISES), function.__name__)


def _is_this_mistake(own: list[_Call], wrong: list[_Call], right: list[_Call]) -> bool:
    """Whether own results are the mistake's, wherever it has results, and at least one of them is not right."""
    told_apart = False
    for mine, theirs, correct in zip(own, wrong, right, strict=True):
        if not _difference(mine.result, theirs.result):
            told_apart |= bool(_difference(theirs.result, correct.result))
        elif not _has_no_numbers(theirs.result):
            return False
    return told_apart


def _has_no_numbers(result: Any) -> bool:
    """Whether the call failed, or computed NaN, which depends on how exactly it was written."""
    return isinstance(result, Exception) or any(isinstance(x, Tensor) and x.isnan().any() for x in _flat(result))


# ------------------------------------------------------------------------------------------------ the first difference


def _difference(own: Any, right: Any) -> str:
    """Describe how two results differ, or return "" if they don't."""
    if isinstance(own, Exception):
        return _explained(own)
    if own is None:
        return "returns None. Is the `return` missing?"
    if isinstance(own, WrongShape):
        return "" if isinstance(right, WrongShape) and own == right else own
    if isinstance(right, Tensor):
        return _tensor_difference(own, right)
    if isinstance(right, dict) and isinstance(own, dict):
        wrong = [key for key in right if own[key] != right[key]]
        return f"it should be {right[wrong[0]]} that {wrong[0]}, and is {own[wrong[0]]}." if wrong else ""
    if isinstance(right, tuple):
        if not isinstance(own, tuple) or len(own) != len(right):
            return f"returns {_kind(own)}, and should return {_kind(right)}."
        places = ("first", "second")
        parts = [(place, _difference(o, r)) for place, o, r in zip(places, own, right, strict=True)]
        return next((f"of the two results, the {place}: {problem}" for place, problem in parts if problem), "")
    if isinstance(right, float | int) and isinstance(own, float | int | Tensor):
        value = float(own)
        return (
            "" if math.isclose(value, right, rel_tol=1e-5, abs_tol=1e-12) else f"returns {value:.6g}, not {right:.6g}."
        )
    if type(own) is not type(right):
        return f"returns {_kind(own)}, and should return {_kind(right)}."
    return "" if own == right else f"returns {own}, and should return {right}."


def _tensor_difference(own: Any, right: Tensor) -> str:
    if not isinstance(own, Tensor):
        return f"returns {_kind(own)}, and should return {_kind(right)}."
    if own.shape != right.shape:
        return f"the shape is {tuple(own.shape)}, and should be {tuple(right.shape)}."
    a, b = own.detach().double(), right.detach().double()
    different = ~torch.isclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    if different.any():
        factor = float((a * b).sum() / (b * b).sum())
        if abs(factor) > 1e-6 and torch.allclose(a, factor * b, rtol=1e-4, atol=1e-5):
            return f"each value is {factor:.4g} times what it should be."
        place = tuple(different.nonzero()[0].tolist())
        nan = " NaN comes from 0/0, or from softmax over scores that are all -inf." if a.isnan().any() else ""
        return (
            f"{int(different.sum())} of {different.numel()} values differ. The first is at {list(place)}: "
            f"{a[place]:.6g}, and should be {b[place]:.6g}.{nan}"
        )
    if own.is_floating_point() and own.dtype != right.dtype:
        return f"the values are right, but of type {own.dtype}. The model computes in {right.dtype}: use .float()."
    return ""


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    if isinstance(value, tuple | list) and any(isinstance(part, Tensor) for part in value):
        return f"{len(value)} results ({', '.join(map(_kind, value))})"
    if isinstance(value, float | int | list | tuple | str):
        return repr(value)
    return f"something of type {type(value).__name__}"


def _explained(error: Exception) -> str:
    """Say in one sentence where an exception came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.name in EXERCISES] or frames
    message = str(error).strip().split("\n")[0]
    place = f" in `{own[-1].line}`" if own[-1].line else ""
    return f"stops{place} with {type(error).__name__}: {message}"


def _described(function: Function, arguments: tuple[Any, ...]) -> str:
    named = zip(inspect.signature(function).parameters, arguments, strict=False)
    return f"{function.__name__}({', '.join(_argument(name, value) for name, value in named)})"


def _argument(name: str, value: Any) -> str:
    if isinstance(value, Tensor):
        short = value.numel() <= 12 and value.dtype == torch.long
        return f"{name}={value.tolist()}" if short else f"{name} of shape {tuple(value.shape)}"
    return f"{name}={value!r}" if isinstance(value, int | float | list) else name
