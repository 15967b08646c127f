"""Cards of exports: hubs read their front matter, and their programs run and keep what the model promises."""

import ast
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from dragoman.checkpoint import ModelFolder
from dragoman.config import EOS, UNK, DragomanError, SearchConfig
from dragoman.folder import IMPORTED_FACT, TEXT_FACT, Direction
from dragoman.inference.translator import Translator
from dragoman.interop import ctranslate2, huggingface, onnx
from dragoman.interop.argos import Package
from dragoman.interop.cards import card, compare_program
from dragoman.interop.import_marian import read_marian
from dragoman.interop.parity import Parity
from dragoman.text import placeholders
from tests.small_models import LINES, small_model

PARITY = Parity(
    "library 1.0", 10, "lines", "logits", 1e-6, identical={"1": 10}, endless={"1": 0}, ties={"1": 0},
    bleu={"1": [30.0, 30.0]}, passed=True,
)  # fmt: skip
PACKAGE = Package("translate-en_pb-1_0", "translate-en_pb-1_0.argosmodel", "1.0", "en", "pb")
LIBRARIES = {"ctranslate2": "ctranslate2", "huggingface": "transformers", "onnx": "onnxruntime"}
PROGRAMS = ["ctranslate2", "huggingface", pytest.param("onnx", marks=pytest.mark.slow)]


def program(text: str) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return str(code)


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface", "argos", "onnx"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_card_can_be_read_by_hubs_and_run_by_people(target: str, joint: bool) -> None:
    loaded = replace(small_model(joint), direction=Direction("en", "no", {"signatures": {"bleu": "a|b"}}))
    text = card(loaded, target, "int8", PARITY, PACKAGE)
    front = yaml.safe_load(text.split("---")[1])
    assert front["language"] == ["en", "no"], "Norwegian is a language"
    assert front["pipeline_tag"] == "translation"
    code = program(text)
    ast.parse(code)
    names = set(re.findall(r'model_file="(.+?)"', code))
    assert names <= set(loaded.vocabulary.files())
    assert names or target in ("huggingface", "argos")
    assert "10 of 10 translations identical" in text
    assert "its weights in int8" in text
    assert "what is beyond 63 is left out" in text
    assert "| signatures | bleu: a\\|b |" in text
    if target == "argos":
        assert "pip install 'argostranslate>=1.10'" in text
        assert 'install_from_path("translate-en_pb-1_0.argosmodel")' in code


def test_a_card_says_who_trained_the_model() -> None:
    loaded = small_model()
    assert "trained with Dragoman. Exported for CTranslate2" in card(loaded, "ctranslate2", "float32", PARITY)
    imported = loaded.with_facts({IMPORTED_FACT: "opus"})
    assert "imported into Dragoman from opus." in card(imported, "huggingface", "float32", PARITY)
    tuned = loaded.with_facts({"fine_tuned_from": {"folder": "m", **imported.direction.facts}, TEXT_FACT: "abc"})
    assert "imported into Dragoman from opus and fine-tuned there." in card(tuned, "onnx", "float32", PARITY)


def test_nothing_that_a_model_says_about_itself_becomes_a_program() -> None:
    package = Package("x", 'translate-en_ne"); print("-1_0', "1.0", "en", 'ne"); print("')
    code = program(card(small_model(), "argos", "float32", PARITY, package))
    calls = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert sum(isinstance(call, ast.Name) and call.id == "print" for call in calls) == 1


def write_export(loaded: ModelFolder, to: str, folder: Path) -> Path:
    """An export without proof."""
    pytest.importorskip(LIBRARIES[to], reason=f"needs {LIBRARIES[to]}")
    folder.mkdir()
    {"ctranslate2": ctranslate2, "huggingface": huggingface, "onnx": onnx}[to].write_model(loaded, folder)  # type: ignore[attr-defined]
    (folder / "README.md").write_text(card(loaded, to, "float32", PARITY))
    shutil.copy(placeholders.__file__, folder)
    return folder


def load_card(out: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the program on a card defines, such as translate."""
    names = dict[str, Any]()
    with monkeypatch.context() as patch:
        patch.chdir(out)
        patch.syspath_prepend(out)
        exec(program((out / "README.md").read_text()).split("\nprint(")[0], names)
    return names


class Watched:
    """An object whose calls are kept."""

    def __init__(self, watched: Any) -> None:
        self._watched, self.calls = watched, list[tuple[tuple[Any, ...], dict[str, Any]]]()

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.calls.append((given, named))
            return getattr(self._watched, name)(*given, **named)

        return call


@pytest.mark.parametrize("to", PROGRAMS)
def test_the_program_keeps_the_limits_of_the_model_and_never_writes_unk(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the model never ends a translation and prefers <unk>."""
    endless = small_model(softmax_bias=True)
    with torch.no_grad():
        endless.model.softmax.bias[EOS], endless.model.softmax.bias[UNK] = -100.0, 100.0
    most = endless.model.config.max_length
    names = load_card(write_export(endless, to, tmp_path / to), monkeypatch)
    assert [names["translate"](empty) for empty in ("", "  ")] == ["", ""]
    decoder = "tokenizer" if to == "huggingface" else "target"
    decode, written = {"tokenizer": "batch_decode", "target": "decode"}[decoder], list[Any]()
    real = getattr(names[decoder], decode)
    monkeypatch.setattr(
        names[decoder], decode, lambda found, **options: written.append(found) or real(found, **options)
    )
    for line in (LINES[2], " ".join(LINES[:12])):  # limited by the source's length, and by the positions
        read = min(len(endless.vocabulary.source.encode([line])[0]) + 1, most)
        assert "\u2047" not in names["translate"](line)
        length = written[-1].shape[1] - 2 if to == "huggingface" else len(written[-1])
        assert 0 <= min(read + 50, most - 1) - length <= 1  # one library counts the end


@pytest.mark.parametrize("to", PROGRAMS)
def test_the_program_translates_sentences_and_placeholders_as_dragoman_does(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = small_model(symbols=True)
    names = load_card(write_export(loaded, to, tmp_path / to), monkeypatch)
    translate = names["translate"]
    expected = Translator(loaded).translate(LINES[:8], SearchConfig(beam=1 if to == "onnx" else 4))
    assert [translate(line) for line in LINES[:8]] == [found.text for found in expected]
    sentences = ["The dog.", "The cat.", "The cat"]  # of one length, which is the limit of a batch
    assert translate("  ".join(sentences)) == " ".join(map(translate, sentences))
    masked = []
    names["mask"] = lambda line: masked.append(placeholders.mask(line)) or masked[-1]
    names["restore"] = lambda text, kept: ("+".join(kept), [])
    assert translate("The {a} sees %s. The dog.") == "{a}+%s "
    assert {line for line, _ in masked} == {"The ⟦1⟧ sees ⟦2⟧.", "The dog."}


@pytest.mark.parametrize("to", [PROGRAMS[0], PROGRAMS[2]])
def test_the_program_of_an_imported_model_numbers_subwords_by_its_list(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines can begin with a tag."""
    pytest.importorskip("transformers", reason="needs transformers")
    from tests.marian_folders import TAG, opus

    imported = read_marian(opus(tmp_path / "opus")).loaded
    names, source = load_card(write_export(imported, to, tmp_path / to), monkeypatch), imported.vocabulary.source
    model = {"ctranslate2": "translator", "onnx": "encoder"}[to]
    names[model] = Watched(names[model])
    for line in (f"{TAG} {LINES[4]}", f">> {LINES[4]}", f">>deu<< {LINES[4]}", f">>{LINES[4]}<< a"):
        names["translate"](line)
        given, _ = names[model].calls[-1]
        cut = given[0][0] if to == "ctranslate2" else [names["read"][i] for i in given[1]["input_ids"][0][:-1]]
        expected = source.pieces(source.encode([line])[0])
        assert [piece if piece in source.listed else "<unk>" for piece in cut] == expected
    line = f"{TAG} {LINES[4]}"
    (whole,) = Translator(imported).translate([line], SearchConfig(beam={"ctranslate2": 4, "onnx": 1}[to]))
    assert names["translate"](line) == whole.text


def test_the_program_is_compared_with_dragoman(tmp_path: Path) -> None:
    loaded = small_model()
    out = write_export(loaded, "ctranslate2", tmp_path / "out")
    readme = (out / "README.md").read_text()
    assert compare_program(readme, out, loaded, LINES[:8]).endswith("prints for 8 of 8 of them.")
    wrong = readme.replace("target.decode(best(result))", "target.decode(best(result)) + '!'")
    assert compare_program(wrong, out, loaded, LINES[:8]).endswith("prints for 0 of 8 of them.")
    with pytest.raises(DragomanError, match=r"the program of the card fails \(NameError: name 'best' is not defined\)"):
        compare_program(readme.replace("def best", "def worst"), out, loaded, LINES[:8])
