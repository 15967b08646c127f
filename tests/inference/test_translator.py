from __future__ import annotations

import multiprocessing
import os
import sys
import time
from itertools import product
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.config import BOS, EOS, ConfigError, DragomanError, ModelConfig, SearchConfig, TextConfig
from dragoman.inference.alignment import NO_WORD, Unit, align, words_of
from dragoman.inference.engine import Engine
from dragoman.inference.search import Hypothesis
from dragoman.inference.translation import PairScore, Translation
from dragoman.inference.translator import Translator
from dragoman.model.attention import AttentionMaps
from dragoman.model.masks import causal_mask
from dragoman.model.transformer import Transformer
from dragoman.text.subword import ListedModel, Vocabulary

WORDS = "the a cat dog house green old sees eats under over likes bird quickly never".split()  # noqa: SIM905
LINES = [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 2 + i % 9)) for i in range(40)]
BLOCKS = [("encoder", "self_attention"), ("decoder", "self_attention"), ("decoder", "cross_attention")]


def build(joint: bool = True, norm: str = "post", max_length: int = 64) -> Translator:
    """A translator with random weights, sharp enough to prefer some words."""
    torch.manual_seed(3)
    kind = "joint" if joint else "separate"
    vocabulary = Vocabulary.learn((LINES, [line[::-1] for line in LINES]), TextConfig(vocab_size=310, vocabulary=kind))
    config = ModelConfig(
        d_model=32,
        d_ff=64,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        share_embeddings=joint,
        norm=norm,  # type: ignore[arg-type]
        max_length=max_length,
        source_vocab_size=len(vocabulary.source),
        target_vocab_size=len(vocabulary.target),
    )
    model = Transformer(config)
    with torch.no_grad():
        model.softmax.weight.mul_(3.0)
    return Translator(ModelFolder(model.eval(), vocabulary, Direction("en", "ne")))


def test_lines_come_back_in_order_whatever_the_batches() -> None:
    translator = build()
    one_by_one = [translator.translate([line])[0] for line in LINES]
    for batch_tokens in (1, 100, 10_000):
        together = translator.translate(LINES, SearchConfig(batch_tokens=batch_tokens))
        assert [t.subwords for t in together] == [t.subwords for t in one_by_one]
        assert [t.score for t in together] == pytest.approx([t.score for t in one_by_one], abs=1e-4)


def test_empty_lines_stay_empty_and_in_place() -> None:
    translator = build()
    translations = translator.translate(["", LINES[3], "   ", LINES[4], ""])
    assert [t.text == "" for t in translations] == [True, False, True, False, True]
    assert translations[1].subwords == translator.translate([LINES[3]])[0].subwords
    assert translator.translate([]) == []


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_score_of_a_translation_is_the_score_that_translate_gave(joint: bool, norm: str) -> None:
    translator = build(joint, norm)
    config = SearchConfig(beam=4, n_best=4)
    for line in LINES[:10]:
        (best,) = translator.translate([line], config)
        source = [*translator.vocabulary.source.encode([line])[0], EOS]
        for candidate in (best, *best.alternatives):
            # By ids: a random model's text would be cut into other subwords than the search found.
            (log_prob,) = translator.engine.score([source], [[*candidate.subwords, EOS]])
            assert log_prob == pytest.approx(candidate.log_prob, abs=1e-3)
            scored = PairScore(log_prob, len(candidate.subwords) + 1)
            assert scored.score(config.length_penalty) == pytest.approx(candidate.score, abs=1e-3)


def test_probabilities_of_all_short_targets_sum_to_at_most_one() -> None:
    translator = build()
    pieces = [translator.vocabulary.target.pieces([i])[0] for i in range(260, len(translator.vocabulary.target))]
    texts = {piece.replace("▁", "") for piece in pieces} - {""}
    scores = translator.score([(LINES[5], text) for text in sorted(texts)])
    total = sum(torch.tensor([s.log_prob for s in scores]).exp().tolist())
    assert 0.0 < total <= 1.0 + 1e-5


def test_scores_do_not_depend_on_the_company() -> None:
    translator = build()
    pairs = list(zip(LINES, reversed(LINES), strict=True))
    alone = [translator.score([pair])[0].log_prob for pair in pairs]
    assert [s.log_prob for s in translator.score(pairs)] == pytest.approx(alone, abs=1e-3)


def test_n_best_are_different_and_ordered() -> None:
    (best,) = build().translate([LINES[7]], SearchConfig(beam=5, n_best=5))
    candidates = [best, *best.alternatives]
    assert len(candidates) == 5
    assert len({tuple(c.subwords) for c in candidates}) == 5
    assert [c.score for c in candidates] == sorted((c.score for c in candidates), reverse=True)


def test_a_line_longer_than_the_model_is_refused_and_named() -> None:
    translator = build(max_length=20)
    with pytest.raises(DragomanError, match=r"source line 2 has .* at most 20"):
        translator.translate(["cat", "cat dog " * 30], SearchConfig(long="error"))
    with pytest.raises(DragomanError, match=r"target line 1 has .* at most 20"):
        translator.score([("cat", "dog cat " * 30)])


def test_translations_never_outgrow_the_model() -> None:
    translator = build(max_length=20)
    translations = translator.translate(WORDS, SearchConfig(beam=2, max_length=500, min_length=15))
    assert all(15 <= len(t.subwords) <= 19 for t in translations)


def test_translating_leaves_a_model_in_training_as_it_was() -> None:
    translator = build()
    translator.model.train()
    first = translator.translate(LINES[:3])
    assert translator.model.training
    assert translator.translate(LINES[:3]) == first  # no dropout in between


def test_loaded_from_disk_it_translates_the_same(tmp_path: Path) -> None:
    translator = build()
    translator.folder.save(tmp_path)
    assert Translator.load(tmp_path).translate(LINES) == translator.translate(LINES)


def test_progress_counts_the_lines() -> None:
    done: list[int] = []
    build().translate([*LINES, ""], SearchConfig(batch_tokens=200), done.append)
    assert sum(done) == len(LINES)
    assert len(done) > 1


def forced(translator: Translator, sentence: str, target: list[int]) -> tuple[torch.Tensor, AttentionMaps]:
    """An explicit forward pass, unpadded: log-probabilities (T, V), and the maps (1, H, T, S)."""
    source = torch.tensor([[*translator.vocabulary.source.encode([sentence])[0], EOS]])
    maps: AttentionMaps = {}
    with torch.no_grad():
        logits = translator.model(source, torch.tensor([[BOS, *target]]), maps)
    return logits[0].log_softmax(dim=-1), maps


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_inspection_shows_what_a_forward_pass_computes(joint: bool, norm: str) -> None:
    translator, sentence = build(joint, norm), LINES[11]
    inspection = translator.inspect(sentence, SearchConfig(beam=3))
    (best,) = translator.translate([sentence], SearchConfig(beam=3, n_best=3))
    log_probs, maps = forced(translator, sentence, best.subwords)
    names = [f"{part}.{i}.{kind}" for i in (0, 1) for part, kind in BLOCKS]
    assert sorted(inspection.maps) == sorted(names) == sorted(maps)
    for name, weights in inspection.maps.items():
        assert weights.shape == maps[name].shape[1:]
        assert weights == pytest.approx(maps[name][0].numpy(), abs=1e-6)
        assert weights.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)
        if name.startswith("decoder") and name.endswith("self_attention"):
            future = ~causal_mask(weights.shape[1])[0, 0].numpy()
            assert (weights[:, future] == 0.0).all()
    target = [*best.subwords, EOS]
    probabilities = [float(row[token].exp()) for row, token in zip(log_probs, target, strict=True)]
    assert [step.probability for step in inspection.predictions] == pytest.approx(probabilities, abs=1e-6)
    assert inspection.log_prob == pytest.approx(best.log_prob, abs=1e-3)
    assert inspection.score == pytest.approx(best.score, abs=1e-3)
    assert (inspection.target, inspection.chosen) == (best.text, 0)
    # The alternatives are those of translate, and their scores are what scoring them gives.
    assert [c.text for c in inspection.candidates] == [best.text, *(a.text for a in best.alternatives)]
    for shown, found in zip(inspection.candidates, [best, *best.alternatives], strict=True):
        ids = [*translator.vocabulary.source.encode([sentence])[0], EOS]
        (log_prob,) = translator.engine.score([ids], [[*found.subwords, EOS]])
        assert shown.log_prob == pytest.approx(log_prob, abs=1e-3)


def test_any_translation_can_be_inspected() -> None:
    translator = build()
    wanted = "the old house"
    inspection = translator.inspect(LINES[4], translation=wanted)
    (score,) = translator.score([(LINES[4], wanted)])
    assert (inspection.target, inspection.chosen) == (wanted, -1)
    assert inspection.log_prob == pytest.approx(score.log_prob, abs=1e-4)
    assert inspection.score == pytest.approx(score.score(0.6), abs=1e-4)
    assert inspection.outputs == [
        *translator.vocabulary.target.pieces(translator.vocabulary.target.encode([wanted])[0]),
        "</s>",
    ]
    assert inspection.inputs[0] == "<s>"
    assert inspection.inputs[1:] == inspection.outputs[:-1]
    assert inspection.candidates == translator.inspect(LINES[4]).candidates  # the search is shown all the same
    assert translator.inspect(LINES[4], translation="").outputs == ["</s>"]


def test_a_translation_that_the_search_found_is_taken_as_it_found_it() -> None:
    translator = build()
    inspection = translator.inspect(LINES[4])
    for place, candidate in enumerate(inspection.candidates):
        first = [c.text for c in inspection.candidates].index(candidate.text)
        again = translator.inspect(LINES[4], translation=candidate.text)
        assert again.chosen == first <= place
        assert again.outputs == inspection.candidates[first].pieces
        assert again.score == pytest.approx(inspection.candidates[first].score, abs=1e-3)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_what_is_best_does_not_depend_on_how_many_are_asked_for(alpha: float) -> None:
    translator = build()
    for beam in (4, 8):
        one = translator.translate(LINES, SearchConfig(beam=beam, length_penalty=alpha))
        many = translator.translate(LINES, SearchConfig(beam=beam, length_penalty=alpha, n_best=beam))
        assert [t.subwords for t in one] == [t.subwords for t in many]


def test_what_cannot_be_inspected_is_refused() -> None:
    translator = build(max_length=20)
    for sentence in ("", "  "):
        with pytest.raises(DragomanError, match="empty"):
            translator.inspect(sentence)
    with pytest.raises(DragomanError, match=r"the translation has .* at most 20"):
        translator.inspect("cat", translation="dog cat " * 30)
    for layer in (-1, 3):
        with pytest.raises(ConfigError, match=r"alignment_layer.* 2 decoder layers"):
            translator.inspect("cat", layer=layer)
        with pytest.raises(ConfigError, match="alignment_layer"):
            translator.align(["cat"], translator.translate(["cat"]), layer=layer)


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
        words = [[*words_of(pieces, unit), NO_WORD] for pieces in (source, target)]
        assert alignment.links == align(maps[f"decoder.{layer - 1}.cross_attention"][0], words[0], words[1])
        expected = (source, target) if unit == "subwords" else (line.split(" "), None)
        assert alignment.source == expected[0]
        assert len(alignment.target) == max(words[1]) + 1
    inspected = translator.inspect(lines[3], layer=layer)
    assert translator.align(lines, translations, layer) == translator.align(lines, translations, layer, "words")
    if unit == "words":
        assert inspected.alignment == alignments[3].links
        assert inspected.alignment_layer == layer - 1


def test_a_minimum_beyond_the_usual_maximum_is_reached_and_one_beyond_the_model_refused() -> None:
    translator = build(max_length=30)
    for translation in translator.translate(WORDS[:3], SearchConfig(min_length=25, max_length=2)):
        assert 25 <= len(translation.subwords) <= 29
    with pytest.raises(ConfigError, match="min_length is 30, but the model writes at most 29"):
        translator.translate(["cat"], SearchConfig(min_length=30))


SENTENCES = [f"{line.capitalize()}{mark}" for line, mark in zip(LINES[:12], ".!?" * 4, strict=True)]


def with_facts(translator: Translator, target: str = "ne", **facts: object) -> Translator:
    direction = Direction("en", target, {name.replace("_", " "): value for name, value in facts.items()})
    return Translator(ModelFolder(translator.model, translator.vocabulary, direction))


def texts(translations: list[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def close(one: Translation, other: Translation) -> None:
    """The same but for what the company in a batch does to the last digits."""
    assert (one.text, one.subwords, one.parts) == (other.text, other.subwords, other.parts)
    assert one.score == pytest.approx(other.score, abs=1e-3)
    assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)


@pytest.mark.parametrize(("target", "separator"), [("ne", " "), ("zh-Hant", ""), ("ja", ""), ("zh-Latn", " ")])
@pytest.mark.parametrize("limit", [40, 64])
def test_a_long_line_is_translated_as_its_parts_are(target: str, separator: str, limit: int) -> None:
    translator = with_facts(build(), target, longest_training_side=limit)
    line = "  ".join(SENTENCES)
    (whole,) = translator.translate([line])
    assert "".join(part.source for part in whole.parts) == line
    alone = translator.translate([part.source.strip() for part in whole.parts])
    assert whole.text == separator.join(t.text for t in alone if t.text)
    assert whole.subwords == [subword for t in alone for subword in t.subwords]
    assert [part.subwords for part in whole.parts] == [t.subwords for t in alone]
    assert whole.score == pytest.approx(sum(t.score for t in alone), abs=1e-3)
    assert whole.log_prob == pytest.approx(sum(t.log_prob for t in alone), abs=1e-3)
    counts = [len(ids) + 1 for ids in translator.vocabulary.source.encode([part.source for part in whole.parts])]
    assert max(counts) <= limit


def test_long_and_short_lines_keep_their_order_and_short_ones_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = with_facts(build(), longest_training_side=30)
    lines = [LINES[3], " ".join(SENTENCES), "", LINES[8], " ".join(SENTENCES[::-1]), LINES[1]]
    together = translator.translate(lines)
    for line, translation in zip(lines, together, strict=True):
        close(translation, translator.translate([line])[0])
    short = [line for line in LINES if len(line) < 20]
    assert translator.translate(short) == build().translate(short)
    assert not any(t.parts or t.left_out for t in translator.translate(short))
    monkeypatch.setattr("dragoman.inference.translator._AT_ONCE", 3)
    for one, other in zip(together, translator.translate(lines), strict=True):
        close(one, other)


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
    vocabulary = Vocabulary(ListedModel(known.serialized, listed), plain.vocabulary.target)
    translator = Translator(ModelFolder(plain.model, vocabulary, plain.direction))
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


def test_truncating_leaves_out_the_end_and_says_how_much() -> None:
    translator = build(max_length=20)
    line = " ".join(LINES[8:16])
    config = SearchConfig(long="truncate", n_best=2)
    short, cut = translator.translate([LINES[1], line], config)
    prefix = line[: len(line) - cut.left_out]
    assert short.left_out == 0 < cut.left_out
    assert prefix.endswith(" ")
    sizes = [
        len(ids) + 1 for ids in translator.vocabulary.source.encode([prefix, prefix + line[len(prefix) :].split()[0]])
    ]
    assert sizes[0] <= 20 < sizes[1]  # not one word more would fit
    (expected,) = translator.translate([prefix], SearchConfig(n_best=2))
    assert [c.subwords for c in cut.candidates] == [c.subwords for c in expected.candidates]
    assert [c.left_out for c in cut.candidates] == [cut.left_out] * 2
    (alignment,) = translator.align([line], [cut])
    assert alignment == translator.align([prefix], [expected])[0]


def test_only_what_the_model_does_not_take_is_truncated_or_refused() -> None:
    translator = with_facts(build(max_length=64), longest_training_side=5)
    whole = build(max_length=64).translate([LINES[8]])
    for long in ("truncate", "error"):
        assert translator.translate([LINES[8]], SearchConfig(long=long)) == whole  # type: ignore[arg-type]


HUGE = "The cat sees a bird. " * 5_000_000  # 105 MB


def test_a_huge_line_is_refused_or_cut_off_at_once() -> None:
    translator = build()
    start = time.perf_counter()
    with pytest.raises(DragomanError, match=r"source line 2 has 105,000,000 characters, .* at most 64"):
        translator.translate(["cat", HUGE], SearchConfig(long="error"))
    with pytest.raises(DragomanError, match="source line 1 has 105,000,000 characters"):
        translator.score([(HUGE, "cat")])
    with pytest.raises(DragomanError, match="target line 1 has 105,000,000 characters"):
        translator.score([("cat", HUGE)])
    with pytest.raises(DragomanError, match=r"the sentence has 105,000,000 characters, .* one by one"):
        translator.inspect(HUGE)
    (translation,) = translator.translate([HUGE], SearchConfig(long="truncate"))
    assert HUGE[: len(HUGE) - translation.left_out].count(".") < 64
    first = next(translator._stretches([HUGE], SearchConfig(), 1))
    assert first.source == "The cat sees a bird. "
    assert time.perf_counter() - start < 30


def test_spaces_alone_do_not_make_a_line_long() -> None:
    translator = build()
    blank, apart, together = translator.translate([" " * 10_000_000, f"cat{' ' * 10_000_000}dog", "cat dog"])
    assert blank == Translation("")
    assert (apart.text, apart.subwords) == (together.text, together.subwords)
    assert apart.log_prob == pytest.approx(together.log_prob, abs=1e-4)
    assert translator.align([f"cat{' ' * 10_000_000}dog"], [apart]) == translator.align(["cat dog"], [together])


def test_marks_alone_and_characters_that_are_spelt_in_bytes_are_translated() -> None:
    translator = with_facts(build(), longest_training_side=6)
    lines = ["!!!", "…" * 40, "\u3000" * 30, "好" * 30, "\U0001f468\u200d\U0001f469" * 9]
    translations = translator.translate(lines)
    assert [bool(t.subwords) for t in translations][:2] == [True, True]
    for line, translation in zip(lines, translations, strict=True):
        assert "".join(part.source for part in translation.parts) in ("", line)


def test_a_character_that_the_model_does_not_take_is_named() -> None:
    with pytest.raises(DragomanError, match="source line 3 has 6 subwords, but the model takes at most 5"):
        build(max_length=5).translate(["a", "", "\U0001f468" * 3])


def test_where_memory_runs_out_fewer_lines_are_translated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = build()
    expected = translator.translate(LINES[:9])
    search, sizes = translator.engine.search, []

    def cramped(sources: list[list[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        sizes.append(len(sources))
        if len(sources) > room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
        return search(sources, config)

    monkeypatch.setattr(translator.engine, "search", cramped)
    room = 2
    for one, other in zip(translator.translate(LINES[:9]), expected, strict=True):
        close(one, other)
    assert max(sizes) > 2
    room = 0
    with pytest.raises(DragomanError, match=r"memory does not suffice .* --beam .*--batch-tokens"):
        translator.translate(LINES[:9])


def test_a_sentence_too_long_to_inspect_is_refused_with_the_cure() -> None:
    with pytest.raises(DragomanError, match=r"the sentence has .* at most 20 subwords: inspect its parts one by one"):
        build(max_length=20).inspect("cat dog " * 30)


needs_fork = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has workers")


def of_two(translator: Translator) -> Translator:
    """The same translator with two processes."""
    return Translator(translator.folder, workers=2)


@needs_fork
@pytest.mark.parametrize(
    "lines",
    [
        [],
        [""],
        [LINES[3]],
        ["", LINES[3], "", "  ", LINES[4], LINES[4], ""],
        [line for i in range(50) for line in [LINES[i % 40]] + [""] * (i % 3)],
    ],
    ids=["nothing", "an empty line", "one line", "lines between empty ones", "many lines"],
)
def test_several_workers_translate_as_one_does(lines: list[str]) -> None:
    translator = build()
    for config in (SearchConfig(), SearchConfig(beam=2, n_best=2, batch_tokens=150)):
        done: list[int] = []
        expected = translator.translate(lines, config)
        found = of_two(translator).translate(lines, config, done.append)
        assert texts(found) == texts(expected)
        for one, other in zip(found, expected, strict=True):
            assert [c.subwords for c in one.candidates] == [c.subwords for c in other.candidates]
            assert [c.score for c in one.candidates] == pytest.approx([c.score for c in other.candidates], abs=1e-4)
        assert sum(done) == sum(bool(line.strip()) for line in lines)
    end = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < end:
        time.sleep(0.02)
    assert multiprocessing.active_children() == []


@needs_fork
@pytest.mark.parametrize("workers", [1, 2])
def test_only_several_workers_are_other_processes(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    search, here = Engine.search, os.getpid()
    calls = []

    def somewhere(engine: Engine, sources: list[list[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        calls.append(os.getpid())
        if (os.getpid() == here) != (workers == 1):
            raise AssertionError("searched in the wrong process")
        return search(engine, sources, config)

    monkeypatch.setattr(Engine, "search", somewhere)
    assert len(Translator(build().folder, workers=workers).translate(LINES[:6])) == 6
    assert bool(calls) == (workers == 1)


def test_a_translator_may_be_made_and_used_in_inference_mode() -> None:
    expected = texts(build().translate(LINES[:3]))
    with torch.inference_mode():
        assert texts(build().translate(LINES[:3])) == expected


@needs_fork
def test_several_workers_translate_long_lines_and_score_and_align_as_one_does() -> None:
    translator = with_facts(build(), longest_training_side=30)
    lines = [LINES[3], " ".join(SENTENCES), "", LINES[8]]
    expected, found = translator.translate(lines), of_two(translator).translate(lines)
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert of_two(translator).align(lines, found) == translator.align(lines, expected)
    pairs = [(line, line) for line in LINES[:9]]
    scores = [score.log_prob for score in translator.score(pairs)]
    assert [score.log_prob for score in of_two(translator).score(pairs)] == pytest.approx(scores, abs=1e-4)


@needs_fork
def test_workers_see_weights_that_changed_after_the_translator_was_made() -> None:
    translator = of_two(build())
    before = translator.translate(LINES[:8])
    with torch.no_grad():
        for parameter in translator.model.decoder.parameters():
            parameter.mul_(-1.0)
    after = translator.translate(LINES[:8])
    assert texts(after) != texts(before)
    assert texts(after) == texts(Translator(translator.folder).translate(LINES[:8]))


@needs_fork
def test_errors_of_workers_are_those_of_one() -> None:
    translator = of_two(build(max_length=30))
    with pytest.raises(ConfigError, match="min_length is 30, but the model writes at most 29"):
        translator.translate(WORDS, SearchConfig(min_length=30))
    with torch.no_grad():
        translator.model.decoder.layers[0].feed_forward.inner.bias.fill_(float("nan"))  # type: ignore[union-attr,operator]
    with pytest.raises(DragomanError, match=r"no numbers \(NaN\)"):
        translator.translate(WORDS)


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
    with pytest.raises(TypeError):
        translator.score(["ab", "cd"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        translator.align(LINES[3], [Translation("a")])


def test_given_translations_are_aligned_like_found_ones() -> None:
    translator = build()
    line = LINES[5]
    (ids,) = translator.vocabulary.target.encode([line])
    expected = translator.align([line], [Translation(line, subwords=ids)])
    assert expected[0].links
    assert translator.align([line], [line]) == translator.align([line], [Translation(line)]) == expected


def test_loading_takes_what_the_command_line_takes(tmp_path: Path) -> None:
    build().folder.save(tmp_path / "model")
    translator = Translator.load(tmp_path / "model", device="auto", workers=2)
    assert (translator.engine.device.type, translator.workers) == ("cpu", 2)  # type: ignore[attr-defined]
    with pytest.raises(DragomanError, match="not available here"):
        Translator.load(tmp_path / "model", device="gpu")
    with pytest.raises(ConfigError, match="onnx"):
        Translator.load(tmp_path / "model", engine="onnx")  # type: ignore[arg-type]


def test_an_inspection_compares_scores_of_one_precision() -> None:
    translator = build()
    exact = translator.inspect(LINES[5])
    rounded = Translator(translator.folder, autocast=True).inspect(LINES[5], translation=exact.target)
    assert rounded.facts["search"]["precision"] == "bf16"
    assert rounded.chosen >= 0
    assert rounded.candidates[rounded.chosen].log_prob == pytest.approx(rounded.log_prob, abs=1e-5)
    assert rounded.candidates[rounded.chosen].score == pytest.approx(rounded.score, abs=1e-5)
    assert rounded != exact  # two records are told apart without a comparison of their arrays
