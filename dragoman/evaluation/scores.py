"""Scores people can quote: sacreBLEU and chrF on raw, detokenised text, with their signatures (Post, 2018).

A text of tokens is scored on them, in lower case, as multi-bleu.perl and fairseq do. Don't compare this with sacreBLEU.
"""

import importlib.util
import os
import re
from collections.abc import Sequence
from typing import Any, cast

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest, Result

from dragoman.config import DragomanError
from dragoman.text.languages import base_code, has_spaces

METRICS = {"bleu": "BLEU", "chrf": "chrF2", "chrfpp": "chrF2++", "tokenized_bleu": "BLEU of lowercased tokens"}
"""What each metric is called; "chrf++" is chrF with words of one and two (Popović, 2017)."""
# sacreBLEU's tokeniser for a language without spaces between words, and the module that it needs.
_TOKENIZERS = {"zh": ("zh", None), "ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}
_ATTACHED_MARK = re.compile(r"\w[.,!?;:](?:\s|$)")
_SPACED_MARK = re.compile(r"\S [.,](?: |$)")  # not the other marks: French puts a space before them
_BOOTSTRAP_SAMPLES = 1000


def bleu_tokenizer(language: str) -> str:
    """sacreBLEU's tokeniser for a target language code: 13a, or one for Chinese, Japanese or Korean.

    Other languages without spaces between words are compared by characters, as are Japanese and Korean if their
    tokeniser is not installed (`pip install 'dragoman[cjk]'`); the signature says so.
    """
    usual = "13a" if has_spaces(language) else "char"
    name, module = _TOKENIZERS.get(base_code(language), (usual, None))
    return name if module is None or importlib.util.find_spec(module) else "char"


def evaluate(hypotheses: Sequence[str], references: Sequence[str], language: str) -> dict[str, Any]:
    """Like all_scores, but only BLEU and chrF2: all that is needed while a model trains."""
    metrics = {"bleu": BLEU(tokenize=bleu_tokenizer(language), force=True), "chrf": CHRF()}
    return _corpus_scores(metrics, hypotheses, references)


def all_scores(
    hypotheses: Sequence[str], references: Sequence[str], language: str, tokenized: bool = False
) -> dict[str, Any]:
    """Every score to quote, 0 to 100, each followed by its signature: {"bleu": …, "bleu_signature": …, …}.

    Tokenised text is compared as it is. Raises DragomanError unless there is one reference for each hypothesis.
    """
    return _corpus_scores(_metrics(language, tokenized), hypotheses, references)


def _metrics(language: str, tokenized: bool) -> dict[str, Any]:
    # force silences sacreBLEU's warning about tokenised text.
    if tokenized:
        return {"tokenized_bleu": BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True)}
    return {"bleu": BLEU(tokenize=bleu_tokenizer(language), force=True), "chrf": CHRF(), "chrfpp": CHRF(word_order=2)}


def _corpus_scores(metrics: dict[str, Any], hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    if not hypotheses or len(hypotheses) != len(references):
        raise DragomanError(f"can't score {len(hypotheses):,} translations against {len(references):,} references")
    found: dict[str, Any] = {}
    for name, metric in metrics.items():
        found[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
        found[f"{name}_signature"] = str(metric.get_signature())
    return found


def looks_tokenized(lines: Sequence[str]) -> bool:
    """Whether most lines have a punctuation mark between spaces, as tokenisers leave them."""
    return sum(bool(_SPACED_MARK.search(line)) for line in lines) > len(lines) / 2


def looks_raw(lines: Sequence[str]) -> bool:
    """Whether most lines have a punctuation mark right after a word, as people write them."""
    return sum(bool(_ATTACHED_MARK.search(line)) for line in lines) > len(lines) / 2


def paired_bootstrap(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], language: str, tokenized: bool = False
) -> dict[str, dict[str, Any]]:
    """Compare two systems' translations of the same lines by sacreBLEU's paired bootstrap (Koehn, 2004).

    Returns:
        By metric: "p", the probability of a difference at least as large by chance; "interval", half the width of the
        95 % confidence interval of the system's score; and "resampling", sacreBLEU's signature.
    """
    if not re.fullmatch(r"\d+|none", seed := os.environ.get("SACREBLEU_SEED", "none"), re.IGNORECASE):
        raise DragomanError(f"SACREBLEU_SEED must be a whole number or none, not {seed!r}")
    named: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    metrics = _metrics(language, tokenized)
    test = PairedTest(named, metrics, [list(references)], test_type="bs", n_samples=_BOOTSTRAP_SAMPLES)
    signatures, results = test()
    found = {}
    for metric, name in zip(metrics, (name for name in results if name != "System"), strict=True):
        before, after = cast(list[Result], results[name])
        # sacreBLEU counts the samples that differ by more than the whole text: if nothing differs, none does.
        p = 1.0 if before.score == after.score or after.p_value is None else float(after.p_value)
        found[metric] = {"p": p, "interval": float(after.ci or 0.0), "resampling": str(signatures[name])}
    return found
