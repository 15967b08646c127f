"""Scores: exactly sacreBLEU's, with signatures that say how they were computed."""

import importlib.util
import math
import random
from collections import Counter

import pytest
from sacrebleu.metrics import BLEU, CHRF

from dragoman.config import DragomanError
from dragoman.evaluation.scores import (
    METRICS,
    all_scores,
    bleu_tokenizer,
    evaluate,
    looks_raw,
    looks_tokenized,
    paired_bootstrap,
)

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


def test_the_scores_are_those_of_sacrebleu_called_directly() -> None:
    scores = evaluate(HYPOTHESES, REFERENCES, "en")
    bleu, chrf = BLEU(), CHRF()
    assert scores["bleu"] == bleu.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores["chrf"] == chrf.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores["bleu_signature"] == str(bleu.get_signature())
    assert scores["chrf_signature"] == str(chrf.get_signature())
    assert 0 < scores["bleu"] < 100
    assert 0 < scores["chrf"] < 100


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("en", "13a"), ("pt-BR", "13a"), ("zh", "zh"), ("zh_Hant", "zh"), ("ZH", "zh"), ("cmn", "zh"), ("th", "char"),
        ("mya_Mymr", "char"), ("yue", "char"),
        ("jam", "13a"),  # Jamaican Creole is not Japanese
    ],
)  # fmt: skip
def test_the_language_chooses_the_tokeniser(language: str, tokenizer: str) -> None:
    assert bleu_tokenizer(language) == tokenizer


CJK = [
    ("ja", "MeCab", "ja-mecab", "東京へ行きました。"),
    ("jpn_Jpan", "MeCab", "ja-mecab", "東京へ行きました。"),
    ("ko-KR", "mecab_ko", "ko-mecab", "저는 서울에 갔습니다."),
]


@pytest.mark.parametrize(("language", "module", "tokenizer", "sentence"), CJK)
def test_japanese_and_korean_are_cut_into_words_where_that_is_installed(
    language: str, module: str, tokenizer: str, sentence: str
) -> None:
    pytest.importorskip(module)
    assert bleu_tokenizer(language) == tokenizer
    scores = evaluate([sentence], [sentence], language)
    assert f"tok:{tokenizer}" in scores["bleu_signature"]
    assert scores["chrf"] == pytest.approx(100)


@pytest.mark.parametrize(("language", "module", "tokenizer", "sentence"), CJK)
def test_japanese_and_korean_are_compared_by_characters_where_it_is_not(
    language: str, module: str, tokenizer: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    scores = evaluate([sentence], [sentence], language)
    assert "tok:char" in scores["bleu_signature"]
    assert scores["bleu"] == pytest.approx(100)


@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], []), (["a"], ["b", "c"]), ([], ["a"])])
def test_each_translation_needs_one_reference(hypotheses: list[str], references: list[str]) -> None:
    for score in (evaluate, all_scores):
        with pytest.raises(DragomanError, match=f"{len(hypotheses)} translations .* {len(references)} references"):
            score(hypotheses, references, "en")


# ---------------------------------------------------------------------------------------------- to quote


def test_all_scores_are_those_of_validation_and_chrf_with_words() -> None:
    found, known = all_scores(HYPOTHESES, REFERENCES, "en"), evaluate(HYPOTHESES, REFERENCES, "en")
    assert known.items() <= found.items()
    plus = CHRF(word_order=2)
    assert found["chrfpp"] == plus.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert "nw:2" in str(found["chrfpp_signature"])
    assert {name for name in found if not name.endswith("_signature")} < METRICS.keys()


def multi_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU as multi-bleu.perl -lc counts it: tokens between spaces, four orders, no smoothing."""
    matches, totals = [0] * 4, [0] * 4
    lengths = [sum(len(line.split()) for line in lines) for lines in (hypotheses, references)]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        ours, theirs = hypothesis.lower().split(), reference.lower().split()
        for n in range(4):
            counts = [Counter(zip(*(words[i:] for i in range(n + 1)), strict=False)) for words in (ours, theirs)]
            matches[n] += sum((counts[0] & counts[1]).values())
            totals[n] += sum(counts[0].values())
    if 0 in matches:
        return 0.0
    precision = sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / 4
    return 100 * math.exp(precision + min(0.0, 1 - lengths[1] / lengths[0]))


@pytest.mark.parametrize("seed", range(2))
def test_tokens_are_scored_as_multi_bleu_does(seed: int) -> None:
    choose = random.Random(seed)
    words = ["the", "The", "cat", "sleeps", ".", ",", "don", "'t", "&quot;", "1,000", "@-@", "été"]
    references = [" ".join(choose.choices(words, k=choose.randint(4, 15))) for _ in range(30)]
    hypotheses = [
        " ".join(w if choose.random() < 0.8 else choose.choice(words) for w in line.split() if choose.random() < 0.95)
        for line in references
    ]
    found = all_scores(hypotheses, references, "en", tokenized=True)
    assert found["tokenized_bleu"] == pytest.approx(multi_bleu(hypotheses, references), abs=1e-9)
    assert found["tokenized_bleu"] != pytest.approx(BLEU().corpus_score(hypotheses, [references]).score, abs=0.1)
    assert found.keys() == {"tokenized_bleu", "tokenized_bleu_signature"}  # nothing that could be taken for sacreBLEU
    assert "case:lc" in str(found["tokenized_bleu_signature"])
    assert "tok:none" in str(found["tokenized_bleu_signature"])


def test_tokenised_text_is_recognised() -> None:
    tokenized = ["A dog barks ( loudly ) .", "he said , no", "Who ?"]
    assert looks_tokenized(tokenized)
    assert not looks_tokenized(REFERENCES)
    assert not looks_tokenized(["Qui est là ?", "Bonjour.", "Salut.", "Oui, ça va."])  # a French question
    assert not looks_tokenized(["Qui est là ?", "Qui ?", "Attention !", "Voici : un chat ; un chien."])
    assert not looks_tokenized([])
    assert looks_raw(REFERENCES)
    assert not looks_raw(tokenized)
    assert not looks_raw([])
    assert not looks_raw(["a photo of 3.5 cats", "a dog"])  # neither


def worse(lines: list[str], share: float, seed: int) -> list[str]:
    choose = random.Random(seed)
    return [" ".join(w for w in line.split() if choose.random() > share) for line in lines]


def test_the_same_translations_do_not_differ_and_clearly_worse_ones_do() -> None:
    references = [f"{a} {b}" for a in HYPOTHESES for b in REFERENCES] * 5
    near, nearly, far = worse(references, 0.1, 1), worse(references, 0.1, 2), worse(references, 0.5, 3)
    assert all(one["p"] > 0.9 for one in paired_bootstrap(near, near, references, "en").values())
    assert all(one["p"] > 0.05 for one in paired_bootstrap(near, nearly, references, "en").values())
    found = paired_bootstrap(far, near, references, "en")
    assert found.keys() == {"bleu", "chrf", "chrfpp"}
    assert all(one["p"] < 0.002 for one in found.values())
    assert all(0 < one["interval"] < 20 for one in found.values())
