"""The documentation: every reference, link, picture and equation of the site, and that it needs no network."""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import markdown
import pytest
import torch

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.cli.main import VERBS, main
from dragoman.config import ModelConfig, TextConfig
from dragoman.datasets.download import SOURCES
from dragoman.datasets.phrasebook import read_phrasebook
from dragoman.figures.gallery import gallery
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary, learn_subwords
from tests.evaluations import evaluation
from tests.small_models import small_model

from .commands import DOCS, ROOT, blocks, shell

PAGES = sorted(DOCS.glob("*.md"))
sys.path.insert(0, str(ROOT / "docs_build"))

import command_line  # noqa: E402
import equations  # noqa: E402
import reference  # noqa: E402
import sources  # noqa: E402
import symbols  # noqa: E402
import variations  # noqa: E402

# ------------------------------------------------------------------------------------------------------ references


def references(page: Path) -> list[str]:
    return [found.removeprefix("show ") for found in sources.REFERENCE.findall(page.read_text(encoding="utf-8"))]


def line_of(reference: str) -> str:
    place = symbols.resolve(reference)
    return (ROOT / place.file).read_text(encoding="utf-8").splitlines()[place.line - 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_that_a_page_names_in_the_code_is_there(page: Path) -> None:
    for named in references(page):
        symbols.resolve(named.partition(" … ")[0])


def test_the_paper_map_names_every_part_of_the_model() -> None:
    named = {found.partition(" @ ")[0].partition(".__init__")[0] for found in references(DOCS / "paper.md")}
    for module in ("attention", "embedding", "layers", "masks", "transformer"):
        full = f"dragoman.model.{module}"
        assert any(name.startswith(full) for name in named), full
    for part in (
        "dragoman.model.attention:scaled_dot_product_attention",
        "dragoman.model.attention:MultiHeadAttention",
        "dragoman.model.layers:PositionwiseFeedForward",
        "dragoman.model.embedding:sinusoids",
        "dragoman.training.optimizer:learning_rate",
        "dragoman.training.loss:label_smoothed_cross_entropy",
        "dragoman.inference.search:search",
    ):
        assert part in named, part


def test_a_reference_is_the_line_of_what_it_names() -> None:
    assert line_of("dragoman.model.masks:causal_mask").startswith("def causal_mask(")
    assert line_of("dragoman.model.layers:SublayerConnection.forward").lstrip().startswith("def forward(")
    assert line_of("dragoman.config:ModelConfig.d_model").lstrip().startswith("d_model:")
    assert line_of("dragoman.config:PRESETS").startswith("PRESETS")
    assert line_of("dragoman.model.attention:MultiHeadAttention.__init__ @ self.key = ").lstrip().startswith("self.key")
    assert line_of("tests/docs/test_docs.py::test_a_reference_is_the_line_of_what_it_names").startswith(
        "def test_a_ref"
    )
    assert symbols.resolve("dragoman.model").file == "dragoman/model/__init__.py"


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        ("dragoman.model.absent", "dragoman/model/absent.py"),
        ("dragoman.model.masks:absent", "absent"),
        ("dragoman.model.masks:padding_mask @ tril", "'tril'"),  # it is in the file, but not in this function
        ("tests/docs/test_docs.py::test_absent", "test_absent"),
    ],
)
def test_a_reference_to_what_is_not_there_is_an_error_that_names_it(gone: str, named: str) -> None:
    with pytest.raises(symbols.UnknownSymbol, match=re.escape(named)):
        symbols.resolve(gone)


# -------------------------------------------------------------------------------------------------------- equations


def rendered(text: str) -> str:
    """A piece of Markdown with its equations, as the site has it."""
    extensions = ["pymdownx.arithmatex", "pymdownx.superfences"]
    page = markdown.markdown(text, extensions=extensions, extension_configs={"pymdownx.arithmatex": {"generic": True}})
    return equations.on_page_content(page, page=None, config=None, files=None)  # type: ignore[arg-type]


def test_dollars_become_mathml_in_the_line_and_on_lines_of_their_own() -> None:
    page = rendered("Here $x_1$ is in the line.\n\n$$\n\\frac{a}{b}\n$$\n")
    assert re.search(r'<p>Here <math [^>]*display="inline".*<msub><mi>x</mi><mn>1</mn></msub>.*</math> is in', page)
    assert re.search(r'<div class="equation"><math [^>]*display="block".*<mfrac>', page)
    assert "$" not in page


def test_an_equation_that_cannot_be_shown_is_an_error() -> None:
    with pytest.raises(equations.BadEquation):
        equations.to_mathml(r"\nosuchcommand x", "inline")


# ----------------------------------------------------------------------------------- tables and lists from the code


@pytest.mark.parametrize("row", variations.ROWS, ids=lambda row: str(row.settings))
def test_the_settings_of_each_row_of_table_3_make_a_model_of_about_the_papers_size(row: variations.Row) -> None:
    count = variations.parameters(row)
    if row.settings is None:
        assert count is None
    else:
        assert count is not None
        assert count / 1e6 == pytest.approx(row.millions or 65, rel=0.08)  # the paper's base is 65 million


@pytest.mark.parametrize("verb", VERBS)
def test_the_command_line_reference_has_every_option_of_the_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    options = set(re.findall(r"^ +(--[a-z][\w.-]+)", capsys.readouterr().out, re.M))
    page = command_line.on_page_markdown("<!-- verbs -->", page=None, config=None, files=None)  # type: ignore[arg-type]
    start = page.index(f"## {verb} {{")
    section = page[start : page.find("\n## ", start)]
    shown = set(re.findall(r"<dt[^>]*><code>(--[^<]+)</code>", section))
    assert options - shown <= {"--config", "--help", "--print-config"}
    assert shown <= options


def test_the_api_reference_has_every_module_once() -> None:
    listed = [module for floor in reference.floors() for module in floor]
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "dragoman").rglob("*.py")
        if not path.name.startswith("__")
    }
    assert sorted(listed) == sorted(files)


# ------------------------------------------------------------------------------------------ links in the repository


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_between_files_of_the_repository_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", target
            assert parts.netloc, target
        elif parts.path:
            assert (page.parent / unquote(parts.path)).exists(), target


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
    assert "steps per epoch" in shell(f"{dry_run} --data {tmp_path} --out {tmp_path / 'out'}", ROOT)
    for name, seed in (("a", 1), ("a", 2), ("b", 1)):
        folder = tmp_path / name / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "scores.json").write_text(json.dumps(evaluation(seed, 0.1 if name == "a" else 0.3)))
    assert "of 2 runs)" in shell(runs, tmp_path)
    assert "| difference | p |" in shell(against, tmp_path)
    named = set(re.findall(r"`((?:multi30k|tatoeba|wmt14)-[\w-]+)`", (DOCS / "recipes.md").read_text(encoding="utf-8")))
    assert named == {path.stem for path in (ROOT / "recipes").glob("*.yaml")}


@pytest.mark.slow
def test_the_commands_of_exports_do_what_they_say(tmp_path: Path) -> None:
    replace(small_model(), direction=Direction("en", "fr")).save(tmp_path / "demo" / "en-fr")
    for block in blocks(DOCS / "exports.md", "sh"):
        for command in block.strip().splitlines():
            exchange = command.split()[1] in ("export", "import")
            shell(f"{command} --sentences 5" if exchange else command, tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"demo", "en-fr.ct2", "en-fr.int8", "en-fr.hf", "en-fr.argos", "en-fr.onnx", "models"}


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.md", "inspect.md"])
def test_the_programs_of_the_pages_run(page: str, workplace: Path) -> None:
    (program,) = blocks(DOCS / page, "python")
    assert shell(f"{sys.executable} -c {shlex.quote(program)}", workplace).strip()
