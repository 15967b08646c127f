"""What the README says is true: its commands work as they stand, its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli.main import VERBS
from dragoman.datasets.download import SOURCES
from tests.texts_at_hand import phrasebook

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = re.findall(r"```sh\n(.*?)```", README, re.S)
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(command: str, folder: Path) -> str:
    done = subprocess.run(command, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)|`make (\w+)`", README, re.M):
        name = "".join(target)
        assert re.search(rf"^{name}:", makefile, re.M), name


def test_the_table_of_verbs_is_complete() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", README, re.M)) == set(VERBS)


def test_the_results_page_is_what_the_results_say() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    script = "import report; print(report.render(), end='')"
    assert run(f'{sys.executable} -c "{script}"', ROOT / "benchmarks") == page


def test_the_figures_are_what_the_results_say() -> None:
    script = "from headline import into_readme as f; import sys; print(f(open(sys.argv[1]).read()), end='')"
    page = run(f'{sys.executable} -c "{script}" {ROOT / "README.md"}', ROOT / "benchmarks")
    assert page == README
    assert page.count("times") > 3


@pytest.mark.timeout(300)
def test_your_own_data_in_the_readme_s_own_words(tmp_path: Path) -> None:
    for language, side in (("en", 0), ("de", 1)):
        lines = "".join(pair[side] + "\n" for pair in phrasebook().train[:500])
        (tmp_path / f"all.{language}").write_text(lines, encoding="utf-8")
    blocks = [block.replace("\\\n", "").strip().splitlines() for block in SHELL[-4:]]
    own, _, inside, elsewhere = blocks  # the recipe: below
    split, check, train, translate, evaluate = own
    run(split, tmp_path)
    sizes = [len((tmp_path / f"{part}.de").read_text("utf-8").splitlines()) for part in ("train", "valid", "test")]
    assert min(sizes) > 20
    assert f"Examined {sizes[0]} training pairs, {sizes[1]} validation pairs, {sizes[2]} test pairs" in run(
        check, tmp_path
    )
    assert "--max-minutes 60" in train
    small = "--max-steps 6 --validation.every 3 --model.d-model 32 --model.d-ff 64 --text.vocab-size 500"
    run(f"{train} {small}", tmp_path)  # the same command, on less than an hour of text
    assert len(run(translate, tmp_path).splitlines()) == 1
    assert re.match(r"BLEU [\d.]+  nrefs:1\|case:mixed\|", run(evaluate, tmp_path))
    inspect, align, figures = inside
    run(inspect, tmp_path)
    assert (tmp_path / "page.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    lines = run(align, tmp_path).splitlines()
    assert len(lines) == sizes[2]
    assert all(re.fullmatch(r".* \|\|\| (\d+-\d+ ?)+", line) for line in lines if not line.startswith(" |||"))
    run(figures, tmp_path)
    assert len(list((tmp_path / "pictures").glob("*.png"))) >= 10
    folder = tmp_path / "models" / "en-de"
    for name in ("config.json", "model.safetensors", "README.md", "metrics.jsonl", "tensorboard", "train.yaml"):
        assert (folder / name).exists(), name
    again = f"dragoman train --config {shlex.quote(str(folder / 'train.yaml'))}"
    run(again, tmp_path)
    for command in elsewhere:
        run(f"{command} --sentences 5", tmp_path)
    assert list((tmp_path / "en-de.argos").glob("*.argosmodel"))
    for program in PYTHON:
        program = program.replace("demo/en-fr", str(folder))
        assert run(f"{sys.executable} -c {shlex.quote(program)}", tmp_path)


def test_the_recipe_of_the_readme_can_be_followed(tmp_path: Path) -> None:
    reproduce, download = SHELL[-3].strip().splitlines()
    found = run(f"{reproduce} --dry-run --data {tmp_path} --out {tmp_path / 'out'}", ROOT)
    assert re.search(r"^time: [\d,]+ steps", found, re.M)
    words = shlex.split(download)
    assert words[:2] == ["dragoman", "download"]
    assert words[2] in SOURCES
    assert {word for word in words if word.startswith("--")} == {"--out"}
