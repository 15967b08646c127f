"""Lines of several sentences, and long ones: translated in parts, cut off or refused."""

from itertools import product

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.config import EOS, DragomanError, SearchConfig
from dragoman.inference.alignment import Unit
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.text.subwords import ListedModel, Vocabulary
from tests.inference.small_translators import LINES, SENTENCES, build, close, with_facts

WHOLE = SearchConfig(sentences="keep")


@pytest.mark.parametrize(("target", "spaced"), [("ne", True), ("zh-Hant", False), ("ja", False), ("zh-Latn", True)])
@pytest.mark.parametrize("limit", [12, 64])
def test_a_line_is_translated_as_its_sentences_and_their_parts_are(target: str, spaced: bool, limit: int) -> None:
    translator = with_facts(build(), target, longest_training_side=limit)
    line = "  ".join(SENTENCES)
    (whole,) = translator.translate([line])
    sources = [part.source for part in whole.parts]
    assert "".join(sources) == line
    alone = translator.translate([source.strip() for source in sources], WHOLE)
    gaps = [(source[len(source.rstrip()) :] or " ") if spaced else "" for source in sources]
    texts = [text for t, gap in zip(alone, gaps, strict=True) if t.text for text in (t.text, gap)]
    assert whole.text == "".join(texts[:-1])
    assert whole.subwords == [subword for t in alone for subword in t.subwords]
    assert [part.subwords for part in whole.parts] == [t.subwords for t in alone]
    assert whole.score == pytest.approx(sum(t.score for t in alone), abs=1e-3)
    assert whole.log_prob == pytest.approx(sum(t.log_prob for t in alone), abs=1e-3)
    counts = [len(ids) + 1 for ids in translator.vocabulary.source.encode([part.source for part in whole.parts])]
    assert max(counts) <= limit


def test_a_line_that_is_kept_is_one_sentence() -> None:
    translator = with_facts(build(), longest_training_side=64)
    line = " ".join(SENTENCES[:2])
    (whole,), (split,) = translator.translate([line], WHOLE), translator.translate([line])
    assert (whole.parts, [part.source for part in split.parts]) == ([], [f"{SENTENCES[0]} ", SENTENCES[1]])


def test_long_and_short_lines_keep_their_order_and_short_ones_stay_as_they_are() -> None:
    translator = with_facts(build(), longest_training_side=30)
    lines = [LINES[3], " ".join(SENTENCES), "", LINES[8], " ".join(SENTENCES[::-1]), LINES[1]]
    together = translator.translate(lines)
    for line, translation in zip(lines, together, strict=True):
        close(translation, translator.translate([line])[0])
    short = [line for line in LINES if len(line) < 20]
    assert translator.translate(short) == build().translate(short)
    assert not any(t.parts for t in translator.translate(short))


def test_a_line_is_long_when_it_is_longer_than_what_the_model_takes_or_has_seen() -> None:
    translator = build()
    assert translator.longest_source == 64
    (ids,) = translator.vocabulary.source.encode([LINES[8]])
    for longest, split in [(len(ids) + 1, False), (len(ids), True), (1000, False), ("many", False), (0, False)]:
        (translation,) = with_facts(translator, longest_training_side=longest).translate([LINES[8]])
        assert bool(translation.parts) == split
    assert with_facts(translator, longest_training_side=1000).longest_source == 64


def test_the_n_best_of_a_long_line_are_the_best_combinations() -> None:
    translator = with_facts(build(), longest_training_side=40)
    config = SearchConfig(beam=3, n_best=3)
    (whole,) = translator.translate([" ".join(SENTENCES[4:8])], config)
    alone = translator.translate([part.source.strip() for part in whole.parts], config)
    assert len(alone) >= 4
    everything = [
        (sum(c.score for c in choice), " ".join(c.text for c in choice if c.text))
        for choice in product(*(t.candidates for t in alone))
    ]
    best = sorted(everything, key=lambda found: -found[0])[:3]
    assert [c.score for c in whole.candidates] == pytest.approx([score for score, _ in best], abs=1e-3)
    assert whole.text == best[0][1]
    for candidate in whole.candidates:
        assert "".join(part.source for part in candidate.parts) == " ".join(SENTENCES[4:8])


@pytest.mark.parametrize("unit", ["words", "subwords"])
def test_links_of_a_long_line_are_its_parts_links(unit: Unit) -> None:
    translator = with_facts(build(), longest_training_side=40)
    line = " ".join(SENTENCES)
    (whole,) = translator.translate([line])
    first, alignment, last = translator.align(
        [LINES[2], line, LINES[3]],
        [*translator.translate([LINES[2]]), whole, *translator.translate([LINES[3]])],
        1,
        unit,
    )
    parts = [part.source.strip() for part in whole.parts]
    own = translator.align(parts, translator.translate(parts), 1, unit)
    expected, sources, targets = [], 0, 0
    for part in own:
        expected += [(s + sources, t + targets) for s, t in part.links]
        sources, targets = sources + len(part.source), targets + len(part.target)
    assert alignment.links == expected
    assert alignment.source == [word for part in own for word in part.source]
    assert alignment.target == [word for part in own for word in part.target]
    if unit == "words":
        assert alignment.source == line.split(" ")
    assert (first.source, last.source) == tuple(
        translator.align([text], translator.translate([text]), 1, unit)[0].source for text in (LINES[2], LINES[3])
    )


@pytest.mark.parametrize("unit", ["words", "subwords"])
def test_the_tag_of_a_long_line_counts_once(unit: Unit) -> None:
    plain = with_facts(build(joint=False), longest_training_side=40)
    known = plain.vocabulary.source
    listed = known.pieces(range(len(known)))
    listed[EOS + 1] = ">>fra<<"  # in place of a byte that no line has
    vocabulary = Vocabulary(ListedModel(known.serialized, listed=listed), plain.vocabulary.target)
    translator = Translator(ModelFolder(plain.torch_engine.model, vocabulary, plain.direction))
    line = " ".join(SENTENCES)
    (whole,) = translator.translate([f">>fra<< {line}"])
    assert len(whole.parts) > 2
    (alignment,) = translator.align([f">>fra<< {line}"], [whole], 1, unit)
    assert alignment.source[0] == ">>fra<<"
    assert [word for word in alignment.source[1:] if "fra" in word] == []
    if unit == "words":
        assert alignment.source == [">>fra<<", *line.split(" ")]
    assert {source for source, _ in alignment.links} <= set(range(len(alignment.source)))


def test_a_word_that_had_to_be_cut_is_one_word_of_the_alignment() -> None:
    translator = with_facts(build(), longest_training_side=10)
    line = "cat " + "catdog" * 20 + " dog"
    (translation,) = translator.translate([line])
    assert len(translation.parts) > 3
    (alignment,) = translator.align([line], [translation])
    assert alignment.source == line.split(" ")
    assert {source for source, _ in alignment.links} <= {0, 1, 2}
    assert {target for _, target in alignment.links} == set(range(len(alignment.target)))


def test_a_line_of_a_megabyte_is_split_or_refused() -> None:
    translator, huge = build(), "The cat sees a bird. " * 50_000
    with pytest.raises(DragomanError, match="target line 1 has"):
        translator.score([("cat", huge)])
    with pytest.raises(DragomanError, match=r"the sentence has .* at most 64"):
        inspect(translator, huge)
    for split in (True, False):
        parts = list(translator.source.segments([huge], 64, 1, split))
        assert {part.source.strip() for part in parts} == {"The cat sees a bird."}
