"""Time to quality, compared: everybody makes the steps of Dragoman's own run, against the clock, and is scored."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import torch

import dragoman
from dragoman.config import PRESETS, DragomanError, OptimizerConfig, TrainConfig, model_preset
from dragoman.corpus_check.cleaning import clean_text
from dragoman.evaluation.scores import evaluate
from dragoman.runtime.files import write_atomically
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.dataset import TokenStore
from dragoman.text.preprocess import PreparedText, prepare_text
from dragoman.training.data_loader import DataLoader
from dragoman.training.distributed import Processes
from dragoman.training.optimizer import learning_rate
from dragoman.training.run_state import Progress
from peers.batches import Arrays, write_batches
from peers.dragoman_worker import product_rate
from peers.learning import SEED, end_with_parent
from peers.protocol import Message
from peers.rounds import Competitor, Contest, rounded
from peers.text import LANGUAGES
from peers.training_contest import shape_of

OURS = "dragoman"
PRESET: Final = "small"
SCHEDULE: Final = "linear"
VALIDATE_EVERY = 500
TRAIN = (
    f"train --source {LANGUAGES[0]} --target {LANGUAGES[1]} --train {{data}}/train --valid {{data}}/val --out {{out}} "
    f"--preset {PRESET} --model.embedding-gain 1 --max-steps {{steps}} "
    f"--optimizer.schedule {SCHEDULE} --validation.every {VALIDATE_EVERY}"
)
BEAM = 4
EVALUATE = f"evaluate {{out}} --test {{test}} --beam {BEAM} --json {{scores}}"
TEST = "test_2016_flickr"
COMPETITORS = {
    "marian": Competitor("marian", "marian", "peers.marian", {"precision": "bf16"}),
    "joeynmt": Competitor("joeynmt", "joeynmt", "peers.joeynmt_worker", {"precision": "fp32"}, joeynmt=True),
}
TOOLKITS = (OURS, *COMPETITORS)
STEPS_AT_ONCE = 50
"""Between two lines of progress, each of which is also a place to go on from."""
_TICK = 2.0  # seconds; what a kill of the whole benchmark can take off Dragoman's clock
_RECORD_FILE = "run.json"


@dataclass(frozen=True)
class Settings:
    """One call of the benchmark."""

    data: Path
    """Folder of the raw text."""
    work: Path
    """Folder with JoeyNMT's environment; runs go to its folder quality."""
    threads: int
    """Of every toolkit."""
    lines: int
    """Lines of the test text to translate; 0: all."""
    length_penalty: float
    """Of the peers' searches."""
    report: Callable[[str], None]
    """Takes one line for people."""

    @property
    def runs(self) -> Path:
        """Where runs, prepared text and batches are kept."""
        return self.work / "quality"


def run_config(data: Path, out: Path, steps: int) -> TrainConfig:
    """What Dragoman's command line makes of TRAIN."""
    preset = {k.removeprefix("optimizer."): v for k, v in PRESETS[PRESET].items() if k.startswith("optimizer.")}
    config = TrainConfig(
        source=LANGUAGES[0],
        target=LANGUAGES[1],
        train=[f"{data}/train"],
        valid=[f"{data}/val"],
        out=str(out),
        preset=PRESET,
        max_steps=steps,
        seed=SEED,
        model=replace(model_preset(PRESET), embedding_gain=1.0),
        optimizer=OptimizerConfig(**preset | {"schedule": SCHEDULE}),
    )
    return replace(config, validation=replace(config.validation, every=VALIDATE_EVERY))


def learning_rates(config: TrainConfig) -> list[float]:
    """The learning rate of each step of a run, as its trainer sets it."""
    width, steps = config.model.d_model, range(1, config.max_steps + 1)
    return [learning_rate(config.optimizer, width, step, Progress(step=step).done(config)) for step in steps]


def planned_batches(store: TokenStore, config: TrainConfig) -> Iterator[Arrays]:
    """The batch of each step of a run, epoch after epoch, as its trainer gets them."""
    loader, progress = DataLoader(store, config, Processes()), Progress()
    loader.settle_accumulation(progress)
    for step in loader.steps(progress):
        ((_, batch),) = step.batches
        yield Arrays(batch.source, batch.target_input, batch.target_output)
        progress.step += 1


class QualityContest:
    """All runs of one call: what they learn from, and what they are scored on."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the text, against the clock if that was not done before."""
        self.settings = settings
        torch.set_num_threads(settings.threads)
        self.text, self.preparation_seconds = self._prepare()
        pairs: Iterator[Pair] = iter(read_pairs([str(settings.data / TEST)], *LANGUAGES))
        self._test = list(islice(pairs, settings.lines or None))
        self.versions = {"dragoman": dragoman.__version__, "torch": torch.__version__}

    @property
    def test_lines(self) -> int:
        """Lines of the test text."""
        return len(self._test)

    def run(self, toolkit: str, steps: int) -> Message | None:
        """One run, or what is left of it.

        Returns:
            Its row of the table; None where the peer was left out, which has been told.

        Raises:
            DragomanError: Dragoman's command failed, or its folder holds the run of other settings.
        """
        row = self._run_dragoman(steps) if toolkit == OURS else self._run_peer(COMPETITORS[toolkit], steps)
        if row is not None:
            self.settings.report(f"{toolkit}, {steps} steps: {row['minutes']:.1f} minutes, BLEU {row['bleu']:.2f}")
        return row

    def _prepare(self) -> tuple[PreparedText, float]:
        """The text that the peers learn from, and the seconds that it took to prepare."""
        folder = self.settings.runs / "text"
        record = folder / "preparation.json"
        config = run_config(self.settings.data, folder, steps=1)
        if record.is_file():
            text, known = prepare_text(config, clean_text), json.loads(record.read_text())
            if known["text"] == text.train.report.fingerprint:
                return text, known["seconds"]
        shutil.rmtree(folder, ignore_errors=True)
        start = time.perf_counter()
        text = prepare_text(config, clean_text, self.settings.report)
        seconds = time.perf_counter() - start
        known = {"seconds": seconds, "text": text.train.report.fingerprint}
        write_atomically(record, json.dumps(known).encode())
        return text, seconds

    # ---- Dragoman

    def _run_dragoman(self, steps: int) -> Message:
        folder = self.settings.runs / f"{OURS}-{steps}"
        config = run_config(self.settings.data, folder / "model", steps)
        record = Record(folder, self._identity(config, OURS))
        if not record.content.get("finished"):
            record.begin()
            self._train_dragoman(steps, folder, record)
        if record.content.get("asked") != self._asked():
            self._score_dragoman(folder, record)
        return self._row(record, record.content["precision"], record.content["seconds"])

    def _train_dragoman(self, steps: int, folder: Path, record: Record) -> None:
        """Run the command, or continue it; the clock is that of the whole command, and survives a kill."""
        before, start = record.content.get("seconds", 0.0), time.perf_counter()
        process = subprocess.Popen(
            _command(TRAIN, {"data": self.settings.data, "out": folder / "model", "steps": steps}),
            env=self._environment(),
            preexec_fn=end_with_parent,
        )
        try:
            code = None
            while code is None:
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(_TICK)
                record.put({"seconds": before + time.perf_counter() - start})
        finally:
            process.terminate()  # it saves its state
            process.wait()
        if code:
            raise DragomanError(f"dragoman train ended with code {code}; start the benchmark again to continue")
        record.put({"finished": True})

    def _score_dragoman(self, folder: Path, record: Record) -> None:
        test, scores = folder / "test", folder / "scores.json"
        for language, side in zip(LANGUAGES, zip(*self._test, strict=True), strict=True):
            write_atomically(Path(f"{test}.{language}"), "".join(line + "\n" for line in side).encode())
        command = _command(EVALUATE, {"out": folder / "model", "test": test, "scores": scores})
        ended = subprocess.run(command, env=self._environment(), stdout=sys.stderr, preexec_fn=end_with_parent)
        if ended.returncode:
            raise DragomanError(f"dragoman evaluate ended with code {ended.returncode}")
        found = json.loads(scores.read_text(encoding="utf-8"))
        score = {name: found["scores"][name] for name in ("bleu", "bleu_signature")}
        score["length_penalty"] = found["settings"]["length_penalty"]
        record.put({"asked": self._asked(), "precision": found["model"]["precision"], "score": score})

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "OMP_NUM_THREADS": str(self.settings.threads)}

    # ---- the peers

    def _run_peer(self, competitor: Competitor, steps: int) -> Message | None:
        folder = self.settings.runs / f"{competitor.peer}-{steps}"
        config = run_config(self.settings.data, folder, steps)
        record = Record(folder, self._identity(config, competitor.peer))
        if record.content.get("asked") != self._asked():
            if not record.content.get("finished"):
                record.begin()
            if not self._learn(competitor, config, folder, record):
                return None
        self.versions |= record.content["versions"]
        seconds = self.preparation_seconds + record.content["seconds"]
        return self._row(record, competitor.settings["precision"], seconds)

    def _learn(self, competitor: Competitor, config: TrainConfig, folder: Path, record: Record) -> bool:
        """Let it make its steps and translate; False where it failed."""
        settings = self.settings
        name = f"{competitor.peer}, {config.max_steps} steps"
        request = self._first_request(config, folder)
        with Contest([replace(competitor, name=name)], request, settings.work, settings.threads, settings.report) as c:
            standing = c.facts.get(name)
            while standing is not None and standing["step"] < config.max_steps:
                standing = c.ask(name, {"do": "learn", "steps": STEPS_AT_ONCE})
                if standing is not None:
                    settings.report(
                        f"{name}: step {standing['step']}, loss {standing['loss']:.3f}, "
                        f"{standing['tokens_per_second']:,.0f} tokens/s, {standing['seconds'] / 60:.1f} minutes"
                    )
            if standing is None:
                return False
            known = {key: standing[key] for key in ("seconds", "tokens", "slowest")}
            record.put({"finished": True, "versions": c.facts[name]["versions"]} | known)
            sources, references = ([pair[side] for pair in self._test] for side in (0, 1))
            answer = c.ask(name, {"do": "translate", "sources": sources, "beam": BEAM})
        if answer is None:
            return False
        found = evaluate(answer["lines"], references, LANGUAGES[1])
        score = {"bleu": found.bleu, "bleu_signature": found.bleu_signature, "length_penalty": settings.length_penalty}
        record.put({"asked": self._asked(), "score": score})
        return True

    def _first_request(self, config: TrainConfig, folder: Path) -> Message:
        words = len(self.text.vocabulary.source)
        shape = shape_of(replace(config.model, source_vocab_size=words, target_vocab_size=words))
        subwords = self.settings.runs / "subwords.model"
        write_atomically(subwords, self.text.vocabulary.source.serialized)
        return {
            "task": "learning",
            "batches": str(self._batches(config)),
            "rates": learning_rates(config),
            "folder": str(folder),
            "shape": asdict(shape),
            "subwords": str(subwords),
            "length_penalty": self.settings.length_penalty,
        }

    def _batches(self, config: TrainConfig) -> Path:
        """The file of the run's batches, written where it is missing."""
        path = self.settings.runs / f"batches-{config.max_steps}-{self.text.train.report.fingerprint[:16]}.npz"
        if not path.is_file():
            partial = path.with_name("partial.npz")
            write_batches(partial, list(planned_batches(self.text.train, config)))
            partial.replace(path)
        return path

    # ---- all

    def _asked(self) -> Message:
        """What a score depends on, beside the run."""
        digest = hashlib.sha256(json.dumps(self._test).encode()).hexdigest()
        return {"test (SHA-256)": digest, "peers' length penalty": self.settings.length_penalty}

    def _identity(self, config: TrainConfig, toolkit: str) -> str:
        """Changes with whatever would make it another run."""
        run = asdict(replace(config, train=["text"], valid=[], out="out"))
        precision = COMPETITORS[toolkit].settings["precision"] if toolkit in COMPETITORS else "auto"
        facts = [run, self.text.train.report.fingerprint, self.settings.threads, toolkit, precision]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def _row(self, record: Record, precision: str, seconds: float) -> Message:
        content = record.content
        row = {"precision": precision, "minutes": rounded(seconds / 60), **content["score"]}
        row |= {"starts": content["starts"], "machine_gflops": content["machine_gflops"]}
        if "slowest" in content:
            row |= {"target_tokens": content["tokens"], "slowest_step_seconds": rounded(content["slowest"])}
        return row


class Record:
    """What is known of a run, in a small file beside it."""

    def __init__(self, folder: Path, identity: str) -> None:
        """Read it, or begin it.

        Raises:
            DragomanError: it is that of a run with other settings, text or threads.
        """
        self._path = folder / _RECORD_FILE
        folder.mkdir(parents=True, exist_ok=True)
        self.content: dict[str, Any] = {"identity": identity}
        if self._path.is_file():
            self.content = json.loads(self._path.read_text(encoding="utf-8"))
        if self.content["identity"] != identity:
            raise DragomanError(f"{folder}: holds a run with other settings, text or threads; remove it or name --work")

    def begin(self) -> None:
        """Note one more start of the run, and what the machine's matrix products reach just then, in GFLOP/s."""
        rates = {"fp32": rounded(product_rate(torch.float32)), "bf16": rounded(product_rate(torch.bfloat16))}
        earlier = self.content.get("machine_gflops", [])
        self.put({"starts": self.content.get("starts", 0) + 1, "machine_gflops": [*earlier, rates]})

    def put(self, facts: Message) -> None:
        """Add facts, and write the file."""
        self.content |= facts
        write_atomically(self._path, json.dumps(self.content, indent=1).encode())


def _command(form: str, values: Mapping[str, object]) -> list[str]:
    """Words for this Python; values may hold spaces."""
    return [sys.executable, "-m", "dragoman", *(word.format_map(values) for word in form.split())]
