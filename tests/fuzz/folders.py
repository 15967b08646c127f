"""Damaged model folders, checkpoints and runs."""

import functools
import hashlib
import json
import math
import pickle
import shutil
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from hypothesis import strategies as st

from dragoman.checkpoint import ModelFolder, read_weights
from dragoman.folder import CONVERTED, list_checkpoints
from dragoman.inference.translator import Translator
from dragoman.training.run_state import list_states
from tests.fuzz.running import (
    Draw,
    assert_nothing_half_written,
    command,
    contents,
    damage_bytes,
    damage_file,
    damage_value,
    fresh_folder,
    refused,
)
from tests.sample_run import MODEL_FILES, model_folder, run_folder, same_weights, training

# ---- model folders


def damage_weights(draw: Draw, path: Path) -> None:
    """Write weights that are whole as a file but wrong in some other way, or a header that lies."""
    tensors = safetensors.torch.load_file(path)
    name = draw(st.sampled_from(sorted(tensors)))
    how = draw(st.sampled_from(["values", "type", "shape", "name", "more", "header", "header", "length"]))
    if how in ("header", "length"):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header, body = data[8 : 8 + size], data[8 + size :]
        if how == "header":
            header = json.dumps(damage_value(draw, json.loads(header))).encode(errors="surrogatepass")
            size = len(header)
        else:
            size = draw(st.sampled_from([0, 1, size - 1, size + 1, 2**31, 2**63, 2**64 - 1]))
        path.write_bytes(size.to_bytes(8, "little") + header + body)
        return
    tensor = tensors.pop(name)
    if how == "values":
        tensor = tensor.clone().fill_(draw(st.sampled_from([0.0, math.nan, math.inf, -math.inf, 1e38, -1e38])))
    elif how == "type":
        kind = draw(st.sampled_from([torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8]))
        tensor = tensor.nan_to_num().to(kind)
    elif how == "shape":
        tensor = draw(
            st.sampled_from([tensor[:0], tensor[:1], tensor.flatten(), tensor.unsqueeze(0), tensor.sum()])
        ).clone()
    elif how == "name":
        name = draw(st.sampled_from(["x", "", f"{name}.x", "é"]))
    tensors[name] = tensor
    if how == "more":
        tensors["more"] = torch.zeros(3)
    safetensors.torch.save_file({n: t.contiguous() for n, t in tensors.items()}, path, metadata={"format": "pt"})


@functools.cache
def good_answers() -> dict[str, str]:
    """What the whole model says."""
    with fresh_folder() as scratch:
        folder = copy_model(scratch)
        return {name: command(*words, stdin=_STDIN).out for name, words in working(folder).items()}


_STDIN = "The house and the tree.\n\nwater 日本\n".encode()


def copy_model(scratch: Path) -> Path:
    """The small model by itself, with its copy for CTranslate2."""
    (scratch / "model").mkdir()
    for name in MODEL_FILES:
        shutil.copy(model_folder() / name, scratch / "model" / name)
    shutil.copytree(converted(), scratch / "model" / CONVERTED)
    return scratch / "model"


@functools.cache
def converted() -> Path:
    """The copy of the small model for CTranslate2."""
    Translator.load(model_folder(), "cpu")
    return model_folder() / CONVERTED


def originals(place: Path) -> dict[str, bytes]:
    """What a model folder has, except the copy for CTranslate2, which is made again when it is damaged."""
    return {name: content for name, content in contents(place).items() if not name.startswith(CONVERTED)}


def working(folder: Path) -> dict[str, list[object]]:
    """Commands that work with a model folder."""
    test = model_folder().parent / "valid"
    return {
        "translate": ["translate", folder, "--max-length", "3", "--alignments"],
        "score": ["score", folder, "--test", test],
        "evaluate": ["evaluate", folder, "--test", test, "--max-length", "3"],
        "inspect": ["inspect", folder, "The house", "--text", "--max-length", "3"],
    }


def model(draw: Draw, folder: Path) -> str:
    """A damaged model folder is refused, or works as if nothing had happened."""
    good = good_answers()
    place = copy_model(folder)
    of_copy = [f"{CONVERTED}/{name}" for name in sorted(contents(converted()))]
    path = place / draw(st.sampled_from([*(MODEL_FILES[:3] * 3), *MODEL_FILES[3:], *of_copy]))
    if path.name == "model.safetensors" and draw(st.booleans()):
        damage_weights(draw, path)
        how = "weights"
    else:
        how = damage_file(draw, path, [place / name for name in MODEL_FILES])
    verb = draw(st.sampled_from(sorted(good)))
    before = originals(place)
    outcome = command(*working(place)[verb], stdin=_STDIN)
    assert originals(place) == before
    if refused(outcome, folder.name, "dragoman-fuzz-run", "stdin", "weights", "CTranslate2", talks=True):
        return "refused"
    # Weights without their checksum, and settings, may be others on purpose.
    if how == "weights" or (path.name == "config.json" and how in ("json", "bytes")):
        if verb == "translate":
            assert outcome.out.count("\n") == 3, outcome
        return "another model"
    assert outcome.out == good[verb], (path.name, how, outcome, good[verb])
    return "as before"


def average(draw: Draw, folder: Path) -> str:
    """`average` over damaged checkpoints writes nothing, or what whole ones give."""
    shutil.copytree(run_folder() / "done", folder / "run")
    checkpoints = list_checkpoints(folder / "run")
    path = draw(st.sampled_from([*checkpoints, *checkpoints, *(folder / "run" / name for name in MODEL_FILES)]))
    weights = path.suffix == ".safetensors" and draw(st.booleans())
    if weights:
        damage_weights(draw, path)
        how = "weights"
    else:
        how = damage_file(draw, path, [*checkpoints, folder / "run" / "config.json"])
    out = folder / "mean"
    if exists := draw(st.booleans()):
        shutil.copytree(run_folder() / "run", out)
    before = contents(out) if exists else {}
    last = draw(st.integers(1, 2))
    outcome = command("average", folder / "run", "--out", out, "--last", last)
    assert_nothing_half_written(folder)
    if refused(outcome, folder.name, talks=True):
        assert (contents(out) if exists else {}) == before
        return "refused"
    ModelFolder.load(out)
    if how in ("remove", "dangling", "loop", "folder", "swap", "copy", "weights") or path.name in MODEL_FILES:
        return "averaged"
    assert same_weights(read_weights(out / "model.safetensors"), mean(last)), (path.name, how, last)
    return "averaged"


@functools.cache
def mean(last: int) -> dict[str, torch.Tensor]:
    """What the whole checkpoints give."""
    with fresh_folder() as scratch:
        assert command("average", run_folder() / "done", "--out", scratch / "mean", "--last", last).code == 0
        return read_weights(scratch / "mean" / "model.safetensors")


# ---- runs that continue


class Trap:
    """Something that must not be unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave a trace when it is."""
        return (Path.touch, (Path("sprung"),))


def damage_state(draw: Draw, folder: Path) -> str:
    """Put something else in the place of the newest state, with the right checksum in its name."""
    path = list_states(folder)[-1]
    how = draw(st.sampled_from(["trap", "pickle", "keys", "bytes"]))
    if how == "trap":
        torch.save({"progress": Trap()}, path)
    elif how == "pickle":
        path.write_bytes(pickle.dumps(draw(st.sampled_from([Trap(), {}, [], None, {"model": 1}]))))
    elif how == "keys":
        state = torch.load(path, weights_only=True)
        name = draw(
            st.sampled_from(["progress", "kept_scores", "observations", "facts", "settings", "identity", "text"])
        )
        torch.save(state | {name: damage_value(draw, state[name])}, path)
    else:
        path.write_bytes(damage_bytes(draw, path.read_bytes()))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    path.rename(path.with_name(f"{path.name.rsplit('-', 1)[0]}-{digest}.pt"))
    return f"state {how}"


def resume(draw: Draw, folder: Path) -> str:
    """A run that was damaged continues as if it had not been, or says what is wrong."""
    shutil.copytree(run_folder(), folder / "all", symlinks=True)
    run = folder / "all" / "run"
    hows = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != ".lock")
        if draw(st.integers(0, 4)) == 0 and not hows:
            hows.append(damage_state(draw, run))
        else:
            path = draw(st.sampled_from(files))
            hows.append(f"{path.relative_to(run)} {damage_file(draw, path, files)}")
    outcome = command(*training(folder / "all", "run", 4))
    assert not Path("sprung").exists(), hows
    assert_nothing_half_written(folder)
    if refused(outcome, folder.name, "dragoman-fuzz-run", talks=True):
        return "refused"
    ModelFolder.load(run)
    if any(how in ("state keys", "state bytes") for how in hows):  # a state is what its checksum vouches for
        return "continued"
    expected = run_folder() / "done"
    gone = any(how.startswith("checkpoints/step") for how in hows)  # then the average has one less to it
    for name in ("checkpoints/step-00000004.safetensors", *([] if gone else ["model.safetensors"])):
        assert same_weights(read_weights(run / name), read_weights(expected / name)), (hows, name, outcome)
    metrics = [
        json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n") if line
    ]
    assert {3, 4} <= set(metrics), (hows, metrics)
    return "continued"
