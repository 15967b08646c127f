import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.config import EOS, ConfigError, DragomanError, SearchConfig
from dragoman.inference.alignment import NO_WORD, Unit, align, words_of
from dragoman.inference.results import PairScore, Translation
from dragoman.inference.segmentation import LineEncoder
from dragoman.inference.translator import EngineName, Translator
from dragoman.inspection.evidence import inspect
from dragoman.text.subwords import ListedModel
from tests.inference.small_translators import LINES, SENTENCES, build, folder_of, forced, texts, with_facts
from tests.small_models import small_model


def test_lines_come_back_in_order_whatever_the_batches() -> None:
    translator = build()
    one_by_one = [translator.translate([line])[0] for line in LINES[:14]]
    for batch_tokens in (100, 10_000):
        together = translator.translate(LINES[:14], SearchConfig(batch_tokens=batch_tokens))
        assert [t.subwords for t in together] == [t.subwords for t in one_by_one]
        assert [t.score for t in together] == pytest.approx([t.score for t in one_by_one], abs=1e-4)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_score_of_a_translation_is_the_score_that_translate_gave(joint: bool, norm: str) -> None:
    translator = build(joint, norm)
    config = SearchConfig(beam=4, n_best=4)
    for line in LINES[:5]:
        (best,) = translator.translate([line], config)
        source = [*translator.vocabulary.source.encode([line])[0], EOS]
        for candidate in (best, *best.alternatives):
            # By ids: a random model's text would be cut into other subwords than the search found.
            (log_prob,) = translator.engine.score([source], [[*candidate.subwords, EOS]])
            assert log_prob == pytest.approx(candidate.log_prob, abs=1e-3)
            scored = PairScore(log_prob, len(candidate.subwords) + 1)
            assert scored.score(config.length_penalty) == pytest.approx(candidate.score, abs=1e-3)


def test_what_is_drawn_depends_on_the_seed_and_the_line_alone() -> None:
    translator = build()
    config = SearchConfig(beam=1, n_best=3, sampling=1.5, top_k=50, max_length=4, length_penalty=0.0)
    together = translator.translate(LINES, config)
    apart = translator.translate(LINES, replace(config, batch_tokens=100))
    one_by_one = [translator.translate([line], config, first_line=n)[0] for n, line in enumerate(LINES, start=1)]
    assert [texts(t.candidates) for t in apart] == [texts(t.candidates) for t in together]
    assert texts(one_by_one) == texts(together)
    assert texts(translator.translate(LINES, replace(config, sampling_seed=2))) != texts(together)
    assert len({candidate.text for t in together for candidate in t.candidates}) > len(LINES)
    for line, drawn in zip(LINES[:5], together, strict=False):
        source = [*translator.vocabulary.source.encode([line])[0], EOS]
        assert len(drawn.candidates) == 3
        for candidate in drawn.candidates:
            (log_prob,) = translator.engine.score([source], [[*candidate.subwords, EOS]])
            assert log_prob == pytest.approx(candidate.log_prob, abs=1e-3)


def test_a_given_translation_longer_than_the_model_is_refused_and_named() -> None:
    translator = build(max_length=20)
    with pytest.raises(DragomanError, match=r"target line 1 has .* at most 20"):
        translator.score([("cat", "dog cat " * 30)])


def test_translating_leaves_a_model_in_training_as_it_was() -> None:
    translator = build()
    translator.torch_engine.model.train()
    first = translator.translate(LINES[:3])
    assert translator.torch_engine.model.training
    assert translator.translate(LINES[:3]) == first  # no dropout in between


def test_loaded_from_disk_it_translates_the_same(tmp_path: Path) -> None:
    translator = build()
    folder_of(translator).save(tmp_path)
    assert Translator.load(tmp_path, engine="torch", precision="fp32").translate(LINES) == translator.translate(LINES)


def test_progress_counts_each_line_once_when_all_its_parts_are_translated() -> None:
    long = " ".join(SENTENCES)
    lines = [long, *LINES[:9], "", long]
    done: list[int] = []
    config = SearchConfig(beam=2, max_length=3, batch_tokens=300)
    with_facts(build(), longest_training_side=40).translate(lines, config, done.append)
    assert sum(done) == len(lines) - 1  # the empty one needs no translation
    assert len(done) > 1
    assert min(done) > 0


@pytest.mark.parametrize("unit", ["words", "subwords"])
@pytest.mark.parametrize("layer", [1, 2])
def test_alignments_are_read_from_the_layer_asked_for_whatever_the_batches(layer: int, unit: Unit) -> None:
    translator = build()
    lines = ["", *LINES[:12], " "]
    translations = translator.translate(lines)
    alignments = translator.align(lines, translations, layer, unit)
    assert alignments[0].links == alignments[-1].links == []
    for line, translation, alignment in zip(lines[1:-1], translations[1:-1], alignments[1:-1], strict=True):
        _, maps = forced(translator, line, translation.subwords)
        source = translator.vocabulary.source.pieces(translator.vocabulary.source.encode([line])[0])
        target = translator.vocabulary.target.pieces(translation.subwords)
        words = [[*(words_of(p) if unit == "words" else range(len(p))), NO_WORD] for p in (source, target)]
        assert alignment.links == align(maps[f"decoder.{layer - 1}.cross_attention"][0], words[0], words[1])
        expected = (source, target) if unit == "subwords" else (line.split(" "), None)
        assert alignment.source == expected[0]
        assert len(alignment.target) == max(words[1]) + 1
    inspected = inspect(translator, lines[3], layer=layer)
    assert translator.align(lines, translations, layer) == translator.align(lines, translations, layer, "words")
    if unit == "words":
        assert inspected.alignment == alignments[3].links
        assert inspected.alignment_layer == layer - 1


def test_marks_alone_and_characters_that_are_spelt_in_bytes_are_translated() -> None:
    translator = with_facts(build(), longest_training_side=6)
    lines = ["!!!", "…" * 40, "\u3000" * 30, "好" * 30, "\U0001f468\u200d\U0001f469" * 9]
    translations = translator.translate(lines)
    assert [bool(t.subwords) for t in translations][:2] == [True, True]
    for line, translation in zip(lines, translations, strict=True):
        assert "".join(part.source for part in translation.parts) in ("", line)


def test_a_character_that_the_model_does_not_take_is_named() -> None:
    with pytest.raises(DragomanError, match="source line 3 has 6 subwords, but the model takes at most 5"):
        build(max_length=5).translate(["a", "", "\U00013000" * 3])


def test_a_translator_may_be_made_and_used_in_inference_mode() -> None:
    expected = texts(build().translate(LINES[:3]))
    with torch.inference_mode():
        assert texts(build().translate(LINES[:3])) == expected


@pytest.mark.parametrize("blank", ["\t\t", "\u3000", "\xa0", "\u2003 \t"])
def test_nothing_is_made_up_for_a_line_of_space_of_any_kind(blank: str) -> None:
    translator = build()
    spaced, plain, nothing = translator.translate([blank + LINES[3] + blank, LINES[3], blank])
    assert (spaced.subwords, nothing.text) == (plain.subwords, "")
    (of_spaced, of_plain) = translator.align([blank + LINES[3], LINES[3]], [spaced, plain])
    assert of_spaced == of_plain


def test_a_line_in_place_of_a_list_is_refused() -> None:
    translator = build()
    with pytest.raises(TypeError):
        translator.translate(LINES[3])


def test_given_translations_are_aligned_like_found_ones() -> None:
    translator = build()
    line = LINES[5]
    (ids,) = translator.vocabulary.target.encode([line])
    expected = translator.align([line], [Translation(line, subwords=ids)])
    assert expected[0].links
    assert translator.align([line], [line]) == translator.align([line], [Translation(line)]) == expected


def test_loading_takes_what_the_command_line_takes(tmp_path: Path) -> None:
    folder_of(build()).save(tmp_path / "model")
    translator = Translator.load(tmp_path / "model", device="cpu", workers=1)
    assert translator.engine.computing.endswith("int8_float32 on cpu")
    with pytest.raises(DragomanError, match="device must be auto, cpu, cuda, cuda:N or mps"):
        Translator.load(tmp_path / "model", device="gpu")
    with pytest.raises(ConfigError, match="onnx"):
        Translator.load(tmp_path / "model", engine="onnx")  # type: ignore[arg-type]


def test_a_translator_is_imported_without_pytorch_training_and_the_corpus_check() -> None:
    code = "import sys, dragoman; dragoman.Translator; assert 'torch' not in sys.modules; "
    code += "print(*{m.split('.')[1] for m in sys.modules if 'dragoman.' in m})"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {module.split(".")[0] for module in found} <= {
        "config",
        "runtime",
        "text",
        "folder",
        "inference",
    }


@pytest.mark.parametrize(("beam", "engine"), [(1, "torch"), (4, "torch"), (1, "ctranslate2"), (4, "ctranslate2")])
def test_placeholders_come_through_whatever_the_model_writes(beam: int, engine: EngineName, tmp_path: Path) -> None:
    small_model(symbols=True).save(tmp_path)
    translator = Translator.load(tmp_path, "cpu", engine)
    lines = [
        "the {x} sees %s. <b>a dog</b> eats {x}.",
        LINES[3],
        "{x}",
        "",
        "a cat a@b.org https://x.org/?a=1 likes it",
    ]
    expected = [["{x}", "%s", "<b>", "</b>", "{x}"], [], ["{x}"], [], ["a@b.org https://x.org/?a=1"]]
    config = SearchConfig(beam=beam, batch_tokens=40)
    for found, placeholders in zip(translator.translate(lines, config), expected, strict=True):
        assert found.lost == []
        assert all(found.text.count(one) == placeholders.count(one) for one in placeholders)


def test_placeholders_of_given_translations_are_those_of_the_source() -> None:
    translator = Translator(small_model(symbols=True))
    source, target = "the {a} sees {b}", "{b} sees the {a}"
    (found,) = translator.align([source], [target])
    assert (found.source, found.target) == (source.split(), target.split())
    ids = translator.vocabulary.target.encode(["⟦2⟧ sees the ⟦1⟧"])[0]
    expected = translator.engine.score(
        [[*translator.vocabulary.source.encode(["the ⟦1⟧ sees ⟦2⟧"])[0], EOS]], [[*ids, EOS]]
    )
    assert translator.score([(source, target)])[0].log_prob == pytest.approx(expected[0])
    assert inspect(translator, source, translation=target).target == target


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_what_is_in_capitals_comes_out_in_capitals(engine: EngineName, tmp_path: Path) -> None:
    small_model(symbols=True).save(tmp_path)
    translator = Translator.load(tmp_path, "cpu", engine)
    config = SearchConfig(beam=2, n_best=2)
    found, expected = translator.translate(["THE OLD DOG SEES {name}", "The old dog sees {name}"], config)
    for one, small in zip(found.candidates, expected.candidates, strict=True):
        assert one.text == small.text.upper().replace("{NAME}", "{name}")
        assert (one.subwords, one.lost) == (small.subwords, [])
    capitals, small = (one.text for one in translator.translate(["THE OLD DOG.", "The cat sleeps."]))
    assert capitals.isupper()
    assert not small.isupper()
    assert translator.translate(["THE OLD DOG. The cat sleeps."])[0].text == f"{capitals} {small}"


@pytest.mark.parametrize("line", ["A", "THE OLD DOG eats", "THE OLD DOG 猫", "{NAME} 12", "⟦1⟧"])
def test_what_is_not_all_in_capitals_is_read_as_it_is(line: str) -> None:
    assert not Translator(small_model(symbols=True)).source.read(line)[2]


def test_a_tag_is_not_part_of_what_is_in_capitals() -> None:
    known = small_model().vocabulary.source
    listed = known.pieces(range(len(known)))
    listed[EOS + 1] = ">>fra<<"  # in place of a byte that no line has
    encoder = LineEncoder(ListedModel(known.serialized, listed=listed), 64, "en", is_source=True)
    for line in (">>fra<<THE OLD DOG", ">>fra<< THE OLD DOG "):
        assert encoder.read(line) == (">>fra<<The old dog", [], True)


def test_characters_that_a_model_has_not_learned_are_read_as_those_it_has() -> None:
    translator = Translator(small_model(symbols=True))
    typed, plain = "\ufeffthe\u00a0cat\u200b {it’s} ｓｅｅｓ", "the cat {it’s} sees"
    assert translator.translate([typed])[0].text == translator.translate([plain])[0].text
    assert translator.score([(typed, "tac")])[0] == translator.score([(plain, "tac")])[0]
    assert inspect(translator, typed).source_pieces == inspect(translator, plain).source_pieces


def test_alignment_and_inspection_of_a_line_in_capitals_are_those_of_the_words_that_the_model_reads() -> None:
    translator = Translator(small_model(symbols=True))
    lines = ["THE OLD DOG SEES {x}", "The old dog sees {x}"]
    translations = translator.translate(lines)
    found, expected = translator.align(lines, translations)
    assert found.links == expected.links
    for words, small in ((found.source, expected.source), (found.target, expected.target)):
        assert words == [word.upper().replace("{X}", "{x}") for word in small]
    assert inspect(translator, lines[0]).target == translations[0].text
    given = ["EHT DLO GOD {x}", "Eht dlo god {x}"]
    assert translator.score([(lines[0], given[0])]) == translator.score([(lines[1], given[1])])
    aligned = translator.align(lines, given)
    assert aligned[0].links == aligned[1].links
    capitals, small = (translator.complete(line, own[:9]).text for line, own in zip(lines, given, strict=True))
    assert capitals == small.upper().replace("{X}", "{x}")


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_translation_begins_letter_for_letter_as_it_must(engine: EngineName, tmp_path: Path) -> None:
    small_model(symbols=True).save(tmp_path)
    translator, config = Translator.load(tmp_path, "cpu", engine), SearchConfig(beam=2, n_best=2)
    line = "{x} sees a dog"
    free = translator.translate([line, LINES[5]], config)
    for beginning in ("zo", "{x} se", "tac ", "éü", "never ever", free[0].text, ""):
        for found in translator.complete(line, beginning, config).candidates:
            assert found.text.startswith(beginning)
            assert found.lost == []
    assert translator.complete(LINES[5], free[1].text[:5]).text == free[1].text
    forced = translator.translate([LINES[5], line, ""], config, beginnings=["", "zo", ""])
    assert [forced[0].text, forced[2].text] == [free[1].text, ""]
    assert forced[1].text == translator.complete(line, "zo", config).text


def test_a_beginning_longer_than_a_translation_may_be_is_refused() -> None:
    with pytest.raises(DragomanError, match=r"beginning 2 has more subwords .* 20"):
        build().translate(LINES[:2], SearchConfig(max_length=2), beginnings=["", "cat dog " * 4])


def test_an_ensemble_needs_the_same_subwords(tmp_path: Path) -> None:
    for name, model in (("one", small_model()), ("other", small_model(joint=False))):
        model.save(tmp_path / name)
    with pytest.raises(ConfigError, match="same subwords"):
        Translator.load(tmp_path / "one", ensemble=[tmp_path / "other"])
    alone, both = (Translator.load(tmp_path / "one", engine="torch", ensemble=e) for e in ([], [tmp_path / "one"]))
    assert texts(both.translate(LINES)) == texts(alone.translate(LINES))
    assert both.engine.computing.endswith(", 2 models")
