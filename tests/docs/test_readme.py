"""What the README says is true: its commands work as they stand, its links lead somewhere."""

import json
import re
import shlex
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from dragoman.cli.main import VERBS
from dragoman.datasets.download import SOURCES
from tests.texts_at_hand import phrasebook

from .commands import ROOT, background, blocks, shell

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL, PYTHON = (blocks(ROOT / "README.md", language) for language in ("sh", "python"))


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)|`make (\w+)`", README, re.M):
        name = "".join(target)
        assert re.search(rf"^{name}:", makefile, re.M), name


def test_every_verb_is_named() -> None:
    assert set(VERBS) <= set(re.findall(r"(?:`|dragoman |make )(\w+)", README))


def test_the_results_page_is_what_the_results_say() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    script = "import report; print(report.render(), end='')"
    assert shell(f'{sys.executable} -c "{script}"', ROOT / "benchmarks") == page


def test_the_figures_are_what_the_results_say() -> None:
    script = "from headline import into_readme as f; import sys; print(f(open(sys.argv[1]).read()), end='')"
    page = shell(f'{sys.executable} -c "{script}" {ROOT / "README.md"}', ROOT / "benchmarks")
    assert page == README
    assert page.count("times") > 3


@pytest.mark.timeout(900)
def test_your_own_data_in_the_readme_s_own_words(tmp_path: Path) -> None:
    for language, side in (("en", 0), ("de", 1)):
        lines = "".join(pair[side] + "\n" for pair in phrasebook().train[:500])
        (tmp_path / f"all.{language}").write_text(lines, encoding="utf-8")
    blocks = [block.replace("\\\n", "").strip().splitlines() for block in SHELL[-4:]]
    own, inside, elsewhere, _ = blocks  # the recipe: below
    split, check, train, translate, evaluate = own
    shell(split, tmp_path)
    sizes = [len((tmp_path / f"{part}.de").read_text("utf-8").splitlines()) for part in ("train", "valid", "test")]
    assert min(sizes) > 20
    assert f"Examined {sizes[0]} training pairs, {sizes[1]} validation pairs, {sizes[2]} test pairs" in shell(
        check, tmp_path
    )
    assert "--max-minutes 60" in train
    small = "--max-steps 6 --validation.every 3 --model.d-model 32 --model.d-ff 64 --text.vocab-size 500"
    shell(f"{train} {small}", tmp_path)  # the same command, on less than an hour of text
    assert len(shell(translate, tmp_path).splitlines()) == 1
    assert re.match(r"BLEU [\d.]+  nrefs:1\|case:mixed\|", shell(evaluate, tmp_path))
    inspect, align, figures = inside
    shell(inspect, tmp_path)
    assert (tmp_path / "page.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    lines = shell(align, tmp_path).splitlines()
    assert len(lines) == sizes[2]
    assert all(re.fullmatch(r".* \|\|\| (\d+-\d+ ?)+", line) for line in lines if not line.startswith(" |||"))
    shell(figures, tmp_path)
    assert len(list((tmp_path / "pictures").glob("*.png"))) >= 10
    folder = tmp_path / "models" / "en-de"
    for name in ("config.json", "model.safetensors", "README.md", "metrics.jsonl", "tensorboard", "train.yaml"):
        assert (folder / name).exists(), name
    again = f"dragoman train --config {shlex.quote(str(folder / 'train.yaml'))}"
    shell(again, tmp_path)
    serve, *exports = elsewhere
    address = "http://127.0.0.1:5987"
    with background(f"{serve} --port 5987", tmp_path, f"{address}/health"):
        asked = urllib.parse.urlencode({"q": "Hi", "source": "en", "target": "de"}).encode()
        assert "translatedText" in json.loads(urllib.request.urlopen(f"{address}/translate", asked).read())
    for command in exports:
        if "--to web" in command:  # the slow tests have its JavaScript
            with pytest.raises(AssertionError, match="npm install --ignore-scripts @huggingface/transformers"):
                shell(command, tmp_path)
        else:
            shell(f"{command} --sentences 5", tmp_path)
    assert list((tmp_path / "en-de.argos").glob("*.argosmodel"))
    for program in PYTHON:
        program = program.replace("demo/en-fr", str(folder))
        assert shell(f"{sys.executable} -c {shlex.quote(program)}", tmp_path)


def test_the_recipe_of_the_readme_is_the_one_that_the_page_on_recipes_tries() -> None:
    reproduce, download = SHELL[-1].strip().splitlines()
    assert reproduce in (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8").splitlines()
    words = shlex.split(download)
    assert words[:2] == ["dragoman", "download"]
    assert words[2] in SOURCES
    assert {word for word in words if word.startswith("--")} == {"--out"}
