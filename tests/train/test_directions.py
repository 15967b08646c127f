"""One model for several languages: a tag at the beginning of a source line names the language to write."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece

from dragoman.checkpoint import ModelFolder
from dragoman.cli.main import main
from dragoman.config import DragomanError, SearchConfig
from dragoman.inference.translator import Translator
from dragoman.serving.directions import Directions
from dragoman.text.corpus import read_pairs
from tests.command_calls import complaint, run
from tests.small_models import LINES
from tests.training.small_runs import records

from .running import SHAPE

TEXTS = {
    "en": LINES,
    "ne": [" ".join(word[::-1] for word in line.split()) for line in LINES],
    "up": [line.upper() for line in LINES],
}
LANGUAGES = ["--source", "en,ne,up", "--target", "en,ne,up"]
PAIRS = [(source, target) for source in TEXTS for target in TEXTS if source != target]
LINE = LINES[12]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for language, lines in TEXTS.items():
        for part in ("train", "valid"):
            (folder / f"{part}.{language}").write_text("".join(line + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def model(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned six directions by heart."""
    out = tmp_path_factory.mktemp("model") / "six"
    words = [
        "train",
        *LANGUAGES,
        *SHAPE,
        "--model.d-model",
        "64",
        "--model.d-ff",
        "128",
        "--model.dropout",
        "0",
        "--text.vocab-size",
        "420",
        "--device",
        "cpu",
    ]
    words += ["--train", f"{text}/train", "--valid", f"{text}/valid", "--out", str(out), "--clean.overlap", "false"]
    words += ["--preset", "small", "--max-steps", "800", "--validation.every", "400", "--optimizer.batch-tokens", "600"]
    assert main([*words, "--optimizer.peak-lr", "0.005", "--optimizer.warmup-steps", "50"]) == 0
    return out


def test_a_text_has_each_direction_whose_files_are_there(text: Path, tmp_path: Path) -> None:
    prefix = [str(text / "train")]
    expected = [
        (f">>{target}<<{source_line}", target_line)
        for source, target in PAIRS
        for source_line, target_line in read_pairs(prefix, source, target)
    ]
    assert len(expected) == 6 * len(LINES)
    assert list(read_pairs(prefix, "en,ne,up", "en,ne,up")) == expected
    assert list(read_pairs(prefix, "en,xx", "ne,up")) == [pair for pair in expected if pair[0][6:] in LINES]
    into_one = [pair for source in ("en", "ne") for pair in read_pairs(prefix, source, "up")]
    assert list(read_pairs(prefix, "en,ne", "up")) == into_one  # which needs no tag
    asked = ["check", "--source", "en", "--target", "xx,yy", "--train", text / "train"]
    assert "is no list of languages such as en,de" in complaint(2, *asked[:3], "--target", "xx,xx", *asked[-2:])
    assert "no direction has both its files, such as" in complaint(1, *asked)


def test_each_line_is_translated_into_the_language_that_is_asked_for(model: Path) -> None:
    translator = Translator.load(model)
    for source, target in PAIRS:
        lines, wanted = TEXTS[source], TEXTS[target]
        translations = [one.text for one in translator.toward(source, target).translate(lines)]
        assert sum(a == b for a, b in zip(translations, wanted, strict=True)) > 0.9 * len(lines), (source, target)
        tagged = [f">>{target}<< {line}" for line in lines]
        assert [one.text for one in translator.translate(tagged)] == translations
        assert translator.toward(source, target).score([(LINE, LINE)]) == translator.score(
            [(f">>{target}<<{LINE}", LINE)]
        )
    with pytest.raises(DragomanError, match="choose one of en,ne,up with toward"):
        translator.translate([*tagged, "", LINE])
    assert len(translator.translate([*tagged, ""])) == len(tagged) + 1


def test_words_are_aligned_without_the_tag(model: Path) -> None:
    translator = Translator.load(model).toward("en", "up")
    for line in (LINE, f"{LINE}. {LINES[4]}."):
        (alignment,) = translator.align([line], translator.translate([line]))
        assert alignment.source == line.split()
        assert {source for source, _ in alignment.links} <= set(range(len(line.split())))


def test_the_verbs_take_the_languages(model: Path, text: Path, tmp_path: Path) -> None:
    said = run("translate", model, "--target", "up", stdin=f"{LINE}\n".encode())
    assert said.out == f"{LINE.upper()}\n"
    assert "several target languages: choose en or ne or up with --target" in complaint(
        2, "translate", model, stdin=b"a\n"
    )
    augmenting = ["augment", model, "--text", text / "valid.en", "--target", "up", "--out", tmp_path / "made"]
    assert "several source languages: choose en or ne or up with --source" in complaint(2, *augmenting)
    assert run(*augmenting, "--source", "en").code == 0
    assert (tmp_path / "made.up").read_text().splitlines()[0] == f"<BT> {LINES[0].upper()}"
    assert "choose one of en,ne,up" in complaint(1, "translate", model, "--target", "fr", stdin=b"a\n")
    assert run("inspect", model, LINE, "--target", "up", "--text").code == 0
    scored = run("evaluate", model, "--test", text / "valid").out
    assert re.findall(r"^\w+ → \w+$", scored, re.M) == [f"{source} → {target}" for source, target in PAIRS]
    assert float(re.findall(r"^mean BLEU (.*)$", scored, re.M)[0]) > 90
    assert "need --source and --target" in complaint(
        2, "evaluate", model, "--test", text / "valid", "--json", tmp_path / "x"
    )
    one = ["evaluate", model, "--test", text / "valid", "--source", "ne", "--target", "up", "--json", tmp_path / "x"]
    assert run(*one).code == 0
    assert json.loads((tmp_path / "x").read_text())["languages"] == ["ne", "up"]


def test_validation_is_of_each_direction_and_the_mean_decides(model: Path) -> None:
    values = {name: value for step, name, value in records(model, "valid/") if step == 800}
    each = [values[f"valid/bleu {source}-{target}"] for source, target in PAIRS]
    assert values["valid/bleu"] == pytest.approx(sum(each) / 6)


def test_a_server_offers_each_direction(model: Path) -> None:
    found = Directions([Translator.load(model)], SearchConfig(), pivot=False, cached_lines=0)
    assert set(found.routes) == set(PAIRS)
    assert found.routes["en", "up"][0].translator.translate([LINE])[0].text == LINE.upper()


def test_directions_without_pairs_go_by_way_of_another_language(model: Path, text: Path, tmp_path: Path) -> None:
    whole = ModelFolder.load(model)
    assert whole.direction.pairs == PAIRS
    whole.with_facts({"trained_directions": "en>ne ne>en en>up up>en"}).save(tmp_path / "some")
    found = Directions([Translator.load(tmp_path / "some")], SearchConfig(), pivot=True, cached_lines=0)
    assert {pair for pair, route in found.routes.items() if len(route) == 2} == {("ne", "up"), ("up", "ne")}
    for target, warned in (("en", False), ("up", True)):
        said = run("translate", tmp_path / "some", "--source", "ne", "--target", target, stdin=b"a\n")
        assert ("never saw pairs of ne and up" in said.err) == warned
    scored = run("evaluate", tmp_path / "some", "--test", text / "valid").out
    assert re.findall(r"^(\w+) → (\w+)$", scored, re.M) == [pair for pair in PAIRS if "en" in pair]
    for language in ("ne", "up"):
        shutil.copy(text / f"valid.{language}", tmp_path)
    scored = run("evaluate", tmp_path / "some", "--test", tmp_path / "valid").out
    assert re.findall(r"^(\w+) → (\w+)$", scored, re.M) == [("ne", "up"), ("up", "ne")]


def test_fine_tuning_adds_directions_also_when_it_is_resumed(model: Path, text: Path, tmp_path: Path) -> None:
    ModelFolder.load(model).with_facts({"trained_directions": "en>ne ne>en"}).save(tmp_path / "some")
    for language in ("en", "up"):
        shutil.copy(text / f"train.{language}", tmp_path)
    words = ["train", *LANGUAGES, "--train", tmp_path / "train", "--valid", text / "valid", "--from", tmp_path / "some"]
    words += ["--out", tmp_path / "more", "--clean.overlap", "false", "--device", "cpu", "--max-steps"]
    for steps in (1, 2):
        assert run(*words, steps).code == 0
        assert ModelFolder.load(tmp_path / "more").direction.pairs == [pair for pair in PAIRS if "en" in pair]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["ctranslate2", "onnx", "huggingface"])
def test_exports_take_the_tag(model: Path, tmp_path: Path, library: str) -> None:
    exported = run("export", model, "--to", library, "--out", tmp_path / "out", "--sentences", "20")
    assert exported.code == 0, exported.err
    card = (tmp_path / "out" / "README.md").read_text()
    assert "begins with the tag of the target language" in card
    program = card.split("```python\n")[1].split("\nprint(translate(")[0]
    first, second = f"The {LINE}.", f"The {LINES[8]}."
    program += "".join(f"\nprint(translate('>>up<< {text}'))" for text in (f"{first} {second}", first, second))
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, cwd=tmp_path / "out", capture_output=True, text=True, check=True)
    both, *each = printed.stdout.splitlines()
    assert both == " ".join(each)
    assert all(text.isupper() for text in each)


def test_an_export_for_ctranslate2_takes_the_languages(model: Path, tmp_path: Path) -> None:
    exported = run("export", model, "--to", "ctranslate2", "--out", tmp_path / "out", "--sentences", "20")
    assert exported.code == 0, exported.err
    said = run("translate", tmp_path / "out", "--target", "ne", stdin=f"{LINE}\n".encode())
    assert said.out == f"{TEXTS['ne'][12]}\n"


def test_an_argos_package_has_one_of_the_directions(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("babel", reason="needs babel: pip install 'dragoman[argos]'")
    package = tmp_path / "ne-up.argosmodel"
    asked = ["export", model, "--to", "argos", "--out", package, "--sentences", "20"]
    assert "several source languages: choose en or ne or up with --source" in complaint(2, *asked, "--target", "up")
    assert "others take all languages" in complaint(2, *asked[:3], "onnx", *asked[4:], "--target", "up")
    assert run(*asked, "--source", "ne", "--target", "up").code == 0
    zipfile.ZipFile(package).extractall(tmp_path)
    (folder,) = tmp_path.glob("translate-ne_up-*")
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    pieces = [subwords.encode(line, out_type=str) for line in TEXTS["ne"]]
    found = ctranslate2.Translator(str(folder / "model")).translate_batch(pieces)
    texts = [subwords.decode(one.hypotheses[0]) for one in found]
    assert sum(a == b for a, b in zip(texts, TEXTS["up"], strict=True)) > 0.9 * len(texts)
