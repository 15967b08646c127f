"""Scores people can quote: sacreBLEU and chrF2 on raw, detokenised text, with their signatures (Post, 2018)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF

from dragoman.config import DragomanError

# What sacreBLEU must cut where words are not separated by spaces, and the module it needs for that.
_TOKENIZERS = {"zh": ("zh", None), "ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}


@dataclass(frozen=True)
class Scores:
    """Corpus scores, 0 to 100."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def bleu_tokenizer(language: str) -> str:
    """sacreBLEU's tokeniser for a target language: 13a, or one for Chinese, Japanese or Korean.

    Where the one for Japanese or Korean is not installed (`pip install 'dragoman[cjk]'`), single characters are
    compared instead; the signature says so.
    """
    name, module = _TOKENIZERS.get(language.lower().replace("_", "-").split("-")[0], ("13a", None))
    return name if module is None or importlib.util.find_spec(module) else "char"


def evaluate(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Scores:
    """Compare translations with references.

    Args:
        hypotheses: translations, raw text.
        references: one for each hypothesis, raw text.
        language: the target language code; chooses the tokeniser.

    Raises:
        DragomanError: there is nothing to compare, or not one reference for each hypothesis.
    """
    if not hypotheses or len(hypotheses) != len(references):
        raise DragomanError(f"can't score {len(hypotheses):,} translations against {len(references):,} references")
    bleu, chrf = BLEU(tokenize=bleu_tokenizer(language)), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    return Scores(bleu_score.score, str(bleu.get_signature()), chrf_score.score, str(chrf.get_signature()))
