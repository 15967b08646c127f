"""The proof: its sentences; it passes when both sides agree, and any disagreement that no tie explains fails it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from dragoman.config import EOS, PAD, UNK, DragomanError, SearchConfig
from dragoman.inference.engine import Engine
from dragoman.interop import parity as parity_module
from dragoman.interop.parity import Array, Backend, Parity, Sample, _closest_call, choose_sample, prove, random_lines
from dragoman.text.subwords import SubwordModel
from tests.small_models import LINES, TARGETS, small_model

CPU = torch.device("cpu")
SAMPLE = Sample(LINES[:6], [line[::-1] for line in LINES[:6]], "lines")


class Mirror(Backend):
    """The same model once more, with something wrong if asked for."""

    name = "mirror"

    def __init__(self, noise: float = 0.0, tokens: int = 0, words: int = 0, tokenizer: bool = False) -> None:
        self.loaded = small_model()
        self.vocabulary = self.loaded.vocabulary
        self.engine = Engine(self.loaded.model, CPU, autocast=False)
        self.noise, self.tokens, self.words, self.tokenizer = noise, tokens, words, tokenizer

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        found = super().encode(lines)
        return [[5, *ids] if self.tokenizer and "cat" in line else ids for line, ids in zip(lines, found, strict=True)]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        found = super().decode(sentences)
        return [f"{text}s" if i < self.words else text for i, text in enumerate(found)]

    def search(self, sources: list[list[int]], beam: int, limits: list[int]) -> list[list[int]]:
        config = SearchConfig(beam=beam, length_penalty=0.0, max_length=limits[0] - len(sources[0]))
        found = [best[0].tokens for best in self.engine.search(sources, config)]
        return [[*tokens, 9] if i < self.tokens else tokens for i, tokens in enumerate(found)]

    def forced(self, source: list[int], target: list[int]) -> Array:
        return (self.engine.logits([source], [target])[0, : len(target)] + self.noise).numpy()  # type: ignore[no-any-return]


def compare(other: Mirror) -> Parity:
    return prove(small_model(), other, SAMPLE)


def test_a_model_agrees_with_itself() -> None:
    parity = compare(Mirror())
    assert parity.passed
    assert parity.identical == {"1": 6, "4": 6}
    assert parity.largest_difference < 1e-5
    assert all(here == there for here, there in parity.bleu.values())
    assert not parity.examples
    assert parity.lines()[-1].strip() == "passed"


def test_bytes_that_are_not_utf8_may_be_shown_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not compare(Mirror(words=6)).passed
    monkeypatch.setattr(SubwordModel, "decode", lambda self, sentences: ["a \ufffd" for _ in sentences])
    assert compare(Mirror(words=6)).passed


@pytest.mark.parametrize("wrong", [{"noise": 0.003}, {"noise": math.nan}, {"tokens": 1}, {"words": 1}], ids=str)
def test_any_disagreement_fails(wrong: dict[str, Any]) -> None:
    other = Mirror(**wrong)
    parity = compare(other)
    assert not parity.passed
    assert parity.lines()[-1].strip() == "FAILED"
    assert all(example["here"] != example["there"] for example in parity.examples)
    assert bool(parity.examples) == bool(other.tokens or other.words)


def test_spaces_at_the_ends_do_not_count() -> None:
    """MarianTokenizer takes away any that a translation begins or ends with."""
    loaded = small_model()
    target = SimpleNamespace(decode=lambda ids: [f"\u3000{t}\xa0\x85\t" for t in loaded.vocabulary.target.decode(ids)])
    vocabulary: Any = SimpleNamespace(source=loaded.vocabulary.source, target=target)
    assert prove(replace(loaded, vocabulary=vocabulary), Mirror(), SAMPLE).passed


def test_a_sentence_cut_otherwise_is_named() -> None:
    (line, *_) = (line for line in SAMPLE.sources if "cat" in line)
    with pytest.raises(DragomanError, match="tokenizers do not agree") as refusal:
        compare(Mirror(tokenizer=True))
    assert repr(line) in str(refusal.value)


def test_lines_that_spell_symbols_are_left_out_where_they_are_cut_otherwise() -> None:
    class Spelling(Mirror):
        def encode(self, lines: Sequence[str]) -> list[list[int]]:
            found = super().encode(lines)
            return [[UNK, EOS] if "<" in line else ids for line, ids in zip(lines, found, strict=True)]

    loaded, lines = small_model(), [*LINES[:5], "a <unk> cat", ">>fra<< a dog", "the end</s>"]
    parity = prove(loaded, Spelling(), Sample(lines, lines, "lines"))
    assert parity.passed
    assert (parity.sentences, parity.left_out) == (5, 3)
    assert "5 sentences (lines; without 3 that spell symbols such as <unk>)" in parity.lines()[0]
    with pytest.raises(DragomanError, match="--valid"):
        prove(loaded, Spelling(), Sample(lines[5:], None, "lines"))


def test_translations_without_an_end_say_nothing() -> None:
    class Endless(Mirror):
        def search(self, sources: list[list[int]], beam: int, limits: list[int]) -> list[list[int]]:
            return [[9] * (limit + 1) for limit in limits]

    parity = compare(Endless())
    assert not parity.passed, "only one side is without an end"
    other = Endless()
    loaded = small_model()
    with torch.no_grad():
        for model in (loaded.model, other.loaded.model):
            model.softmax.weight[EOS] = 0.0
            model.softmax.weight[10] = 100.0 * model.softmax.weight[10]
    parity = prove(loaded, other, SAMPLE)
    assert parity.endless == {"1": 6, "4": 6}
    assert parity.identical == {"1": 0, "4": 0}
    assert "6 more without an end" in " ".join(parity.lines())


def quantized(noise: float = 0.0, tokens: int = 0) -> Parity:
    """Against what the model has learnt, so that BLEU tells something."""
    other = Mirror(noise=noise, tokens=tokens)
    other.exact = False
    return prove(small_model(), other, Sample(LINES[:6], TARGETS[:6], "lines"))


def test_a_quantized_model_may_differ_but_not_lose_its_bleu() -> None:
    little, much = quantized(noise=4.5), quantized(noise=0.1, tokens=6)
    assert little.passed
    assert little.bleu["4"][0] > 10.0
    assert not much.passed
    assert much.identical["4"] == 0
    assert much.bleu["4"][0] - much.bleu["4"][1] > 2.0
    assert len(much.examples) == 3
    wrong = quantized(noise=5.5)
    assert wrong.identical == {"1": 6, "4": 6}
    assert not wrong.passed, "its numbers are wrong"


def test_a_closest_call_is_a_tie_where_two_subwords_are_equal() -> None:
    loaded = small_model()
    engine = Engine(loaded.model, CPU, autocast=False)
    source = [*loaded.vocabulary.source.encode([LINES[5]])[0], EOS]
    first = engine.search([source], SearchConfig(beam=1))[0][0].tokens[0]
    before = _closest_call(engine, source, 1).margin
    with torch.no_grad():
        twin = next(i for i in range(260, 300) if i != first)
        loaded.model.softmax.weight[twin] = loaded.model.softmax.weight[first]
    assert _closest_call(engine, source, 1).margin < 1e-6 < before


def test_what_is_never_written_is_no_candidate_but_told() -> None:
    loaded = small_model(softmax_bias=True)
    engine = Engine(loaded.model, CPU, autocast=False)
    source = [*loaded.vocabulary.source.encode([LINES[5]])[0], EOS]
    assert not _closest_call(engine, source, 1).kept_out
    with torch.no_grad():
        loaded.model.softmax.weight[UNK] = loaded.model.softmax.weight[PAD]
        loaded.model.softmax.bias[[UNK, PAD]] = 20.0
    watch = _closest_call(engine, source, 1)
    assert watch.kept_out
    assert watch.margin > 1e-6, "two that are never written tie with nobody"


def test_log_probabilities_are_compared_where_logits_are_not_told() -> None:
    class Quiet(Mirror):
        def forced(self, source: list[int], target: list[int]) -> Array:
            log_probs = torch.from_numpy(super().forced(source, target)).log_softmax(dim=1)
            return log_probs.gather(1, torch.tensor(target)[:, None])[:, 0].numpy()  # type: ignore[no-any-return]

    parity = compare(Quiet(noise=5.0))  # a constant does not change probabilities
    assert parity.logits == "log-probabilities"
    assert parity.passed
    assert np.isfinite(parity.largest_difference)


def counted(sentences: int, equal: int, **more: Any) -> Parity:
    nothing = {"1": 0}
    return Parity("x", sentences, "lines", "logits", 1e-5, {"1": equal}, nothing, nothing, nothing, **more)


@pytest.mark.parametrize(
    ("sentences", "wrong", "passed"), [(10, 1, False), (999, 1, False), (1000, 1, True), (1000, 2, False)]
)
def test_one_line_in_a_thousand_may_differ(sentences: int, wrong: int, passed: bool) -> None:
    assert counted(sentences, sentences - wrong).passes() is passed


@pytest.mark.parametrize(("margin", "passed"), [(0.0019, True), (0.0021, False)])
def test_two_thousandths_of_a_nat_are_a_tie(margin: float, passed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity_module, "_closest_call", lambda *_: SimpleNamespace(margin=margin, kept_out=False))
    assert compare(Mirror(tokens=1)).passed is passed


@pytest.mark.parametrize(("there", "passed"), [(28.1, True), (27.9, False), (32.1, False)])
def test_two_points_of_bleu_are_the_most_that_rounding_may_cost(there: float, passed: bool) -> None:
    assert counted(10, 9, bleu={"1": [30.0, there]}, exact=False).passes() is passed


@pytest.mark.parametrize("most", [2, 5, 15])
def test_random_lines_are_short_enough_for_the_model(most: int) -> None:
    vocabulary = small_model().vocabulary
    lines = random_lines(vocabulary, 20, most)
    assert lines
    assert lines == random_lines(vocabulary, 20, most)
    assert all(0 < len(ids) < most for ids in vocabulary.source.encode(lines))
    assert random_lines(vocabulary, 20, 1) == []


def test_the_text_is_the_one_that_is_named_or_that_of_the_run_or_random(tmp_path: Path) -> None:
    for language, lines in (("en", ["", " ".join(LINES), *LINES]), ("ne", ["x", "x", *LINES])):
        (tmp_path / f"valid.{language}").write_text("".join(f"{line}\n" for line in lines))
    loaded, run = small_model(), tmp_path / "run"
    run.mkdir()
    assert choose_sample(loaded, run, [], 4).name == "random subwords"
    settings = {"source": "en", "target": "ne", "valid": [str(tmp_path / "valid")]}
    (run / "train.yaml").write_text(yaml.safe_dump(settings))
    for texts in ([], [str(tmp_path / "valid")]):
        sample = choose_sample(loaded, run, texts, 4)
        assert sample.name == "valid", "the card tells no folder"
        assert sample.sources == sample.references == LINES[:4], "without empty lines and those that are too long"
    (tmp_path / "valid.en").write_text("\n")
    (tmp_path / "valid.ne").write_text("\n")
    with pytest.raises(DragomanError, match="no sentences that the model could translate"):
        choose_sample(loaded, run, [str(tmp_path / "valid")], 4)
