"""What a run will need: pieces that fit in memory, and an estimate of its time that is true of the run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.cli.main import VERBS
from dragoman.cli.parsing import parse
from dragoman.cli.reproduce import read_recipe
from dragoman.config import EOS
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.batches import Batch
from dragoman.text.preprocess import prepare_text
from dragoman.training import dry_run as dry_run_module
from dragoman.training.data_loader import DataLoader
from dragoman.training.distributed import Processes
from dragoman.training.dry_run import SyntheticText, available_memory, dry_run, fit_memory, saved_bytes
from dragoman.training.step import Stepper

from .small_runs import configure, gradients_of, limit_memory, make_stepper, random_batch, share, train

MIB = 2**20


def fit_batches(stepper: Stepper, *batches: Batch) -> list[str]:
    said: list[str] = []
    fit_memory(stepper, batches, said.append)
    return said


def square(rows: int, length: int) -> Batch:
    return random_batch([(length, length)] * rows, seed=rows)


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has more memory than anything here takes."""
    monkeypatch.setattr(dry_run_module, "available_memory", lambda: 2**50)


# ---- trying


@pytest.mark.usefixtures("plenty")
@pytest.mark.parametrize("room", [12, 100])
def test_pieces_are_as_small_as_they_must_be_and_not_much_smaller(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper, batch = make_stepper(dropout=0.0), square(40, 12)
    stepper.gradients(share(batch), print)
    expected = gradients_of(stepper)
    stepper.drop_gradients()
    limit_memory(monkeypatch, room)
    (line,) = fit_batches(stepper, batch)
    assert max(12, room // 2) <= stepper.piece_tokens
    assert f"480 padded tokens: they are computed in pieces of {stepper.piece_tokens:,}," in line
    said: list[str] = []
    stepper.gradients(share(batch), said.append)
    assert said == []  # memory does not run out any more
    torch.testing.assert_close(gradients_of(stepper), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("plenty")
def test_training_after_the_trial_is_bit_for_bit_training_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, untouched = make_stepper(dropout=0.3), make_stepper(dropout=0.3)
    before = {name: p.detach().clone() for name, p in tried._model.named_parameters()}
    limit_memory(monkeypatch, 100)
    fit_batches(tried, square(40, 12), square(1, 40))
    assert gradients_of(tried) == {}
    assert not tried.optimizer.state
    assert all(torch.equal(p, before[name]) for name, p in tried._model.named_parameters())
    untouched.piece_tokens = tried.piece_tokens
    for number in range(3):
        for stepper in (tried, untouched):
            stepper.gradients(share(random_batch([(5, 6)] * 8, seed=number), seeds=[number]), print)
            stepper.apply(0.01)
    for ours, theirs in zip(tried._model.parameters(), untouched._model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


# ---- estimating, on a CPU


def bytes_of(stepper: Stepper, batch: Batch) -> int:
    with saved_bytes() as count:
        stepper.fits(batch)
    return count[0]


@pytest.mark.parametrize("share_of_need", [0.9, 0.1])
def test_where_the_system_has_little_memory_pieces_take_no_more_and_the_whole_is_not_tried(
    share_of_need: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a CPU, trying what does not fit may end the process.
    batch = square(160, 12)
    one, two = (bytes_of(make_stepper(), square(rows, 4)) for rows in (1, 2))
    weights = 2 * one - two
    available = int(share_of_need * (bytes_of(make_stepper(), batch) - weights))
    monkeypatch.setattr(dry_run_module, "available_memory", lambda: available)
    sizes: list[int] = []
    fits = Stepper.fits

    def remember(self: Stepper, batch: Batch) -> bool:
        sizes.append(batch.padded_tokens)
        return fits(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "fits", remember)
        stepper = make_stepper()
        (line,) = fit_batches(stepper, batch)
    assert "not enough memory" in line
    assert max(sizes) <= max(stepper.piece_tokens, batch.padded_tokens // 8)
    need = bytes_of(make_stepper(), batch.pieces(stepper.piece_tokens)[0]) - weights
    assert 1.4 * need <= available <= 4 * need  # not much smaller than they must be


# ---- how much there is


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the kernel's files say something else; None removes one."""
    (tmp_path / "group").mkdir()

    def place(name: str) -> Path:
        places = {"/proc/meminfo": "meminfo", "/proc/self/cgroup": "own", "/sys/fs/cgroup": "group"}
        return tmp_path / places[name]

    monkeypatch.setattr(dry_run_module, "Path", place)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)

    def machine(available: int | None, limit: Any = None, used: int = 0, cached: int = 0) -> None:
        if available is not None:
            text = (
                f"MemTotal:       99999999 kB\nMemFree:  1 kB\nMemAvailable:   {available // 1024} kB\nBuffers: 7 kB\n"
            )
            (tmp_path / "meminfo").write_text(text)
        if limit is not None:
            (tmp_path / "group" / "memory.max").write_text(f"{limit}\n")
            (tmp_path / "group" / "memory.current").write_text(f"{used}\n")
            text = f"anon 5\nfile 6\ninactive_anon 7\nactive_file 8\ninactive_file {cached}\n"
            (tmp_path / "group" / "memory.stat").write_text(text)

    return machine


def test_the_groups_around_the_own_one_count_too(machine: Callable[..., None], tmp_path: Path) -> None:
    machine(700 * MIB, limit=500 * MIB, used=100 * MIB)
    (tmp_path / "own").write_text("4:memory:/old\n0::/slurm/job_7/step_0\n")
    for name, limit in (("slurm/job_7", 300 * MIB), ("slurm/job_7/step_0", "max"), ("slurm/job_8", 1)):
        group = tmp_path / "group" / name
        group.mkdir(parents=True)
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text(f"{50 * MIB}\n")
        (group / "memory.stat").write_text("inactive_file 0\n")
    assert available_memory() == 250 * MIB


@pytest.mark.parametrize(
    ("available", "limit", "used", "cached", "expected"),
    [
        (700, None, 0, 0, 700),
        (700, 500, 400, 100, 200),  # what is cached can be given back
        (300, "max", 100, 0, 300),
        (300, 500, 600, 0, 0),
        (None, None, 0, 0, None),
    ],
)
def test_available_is_what_system_and_control_group_allow(
    machine: Callable[..., None], available: Any, limit: Any, used: int, cached: int, expected: Any
) -> None:
    in_bytes = [size * MIB if isinstance(size, int) else size for size in (available, limit, used, cached, expected)]
    machine(*in_bytes[:4])
    assert available_memory() == in_bytes[4]


# ---- time

CPU = torch.device("cpu")


def dry_run_of(folder: Path, **changes: object) -> str:
    config = configure(folder, **changes)
    text = prepare_text(config, clean_text)
    sizes = {"source_vocab_size": len(text.vocabulary.source), "target_vocab_size": len(text.vocabulary.target)}
    return "\n".join(dry_run(config, replace(config.model, **sizes), text.train, CPU, lambda line: None))


def test_it_predicts_steps_and_tokens_of_the_run(folder: Path) -> None:
    found = dry_run_of(folder, max_steps=0, max_epochs=3, max_minutes=2.0)
    progress = train(configure(folder, max_steps=0, max_epochs=3)).progress
    tokens = progress.tokens / progress.step
    assert f"text: 100 pairs, {progress.step // 3} steps per epoch, {tokens:,.0f} target tokens per step\n" in found
    assert f"time: {progress.step} steps (3.0 epochs) in 0:00:" in found
    assert "time: the run ends after 2 minutes, about " in found
    assert " parameters, fp32 on cpu" in found
    assert "pieces" not in found


@pytest.mark.parametrize("longest", [30, 200])
def test_an_imagined_text_is_of_the_size_that_was_asked_for(longest: int) -> None:
    text = SyntheticText(2000, 25.0, longest, 8000)
    assert [len(side) for side in text.lengths] == [2000, 2000]
    assert max(side.max() for side in text.lengths) <= longest
    assert longest < 200 or text.lengths[1].mean() == pytest.approx(25.0, rel=0.1)
    for ids, length in zip(text[1999], (side[1999] for side in text.lengths), strict=True):
        assert (len(ids), ids[-1]) == (length, EOS)
        assert ((ids[:-1] > EOS) & (ids[:-1] < 8000)).all()


@pytest.mark.parametrize("name", ["base", "big"])
def test_the_papers_recipes_have_the_papers_batches(name: str) -> None:
    """25,000 target tokens (section 5.1)."""
    recipe = read_recipe(Path(__file__).parents[2] / "recipes" / f"wmt14-en-de-{name}.yaml")
    words = [f"--optimizer.batch-tokens={recipe.train['optimizer']['batch_tokens']}", "--preset", name]
    config = parse("train", VERBS["train"], ["--out", "x", "--source", "en", "--target", "de", "--train", "x", *words])
    text = SyntheticText(1_000_000, recipe.imagined["length"], config.text.max_length, config.text.vocab_size)
    batches = DataLoader(text, config, Processes()).size_of_epoch()[0]
    assert float(text.lengths[1].sum()) / batches == pytest.approx(25_000, rel=0.03)
