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
from dragoman.config import PRESETS, DragomanError, OptimizerConfig, TextConfig, TrainConfig, model_preset
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
from peers.learning import end_with_parent
from peers.protocol import Message
from peers.rounds import Competitor, Contest, rounded
from peers.text import LANGUAGES
from peers.training_contest import shape_of

OURS = "dragoman"
PRESET: Final = "small"
SCHEDULE: Final = "linear"
BATCH_TOKENS = 3072
VALIDATE_EVERY = 500
TRAIN = (
    f"train --source {LANGUAGES[0]} --target {LANGUAGES[1]} --train {{data}}/train --valid {{data}}/val --out {{out}} "
    f"--preset {PRESET} --text.placeholders 0 --max-steps {{steps}} --seed {{seed}} "
    f"--optimizer.batch-tokens {BATCH_TOKENS} --optimizer.schedule {SCHEDULE} --validation.every {VALIDATE_EVERY}"
)
BEAM, LENGTH_PENALTY = 4, 0
EVALUATE = f"evaluate {{out}} --test {{test}} --beam {BEAM} --length-penalty {LENGTH_PENALTY} --json {{scores}}"
TEST = "test_2016_flickr"
PEER = Competitor("marian", "marian", "peers.marian", {"precision": "bf16"})
TOOLKITS = (OURS, PEER.peer)
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
    """Runs go to its folder quality."""
    threads: int
    """Of every toolkit."""
    lines: int
    """Lines of the test text to translate; 0: all."""
    report: Callable[[str], None]
    """Takes one line for people."""

    @property
    def runs(self) -> Path:
        """Where runs, prepared text and batches are kept."""
        return self.work / "quality"


def run_config(data: Path, out: Path, steps: int, seed: int) -> TrainConfig:
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
        seed=seed,
        model=model_preset(PRESET),
        text=TextConfig(placeholders=0.0),
        optimizer=OptimizerConfig(**preset | {"schedule": SCHEDULE, "batch_tokens": BATCH_TOKENS}),
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

    def run(self, toolkit: str, steps: int, seed: int) -> Message:
        """One run, or what is left of it; returns what is known of it.

        Raises:
            DragomanError: it failed, or its folder holds the run of other settings.
        """
        row = self._run_dragoman(steps, seed) if toolkit == OURS else self._run_peer(steps, seed)
        name = f"{toolkit}, {steps} steps, seed {seed}"
        self.settings.report(f"{name}: {row['minutes']:.1f} minutes, BLEU {row['bleu']:.2f}")
        return row

    def _prepare(self) -> tuple[PreparedText, float]:
        """The text that the peers learn from, and the seconds that it took to prepare."""
        folder = self.settings.runs / "text"
        record = folder / "preparation.json"
        config = run_config(self.settings.data, folder, steps=1, seed=1)
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

    def _run_dragoman(self, steps: int, seed: int) -> Message:
        folder = self.settings.runs / f"{OURS}-{steps}-{seed}"
        config = run_config(self.settings.data, folder / "model", steps, seed)
        record = Record(folder, self._identity(config, OURS))
        if not record.content.get("finished"):
            record.begin()
            self._train_dragoman(config, folder, record)
        if record.content.get("asked") != self._asked():
            self._score_dragoman(folder, record)
        return self._row(record, record.content["precision"], record.content["seconds"])

    def _train_dragoman(self, config: TrainConfig, folder: Path, record: Record) -> None:
        """Run the command, or continue it; the clock is that of the whole command, and survives a kill."""
        before, start = record.content.get("seconds", 0.0), time.perf_counter()
        values = {"data": self.settings.data, "out": config.out, "steps": config.max_steps, "seed": config.seed}
        process = subprocess.Popen(
            _command(TRAIN, values),
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
        record.put({"asked": self._asked(), "precision": found["model"]["precision"], "score": score})

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "OMP_NUM_THREADS": str(self.settings.threads)}

    # ---- the peer

    def _run_peer(self, steps: int, seed: int) -> Message:
        folder = self.settings.runs / f"{PEER.peer}-{steps}-{seed}"
        config = run_config(self.settings.data, folder, steps, seed)
        record = Record(folder, self._identity(config, PEER.peer))
        if record.content.get("asked") != self._asked():
            if not record.content.get("finished"):
                record.begin()
            self._learn(config, folder, record)
        self.versions |= record.content["versions"]
        return self._row(record, PEER.settings["precision"], self.preparation_seconds + record.content["seconds"])

    def _learn(self, config: TrainConfig, folder: Path, record: Record) -> None:
        """Let it make its steps and translate."""
        settings, name = self.settings, f"{PEER.peer}, {config.max_steps} steps, seed {config.seed}"
        request = self._first_request(config, folder)
        with Contest([replace(PEER, name=name)], request, settings.work, settings.threads, settings.report) as contest:
            standing = contest.facts.get(name)
            while standing is not None and standing["step"] < config.max_steps:
                standing = contest.ask(name, {"do": "learn", "steps": STEPS_AT_ONCE})
                if standing is not None:
                    settings.report(
                        f"{name}: step {standing['step']}, loss {standing['loss']:.3f}, "
                        f"{standing['tokens_per_second']:,.0f} tokens/s, {standing['seconds'] / 60:.1f} minutes"
                    )
            sources, references = ([pair[side] for pair in self._test] for side in (0, 1))
            answer = standing and contest.ask(name, {"do": "translate", "sources": sources, "beam": BEAM})
            if standing is None or answer is None:
                raise DragomanError(f"{name}: failed; start the benchmark again to continue")
            known = {key: standing[key] for key in ("seconds", "tokens", "slowest")}
            record.put({"finished": True, "versions": contest.facts[name]["versions"]} | known)
        found = evaluate(answer["lines"], references, LANGUAGES[1])
        record.put({"asked": self._asked(), "score": {name: found[name] for name in ("bleu", "bleu_signature")}})

    def _first_request(self, config: TrainConfig, folder: Path) -> Message:
        words = len(self.text.vocabulary.source)
        shape = shape_of(replace(config.model, source_vocab_size=words, target_vocab_size=words))
        subwords = self.settings.runs / "subwords.model"
        write_atomically(subwords, self.text.vocabulary.source.serialized)
        return {
            "task": "learning",
            "batches": str(self._batches(config)),
            "rates": learning_rates(config),
            "seed": config.seed,
            "folder": str(folder),
            "shape": asdict(shape),
            "subwords": str(subwords),
            "length_penalty": LENGTH_PENALTY,
        }

    def _batches(self, config: TrainConfig) -> Path:
        """The file of the run's batches, written where it is missing."""
        fingerprint = self.text.train.report.fingerprint[:16]
        path = self.settings.runs / f"batches-{config.max_steps}-{config.seed}-{fingerprint}.npz"
        if not path.is_file():
            partial = path.with_name("partial.npz")
            write_batches(partial, list(planned_batches(self.text.train, config)))
            partial.replace(path)
        return path

    # ---- all

    def _asked(self) -> Message:
        """What a score depends on, beside the run."""
        digest = hashlib.sha256(json.dumps(self._test).encode()).hexdigest()
        return {"test (SHA-256)": digest, "length penalty": LENGTH_PENALTY}

    def _identity(self, config: TrainConfig, toolkit: str) -> str:
        """Changes with whatever would make it another run."""
        run = asdict(replace(config, train=["text"], valid=[], out="out"))
        precision = PEER.settings["precision"] if toolkit == PEER.peer else "auto"
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
        types = {"fp32": torch.float32, "bf16": torch.bfloat16}
        rates = {name: rounded(product_rate(dtype, "cpu", 2048)) for name, dtype in types.items()}
        earlier = self.content.get("machine_gflops", [])
        self.put({"starts": self.content.get("starts", 0) + 1, "machine_gflops": [*earlier, rates]})

    def put(self, facts: Message) -> None:
        """Add facts, and write the file."""
        self.content |= facts
        write_atomically(self._path, json.dumps(self.content, indent=1).encode())


def _command(form: str, values: Mapping[str, object]) -> list[str]:
    """Words for this Python; values may hold spaces."""
    return [sys.executable, "-m", "dragoman", *(word.format_map(values) for word in form.split())]
