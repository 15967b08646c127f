"""All kinds of cases of the fuzz tests, and how they are tried.

Each takes hypothesis's `draw` and an empty folder, and says how it ended.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as fix_seed
from hypothesis import strategies as st

from tests.fuzz.folders import average, good_answers, mean, model, resume
from tests.fuzz.running import Draw, fresh_folder
from tests.fuzz.settings import command_line, good_settings, yaml_settings
from tests.fuzz.texts import check, score, train, translate
from tests.sample_run import model_folder, run_folder


@dataclass(frozen=True)
class Kind:
    """A kind of case, and how many are enough."""

    case: Callable[[Draw, Path], str]
    few: int
    """In the short version."""
    many: int
    """In the long one."""
    outcomes: tuple[str, ...]
    """What must come about, for the cases not to be all alike."""


KINDS = {
    "corpora, check": Kind(check, 80, 3000, ("refused", "usable", "unusable")),
    "corpora, train": Kind(train, 25, 400, ("refused", "trained")),
    "corpora, score and evaluate": Kind(score, 40, 1000, ("refused", "scored")),
    "lines, translate": Kind(translate, 30, 1000, ("refused", "translated")),
    "settings, YAML": Kind(yaml_settings, 60, 2000, ("refused", "accepted")),
    "settings, command line": Kind(command_line, 300, 3000, ("refused", "accepted", "told")),
    "model folders": Kind(model, 80, 2000, ("refused", "as before", "another model")),
    "checkpoints, average": Kind(average, 40, 800, ("refused", "averaged")),
    "runs, train": Kind(resume, 30, 400, ("refused", "continued")),
}


@contextmanager
def prepared() -> Iterator[None]:
    """One thread, and a run to damage; it is removed in the end."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        shutil.rmtree(run_folder())
        for made in (run_folder, model_folder, good_answers, good_settings, mean):
            made.cache_clear()


def explore(case: Callable[[Draw, Path], str], cases: int, seed: int) -> Counter[str]:
    """Try so many cases, the same for the same seed; returns how they ended.

    Raises:
        AssertionError: one ended as none should; the smallest such case is shown.
    """
    counts: Counter[str] = Counter()

    @fix_seed(seed)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(st.data())
    def try_one(data: st.DataObject) -> None:
        with fresh_folder() as folder:
            counts[case(data.draw, folder)] += 1

    try_one()
    return counts
