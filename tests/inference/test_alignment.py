import torch

from dragoman.config import EOS, TextConfig
from dragoman.inference.alignment import NO_WORD, Alignment, align, align_sentences, alignment_layer, unit_of, words_of
from dragoman.text.subwords import Vocabulary


def test_a_word_begins_at_the_mark_and_takes_in_what_continues_it() -> None:
    assert words_of(["▁the", "▁dog", "house", "▁", "<0xE2>", "s"]) == [0, 1, 1, 2, 2, 2]
    assert words_of(["no", "mark", "▁b"]) == [0, 0, 1]
    assert words_of([]) == []
    assert words_of(["▁", "▁a", "▁", "▁", "b", "▁c"]) == [0, 0, 1, 1, 1, 2]
    assert words_of(["▁a", "▁", "▁"]) == [0, 0, 0]
    assert words_of(["▁"]) == [0]


def test_links_are_read_at_the_prediction_summed_over_the_source_and_averaged_over_the_target() -> None:
    # Source words: 0 = subwords 0 and 1, 1 = subword 2; </s> is subword 3. Target: word 0 = steps 0 and 1, word 1 = 2.
    source_words, target_words = [0, 0, 1, NO_WORD], [0, 0, 1, NO_WORD]
    rows = torch.tensor(
        [
            [0.1, 0.2, 0.5, 0.2],  # predicts the first subword: 0.3 for source word 0, 0.5 for word 1
            [0.3, 0.3, 0.1, 0.3],  # the second: 0.6, 0.1; together 0.9 against 0.6
            [0.2, 0.0, 0.3, 0.5],  # target word 1: 0.2 against 0.3; most goes to </s>, which is no word
            [0.9, 0.0, 0.0, 0.1],  # predicts </s>: says nothing
        ]
    )
    assert align(rows[None], source_words, target_words) == [(0, 0), (1, 1)]
    # The mean of the heads decides: another head that is surer the other way turns both links.
    other = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    assert align(torch.stack((rows, other)), source_words, target_words) == [(1, 0), (0, 1)]


def test_nothing_aligns_with_an_empty_sentence() -> None:
    assert align(torch.ones(1, 2, 1), [NO_WORD], [0, NO_WORD]) == []
    assert align(torch.ones(1, 1, 2) / 2, [0, NO_WORD], [NO_WORD]) == []
    assert align(torch.ones(1, 0), [0, NO_WORD], [NO_WORD]) == []  # what CTranslate2 gives for no subword


def test_padding_right_of_the_sentence_is_never_read() -> None:
    weights = torch.tensor([[[0.2, 0.3, 0.5, 9.0], [0.9, 0.1, 0.0, 9.0], [9.0, 9.0, 9.0, 9.0]]])
    assert align(weights, [0, 1, NO_WORD], [0, NO_WORD]) == [(1, 0)]


def test_pharaoh_writes_source_before_target() -> None:
    assert Alignment([(1, 0), (0, 1), (2, 1)], [], []).pharaoh() == "1-0 0-1 2-1"
    assert Alignment([], [], []).pharaoh() == ""


def test_languages_without_spaces_are_aligned_by_subwords() -> None:
    assert [unit_of(code) for code in ("zh", "zh-Hant", "ja_JP", "TH")] == ["subwords"] * 4
    assert [unit_of(code) for code in ("en", "de", "ar", "ko", "")] == ["words"] * 5


def test_the_recommended_layer_exists() -> None:
    assert [alignment_layer(layers) for layers in (1, 2, 3, 5, 6, 12)] == [0, 1, 2, 4, 4, 10]


def test_each_side_is_aligned_in_units_of_its_own() -> None:
    lines = [f"the cat number {i} runs" for i in range(50)]
    vocabulary = Vocabulary.learn((lines, lines), TextConfig(vocab_size=300))
    (ids,) = vocabulary.source.encode(["the cat"])
    weights = torch.eye(len(ids) + 1)[None]
    found = align_sentences(weights, [*ids, EOS], [*ids, EOS], vocabulary, ("words", "subwords"))
    pieces = vocabulary.target.pieces(ids)
    assert (found.source, found.target) == (["the", "cat"], pieces)
    assert found.links == [(word, place) for place, word in enumerate(words_of(pieces))]
