"""Scores: exactly sacreBLEU's, with signatures that say how they were computed."""

from __future__ import annotations

import importlib.util

import pytest
from sacrebleu.metrics import BLEU, CHRF

from dragoman.config import DragomanError
from dragoman.inference.evaluation import Scores, bleu_tokenizer, evaluate

REFERENCES = [
    "The cat sleeps on the roof of the house, doesn't it?",
    "A dog barks (loudly) at the mailman.",
    "We walked along the river until it was dark.",
]
HYPOTHESES = [
    "The cat sleeps on a roof of the house, does it not?",
    "A dog is barking (loudly) at the mailman.",
    "We walked along the river until it got dark.",
]
CHINESE = (["我们今天去公园。", "他喜欢喝绿茶。"], ["我们今天去了公园。", "他很喜欢喝绿茶。"])


def test_the_scores_are_those_of_sacrebleu_called_directly() -> None:
    scores = evaluate(HYPOTHESES, REFERENCES, "en")
    bleu, chrf = BLEU(), CHRF()
    assert scores.bleu == bleu.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == chrf.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert (scores.bleu_signature, scores.chrf_signature) == (str(bleu.get_signature()), str(chrf.get_signature()))
    assert 0 < scores.bleu < 100
    assert 0 < scores.chrf < 100


def test_chinese_is_scored_with_the_chinese_tokeniser() -> None:
    scores = evaluate(*CHINESE, "zh")
    assert scores.bleu == BLEU(tokenize="zh").corpus_score(CHINESE[0], [CHINESE[1]]).score
    assert scores.bleu != evaluate(*CHINESE, "en").bleu
    assert "tok:zh" in scores.bleu_signature


def test_the_signatures_name_what_a_reader_needs_to_repeat_the_score() -> None:
    scores = evaluate(HYPOTHESES, REFERENCES, "en")
    for part in ("nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp", "version:"):
        assert part in scores.bleu_signature
    for part in ("nrefs:1", "nc:6", "nw:0", "version:"):  # character 6-grams and no words: chrF2, not chrF++
        assert part in scores.chrf_signature


def test_the_right_translation_scores_100_and_nonsense_scores_less_than_a_near_miss() -> None:
    perfect, near = evaluate(REFERENCES, REFERENCES, "en"), evaluate(HYPOTHESES, REFERENCES, "en")
    nonsense = evaluate(["xyz"] * 3, REFERENCES, "en")
    assert perfect.bleu == pytest.approx(100)
    assert perfect.chrf == pytest.approx(100)
    assert perfect.bleu > near.bleu > nonsense.bleu
    assert perfect.chrf > near.chrf > nonsense.chrf


def test_text_is_scored_as_it_is_case_and_all() -> None:
    assert evaluate([line.lower() for line in REFERENCES], REFERENCES, "en").bleu < 99


def test_empty_translations_count_as_bad_not_as_missing() -> None:
    scores = evaluate(["", *REFERENCES[1:]], REFERENCES, "en")
    assert scores.bleu < evaluate(HYPOTHESES[:1] + REFERENCES[1:], REFERENCES, "en").bleu
    assert evaluate(["", "", ""], REFERENCES, "en") == Scores(0.0, scores.bleu_signature, 0.0, scores.chrf_signature)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("en", "13a"),
        ("de", "13a"),
        ("pt-BR", "13a"),
        ("pt_BR", "13a"),
        ("zh", "zh"),
        ("zh-TW", "zh"),
        ("zh_Hant", "zh"),
        ("ZH", "zh"),
        ("jam", "13a"),  # Jamaican Creole is not Japanese
        ("kok", "13a"),
    ],
)
def test_the_language_chooses_the_tokeniser(language: str, tokenizer: str) -> None:
    assert bleu_tokenizer(language) == tokenizer


CJK = [("ja", "MeCab", "ja-mecab", "東京へ行きました。"), ("ko-KR", "mecab_ko", "ko-mecab", "저는 서울에 갔습니다.")]


@pytest.mark.parametrize(("language", "module", "tokenizer", "sentence"), CJK)
def test_japanese_and_korean_are_cut_into_words_where_that_is_installed(
    language: str, module: str, tokenizer: str, sentence: str
) -> None:
    pytest.importorskip(module)
    assert bleu_tokenizer(language) == tokenizer
    scores = evaluate([sentence], [sentence], language)
    assert f"tok:{tokenizer}" in scores.bleu_signature
    assert scores.chrf == pytest.approx(100)


@pytest.mark.parametrize(("language", "module", "tokenizer", "sentence"), CJK)
def test_japanese_and_korean_are_compared_by_characters_where_it_is_not(
    language: str, module: str, tokenizer: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    scores = evaluate([sentence], [sentence], language)
    assert "tok:char" in scores.bleu_signature
    assert scores.bleu == pytest.approx(100)


@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], []), (["a"], ["b", "c"]), ([], ["a"])])
def test_each_translation_needs_one_reference(hypotheses: list[str], references: list[str]) -> None:
    with pytest.raises(DragomanError, match=f"{len(hypotheses)} translations .* {len(references)} references"):
        evaluate(hypotheses, references, "en")
