"""Damaged texts: `check`, `train`, `translate`, `score` and `evaluate` on them."""

import gzip
import json
import math
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from dragoman.config import DragomanError
from dragoman.text.corpus import Pair, decode_lines, read_pairs
from tests.fuzz.running import TEXTS, Draw, assert_nothing_half_written, command, damage_bytes, refused
from tests.sample_run import TINY, model_folder, sentences

NAMES = ["a", "train", "my text", "été", "文", "a,b", "x.y", "-dash", "a'b\"c", "100%", "a{b}", "[bold]", "line\nbreak"]
EASY_NAMES = NAMES[:2]


# ---- parallel text


@dataclass(frozen=True)
class Written:
    """A parallel text as it lies in files."""

    text: str
    """As --train takes it."""
    languages: tuple[str, str]
    names: tuple[str, ...]
    """One of these must be in a complaint."""


def draw_pairs(draw: Draw, most: int) -> list[Pair]:
    """Good pairs, with some odd ones among them."""
    pairs = sentences(draw(st.integers(0, most)))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(pairs)))
        odd = (draw(TEXTS), draw(TEXTS))
        pairs[place:place] = [odd] * draw(st.sampled_from([1, 1, 2]))
    return pairs


def _render_jsonl(pairs: list[Pair], languages: tuple[str, str], draw: Draw) -> bytes:
    plain = draw(st.booleans())
    rows = (json.dumps({"translation": dict(zip(languages, pair, strict=True))}, ensure_ascii=plain) for pair in pairs)
    return "".join(row + "\n" for row in rows).encode()


def write_text(draw: Draw, folder: Path, most: int = 8, gentle: bool = False) -> Written:
    """A parallel text in some form, with some things wrong."""
    languages = draw(st.sampled_from([("en", "de"), ("en", "de"), ("en", "ja"), ("xx", "yy"), ("sr-Latn", "zh_TW")]))
    form = draw(st.sampled_from(["prefix", "two", "tsv", "jsonl"]))
    name = draw(st.sampled_from(EASY_NAMES if gentle else NAMES))
    pairs = draw_pairs(draw, most)
    if form in ("prefix", "two"):
        sides = ["".join(pair[side] + "\n" for pair in pairs).encode() for side in (0, 1)]
        suffixes = languages if form == "prefix" else ("src", "trg")
        files = {f"{name}.{suffix}": data for suffix, data in zip(suffixes, sides, strict=True)}
    elif form == "tsv":
        files = {f"{name}.tsv": "".join(f"{s}\t{t}\n" for s, t in pairs).encode()}
    else:
        files = {f"{name}.jsonl": _render_jsonl(pairs, languages, draw)}
    paths = [_write(draw, folder / file, data, gentle) for file, data in files.items()]
    text = str(folder / name) if form == "prefix" else ",".join(map(str, paths))
    return Written(text, languages, (folder.name, name.replace("\n", "\\n")))


def _write(draw: Draw, path: Path, data: bytes, gentle: bool) -> Path:
    """A file with the data, damaged, perhaps gzipped and damaged again; or something else in its place."""
    wrong = draw(st.integers(0, 19)) if not gentle else 19
    data = damage_bytes(draw, data, 1 if gentle else 2)
    if draw(st.integers(0, 3)) == 0:
        path = path.with_name(path.name + ".gz")
        data = gzip.compress(data, 1)
        data = damage_bytes(draw, data, 1) if draw(st.booleans()) else data
    if wrong == 0:
        path.mkdir()
    elif wrong == 1:
        path.symlink_to("nowhere")
    elif wrong > 2:
        path.write_bytes(data)
    return path


def reads(texts: list[str], languages: tuple[str, str], whole: bool = False) -> int | None:
    """How many pairs reading finds, or of them those with text on both sides; None where it complains."""
    try:
        return sum(1 for pair in read_pairs(texts, *languages) if not whole or all(side.strip() for side in pair))
    except (DragomanError, OSError):
        return None


def check(draw: Draw, folder: Path) -> str:
    """`check` says what is wrong with any text, and agrees with reading about what can be read."""
    text = write_text(draw, folder)
    texts, more = [text.text], []
    if draw(st.integers(0, 3)) == 0:
        held = draw(st.sampled_from([text.text, str(folder / "missing")]))
        texts.append(held)
        more = [draw(st.sampled_from(["--valid", "--test"])), held]
    languages = ["--source", text.languages[0], "--target", text.languages[1]]
    result = folder / "report.json"
    outcome = command("check", *languages, "--train", text.text, *more, "--json", result)
    count = [reads([one], text.languages) for one in texts]
    to_learn_from = [reads([one], text.languages, whole=True) for one in texts]
    if outcome.err.startswith("wrote"):
        report = json.loads(result.read_text(encoding="utf-8"))
        assert not outcome.crash, outcome.crash
        assert outcome.code == any(finding["severity"] == "error" for finding in report["findings"]), outcome
        assert outcome.code == 1 or report["usable"], outcome
        usable = all(to_learn_from)
        assert report["usable"] == usable, (count, outcome, report)
        assert not usable or list(report["pairs"].values()) == count, (count, report)
        return "usable" if usable else "unusable"
    assert refused(outcome, *text.names, "missing"), outcome
    assert None in count, (count, outcome)
    assert not result.exists()
    return "refused"


def train(draw: Draw, folder: Path) -> str:
    """`train` trains on what `check` calls usable, and leaves a whole model; or refuses, and leaves none."""
    text = write_text(draw, folder, most=30, gentle=bool(draw(st.integers(0, 2))))
    languages = ["--source", text.languages[0], "--target", text.languages[1]]
    valid = ["--valid", text.text] if draw(st.booleans()) else []
    options = draw(
        st.sampled_from([[], ["--clean.language", "--clean.ratio", "--clean.characters"], ["--clean.copies"]])
    )
    out = folder / "run"
    outcome = command(
        "train", *languages, "--train", text.text, *valid, *options, *TINY, "--max-steps", 1, "--out", out
    )
    assert_nothing_half_written(folder)
    if refused(outcome, *text.names, "text.vocab_size", talks=True):
        assert not (out / "model.safetensors").exists()
        return "refused"
    assert reads([text.text], text.languages), outcome
    translated = command("translate", out, "--max-length", 3, stdin=b"one\n\ntwo\n")
    assert not refused(translated)
    assert translated.out.count("\n") == 3, translated
    return "trained"


# ---- text for a model

# fmt: off
SEARCH = st.lists(
    st.sampled_from([
        ["--beam", "1"], ["--beam", "2"], ["--beam", "30"], ["--n-best", "2"], ["--alignments"],
        ["--alignments=subwords"], ["--format", "json"], ["--format", "moses"],
        ["--min-length", "2"], ["--length-penalty", "0"], ["--batch-tokens", "1"],
    ]),
    max_size=3,
    unique_by=lambda option: option[0],
).map(lambda options: [word for option in options for word in option])
# fmt: on


def translate(draw: Draw, folder: Path) -> str:
    """`translate` writes a line for every line, whatever the bytes; or says which is not UTF-8."""
    lines = [draw(TEXTS) for _ in range(draw(st.integers(0, 4)))]
    data = damage_bytes(draw, "\n".join(lines).encode())
    options = draw(SEARCH)
    path = folder / draw(st.sampled_from(["text", "text.gz", "my text.txt"]))
    path.write_bytes(damage_bytes(draw, gzip.compress(data), 1) if path.suffix == ".gz" else data)
    piped = path.suffix != ".gz" and draw(st.booleans())
    source = [] if piped else [path]
    outcome = command("translate", model_folder(), *source, "--max-length", "3", *options, stdin=data if piped else b"")
    if refused(outcome, path.name, "stdin", "n_best", "beam", talks=True):  # of unknown characters
        return "refused"
    number = len(list(decode_lines(gzip.open(path) if path.suffix == ".gz" else path.open("rb"), "")))  # noqa: SIM115
    written = outcome.out.split("\n")
    assert written.pop() == ""
    if "json" in options:
        assert all(isinstance(json.loads(line)["text"], str) for line in written)
    elif "moses" in options or "--n-best" in options:
        assert {int(line.split(" ||| ")[0]) for line in written} == set(range(number)), outcome
        return "translated"
    assert len(written) == number, (number, outcome)
    return "translated"


def score(draw: Draw, folder: Path) -> str:
    """`score` and `evaluate` treat every pair, or say where they can't."""
    text = write_text(draw, folder, most=4, gentle=draw(st.booleans()))
    count = reads([text.text], ("en", "de"))
    verb = draw(st.sampled_from(["score", "evaluate"]))
    report = folder / "scores.json"
    options = ["--max-length", 3, "--json", report]
    outcome = command(verb, model_folder(), "--test", text.text, *(options if verb == "evaluate" else []))
    assert_nothing_half_written(folder)
    if refused(outcome, *text.names, talks=True):
        assert not report.exists()
        return "refused"
    assert count is not None
    if verb == "evaluate":
        result = json.loads(report.read_text(encoding="utf-8"))
        assert len(result["lines"]) == count
        assert all(math.isfinite(result["scores"][name]) for name in ("bleu", "chrf"))
    else:
        assert outcome.out.count("\n") == count
        assert all(float(value) <= 0 for line in outcome.out.split("\n")[:-1] for value in line.split("\t")[:2])
    return "scored"
