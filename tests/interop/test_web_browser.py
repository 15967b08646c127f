"""The static site in a real browser that reaches nothing but the site: it translates as Dragoman does, also offline."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.config import DragomanError, SearchConfig
from dragoman.inference.translator import Translator
from dragoman.interop import web
from dragoman.text.placeholders import mask
from tests.browser import complaints, missing, until
from tests.small_models import LINES, small_model
from tests.test_package import ROOT

from .sites import Site, build, call, serving, translations, visit

for module in ("onnxruntime", "onnxscript", "tokenizers"):
    pytest.importorskip(module, reason=f"needs {module}: pip install 'dragoman[web]'")
pytestmark = pytest.mark.slow

GREEDY = SearchConfig(beam=1, sentences="keep")
ENDLESS = "dog bird old over bird green bird old bird likes sees"  # the model stops at its limit only
UNUSUAL = ["the\u00a0cat sees\u202fa dog", "the c\u00adat\u200b", "ａ ｄｏｇ likes"]
MASKED = ["the {name} cat", "%s", "a dog {0}%d likes <b>the bird</b>", "{a} {b} the cat", "the old house"]


@pytest.fixture(scope="session")
def assets() -> str:
    """A node_modules folder with the pinned files, installed once."""
    folder = ROOT / ".bench" / "web"
    try:
        web.check_assets(str(folder / "node_modules"))
    except DragomanError:
        if not shutil.which("npm"):
            missing("npm is not on the path")
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            "npm",
            "install",
            "--ignore-scripts",
            "--no-fund",
            "--no-audit",
            "--prefix",
            str(folder),
            web.PACKAGE,
        ]
        subprocess.run(command, check=True, capture_output=True)
    return str(folder / "node_modules")


@pytest.fixture(scope="module")
def loaded() -> ModelFolder:
    return small_model(joint=False, symbols=True)


@pytest.fixture(scope="module")
def site(loaded: ModelFolder, assets: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site in float32, of a model with two vocabularies and with symbols for placeholders."""
    with serving(build(loaded, tmp_path_factory.mktemp("web") / "site", assets, "float32")) as found:
        yield found


def test_it_translates_and_aligns_as_dragoman(browser: Any, site: Site, loaded: ModelFolder) -> None:
    complaints(browser)
    assert visit(browser, site.address) == ""
    translator, texts = Translator(loaded), [*LINES, *MASKED, *UNUSUAL, ENDLESS]
    expected = translator.translate(texts, GREEDY)
    found = translations(browser, texts)
    assert [one["text"] for one in found] == [one.text for one in expected]
    assert "{name}" in found[len(LINES)]["text"]
    assert len(expected[-1].subwords) == loaded.model.config.max_length - 1
    for one, other, alignment in zip(found, expected, translator.align(texts, expected), strict=True):
        assert (one["alignment"]["source"], one["alignment"]["target"]) == (alignment.source, alignment.target)
        assert [tuple(link) for link in one["alignment"]["links"]] == alignment.links
        assert one["lost"] == other.lost
    assert complaints(browser) == []


def test_lines_and_sentences_are_translated_one_by_one(browser: Any, site: Site) -> None:
    visit(browser, site.address)
    parts = ["The cat sees a dog.", "The old house!", "A bird likes M. Dog."]
    text = f" {parts[0]}  {parts[1]}\n\n \n{parts[2]}"
    single = [one["text"] for one in translations(browser, parts)]
    (whole,) = translations(browser, [text], "split")
    assert whole["text"] == f"{single[0]}  {single[1]}\n\n\n{single[2]}"
    words = whole["alignment"]
    assert words["source"] == text.split()
    assert " ".join(words["target"]).split() == whole["text"].split()
    assert {s for s, _ in words["links"]} <= set(range(len(words["source"])))


def test_a_sentence_longer_than_any_of_the_training_is_cut(browser: Any, site: Site, loaded: ModelFolder) -> None:
    visit(browser, site.address)
    texts = [" ".join(LINES[9:14]) + ", " + " ".join(LINES[9:14]), "the cat " * 200, "x" * 500]
    for text, found in zip(texts, translations(browser, texts), strict=True):
        assert "".join(found["alignment"]["source"]) == "".join(text.split())
    (cut,) = translations(browser, texts[:1])
    assert cut["text"].startswith(Translator(loaded).translate([texts[0].split(",")[0] + ","])[0].text[:10])


def test_a_request_can_be_aborted(browser: Any, site: Site) -> None:
    visit(browser, site.address)
    code = """(() => {
      const control = new AbortController();
      const first = backend.translate({ text: "the cat sees a dog.\\n".repeat(999) + "end", signal: control.signal });
      setTimeout(() => control.abort(), 50);
      return first.catch((error) => error.name);
    })()"""
    assert call(browser, code) == "AbortError"
    assert translations(browser, ["the cat"])[0]["text"]


def test_placeholders_are_found_as_in_python(browser: Any, site: Site) -> None:
    visit(browser, site.address)
    texts = [
        *MASKED, "{{ user.name }}, ${name} {0}", "100 % of 5 %d%s %(größe)s %1$.2f %5", "<b>a</b> &nbsp; a < b > c",
        "see https://example.org/ä?b=c, or www.example.org.", "to: a.b+c@example-mail.co.uk!", "👩‍👩‍👧 ☃️ 🇫🇷", "⟦1⟧ ⟦0⟧",
        "%sを%NAME1に、https://x.org/ä?b=cでa@b.orgまで $(X) %5 %NAME 5 %AB",
        "%söl", "_a@b.c", "{not one}", "{}{}{}", "&amp;&#65;", "<!-- a --> b",
    ]  # fmt: skip
    pattern = web.javascript_pattern()
    found = call(browser, "given[0].map((text) => text.match(new RegExp(given[1], 'gu')) ?? [])", texts, pattern)
    assert found == [mask(text)[1] for text in texts]


def test_it_works_without_a_network_after_the_first_visit(
    browser: Any, loaded: ModelFolder, site: Site, tmp_path: Path
) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    with ExitStack() as stack:
        served = stack.enter_context(serving(tmp_path / "site"))
        visit(browser, served.address)
        files = {path.name for path in served.folder.rglob("*") if path.is_file()}
        until(lambda: files <= {url.split("?")[0].rpartition("/")[2] for url in kept(browser)}, "not all is kept")
        visit(browser, served.address)
        heavy = [path for path in served.asked if "?" in path]
        assert len(heavy) == len({*heavy}) == 9, "model and runtime are loaded once"
    complaints(browser)
    assert visit(browser, served.address) == ""
    (found,) = translations(browser, LINES[9:10])
    assert found["text"] == Translator(loaded).translate(LINES[9:10], GREEDY)[0].text


def kept(browser: Any) -> list[str]:
    """The addresses of all files that a site keeps for use without a network."""
    code = "caches.open(new URL('.', location)).then((cache) => cache.keys()).then((all) => all.map(({ url }) => url))"
    return call(browser, code)  # type: ignore[no-any-return]


def test_files_of_an_earlier_model_are_dropped(browser: Any, site: Site, tmp_path: Path) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    settings = json.loads((site.folder / web.SETTINGS).read_text())
    with serving(tmp_path / "site") as served:
        visit(browser, served.address)
        (served.folder / web.SETTINGS).write_text(json.dumps(settings | {"version": "0123456789ab"}))
        visit(browser, served.address)
        until(lambda: not any(url.endswith(settings["version"]) for url in kept(browser)), "old files are kept")
        assert any(url.endswith("0123456789ab") for url in kept(browser))


def test_not_even_its_worker_can_send_a_text_away(browser: Any, site: Site, tmp_path: Path) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    with serving(tmp_path) as elsewhere, serving(tmp_path / "site") as served:
        refused = '() => self.postMessage({ number: 1, error: "refused" })'
        send = f'fetch("{elsewhere.address}", {{ mode: "no-cors" }}).catch({refused});'
        with (served.folder / "worker.js").open("a") as file:
            file.write(send)
        assert "refused" in visit(browser, served.address)
        assert elsewhere.asked == []


@pytest.mark.parametrize("missing_file", ["model/tokenizer.json", "worker.js", "site.json"])
def test_a_site_that_is_not_whole_says_so(browser: Any, site: Site, tmp_path: Path, missing_file: str) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    (tmp_path / "site" / missing_file).unlink()
    with serving(tmp_path / "site") as served:
        assert visit(browser, served.address).startswith("The translator can't start: ")


def test_a_browser_without_webassembly_is_told(browser: Any, site: Site) -> None:
    script = {"source": "delete globalThis.WebAssembly"}
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        assert "no WebAssembly" in visit(browser, site.address)
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_in_8_bits_the_browser_writes_what_the_proof_has_seen(browser: Any, assets: str, tmp_path: Path) -> None:
    loaded = small_model()
    with serving(build(loaded, tmp_path / "site", assets, "int8")) as served:
        backend = web.WebBackend(served.folder / web.MODEL, "int8")
        visit(browser, served.address)
        found = [one["text"] for one in translations(browser, LINES)]
        ids = backend.encode(LINES)
        expected = backend.decode([backend.search([one], 1, [len(one) + GREEDY.max_length])[0] for one in ids])
        same = sum(here == there for here, there in zip(found, expected, strict=True))
        assert same >= 0.95 * len(LINES)
