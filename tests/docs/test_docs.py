"""The documentation: what is generated from the code, its commands and programs."""

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import ModelConfig, TextConfig
from dragoman.datasets.download import SOURCES
from dragoman.datasets.phrasebook import read_phrasebook
from dragoman.figures.gallery import gallery
from dragoman.folder import Direction
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary, learn_subwords
from tests.evaluations import evaluation
from tests.small_models import small_model

from .commands import DOCS, ROOT, background, blocks, shell

sys.path.insert(0, str(ROOT / "docs_build"))

import reference
import table_3

# ----------------------------------------------------------------------------------- tables and lists from the code


@pytest.mark.parametrize("row", table_3.ROWS, ids=lambda row: str(row.settings))
def test_the_settings_of_each_row_of_table_3_make_a_model_of_about_the_papers_size(row: table_3.Row) -> None:
    count = table_3.parameters(row)
    if row.settings is None:
        assert count is None
    else:
        assert count is not None
        assert count / 1e6 == pytest.approx(row.millions or 65, rel=0.08)  # the paper's base is 65 million


def test_the_api_reference_has_every_module_once() -> None:
    listed = [module for floor in reference.floors() for module in floor]
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "dragoman").rglob("*.py")
        if not path.name.startswith("__")
    }
    assert sorted(listed) == sorted(files)


# ------------------------------------------------------------------------------------------------- commands, programs


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a translator where `make demo` would have left one; it has learned nothing but its subwords."""
    folder = tmp_path_factory.mktemp("workplace")
    lines = [sentence for pair in read_phrasebook().train[:300] for sentence in pair]
    subwords = learn_subwords(lines, TextConfig(vocab_size=400))
    size = len(subwords)
    shape = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    config = ModelConfig(**shape, source_vocab_size=size, target_vocab_size=size)
    torch.manual_seed(1)
    model = ModelFolder(Transformer(config), Vocabulary(subwords, subwords), Direction("en", "fr"))
    model.save(folder / "demo" / "en-fr")
    return folder


@pytest.mark.slow
def test_the_commands_of_the_pages_do_what_they_say(workplace: Path) -> None:
    inspect, align = blocks(DOCS / "inspect.md", "sh")
    shell(inspect, workplace)
    assert "<html" in (workplace / "inspection.html").read_text(encoding="utf-8")
    assert re.search(r" \|\|\| (\d+-\d+ ?)+$", shell(align, workplace).strip("\n"))
    (draw,) = blocks(DOCS / "figures.md", "sh")
    shell(draw, workplace)
    assert {path.stem for path in (workplace / "pictures").iterdir()} == set(gallery())
    demo, use = blocks(DOCS / "index.md", "sh")
    assert demo == "make demo\n"
    translate, again = use.replace("source .venv/bin/activate\n", "").strip().splitlines()
    assert len(shell(translate, workplace).splitlines()) == 1
    shell(again, workplace)


def test_the_commands_of_recipes_do_what_they_say(tmp_path: Path) -> None:
    (listing, download), (dry_run, reproduce), (runs, against) = (
        block.strip().splitlines() for block in blocks(DOCS / "recipes.md", "sh")
    )
    assert "multi30k-tok" in shell(listing, tmp_path)
    assert download.split()[2] in SOURCES
    assert dry_run == f"{reproduce} --dry-run"
    planned = shell(f"{dry_run} --data {tmp_path} --out {tmp_path / 'out'}", ROOT)
    assert re.search(r"^time: [\d,]+ steps", planned, re.M)
    for name, seed in (("a", 1), ("a", 2), ("b", 1)):
        folder = tmp_path / name / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "scores.json").write_text(json.dumps(evaluation(seed, 0.1 if name == "a" else 0.3)))
    assert "of 2 runs)" in shell(runs, tmp_path)
    assert "| difference | p |" in shell(against, tmp_path)
    text = (DOCS / "recipes.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:multi30k|tatoeba|wmt14|iwslt15)-[\w-]+)`", text))
    assert named == {path.stem for path in (ROOT / "recipes").glob("*.yaml")}


@pytest.mark.slow
def test_the_commands_of_exports_do_what_they_say(tmp_path: Path) -> None:
    loaded = small_model(num_encoder_layers=1, num_decoder_layers=1)  # PyTorch takes seconds for a layer in ONNX
    replace(loaded, direction=Direction("en", "fr")).save(tmp_path / "demo" / "en-fr")
    for block in blocks(DOCS / "exports.md", "sh"):
        for command in block.strip().splitlines():
            if command.startswith("python -m http.server"):
                with background(f"{command} 5988", tmp_path, "http://127.0.0.1:5988/index.html"):
                    assert "Nothing leaves your browser" in shell("curl -s localhost:5988/", tmp_path)
                continue
            exchange = command.split()[1] in ("export", "import")
            shell(f"{command} --sentences 5" if exchange else command, tmp_path)
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()} - {"node_modules"}
    assert folders == {"demo", "en-fr.ct2", "en-fr.int8", "en-fr.hf", "en-fr.argos", "en-fr.onnx", "models", "site"}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_server_is_started_and_asked_as_its_page_says(workplace: Path) -> None:
    start, ask = blocks(DOCS / "serve.md", "sh")
    serve = start.splitlines()[-1].replace("models/", "demo/")
    with background(f"{serve} --port 5989", workplace, "http://127.0.0.1:5989/health"):
        assert "translatedText" in json.loads(shell(ask.replace(":5000", ":5989"), workplace))
    options = re.findall(r"`(--[\w-]+)", (DOCS / "serve.md").read_text(encoding="utf-8"))
    assert {option for option in options if option not in shell("dragoman serve --help", workplace)} == {
        "--text"  # of train
    }


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.md", "inspect.md"])
def test_the_programs_of_the_pages_run(page: str, workplace: Path) -> None:
    (program,) = blocks(DOCS / page, "python")
    assert shell(f"{sys.executable} -c {shlex.quote(program)}", workplace).strip()
