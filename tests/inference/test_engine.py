from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.config import BOS, EOS, PAD, UNK, DragomanError, ModelConfig, SearchConfig
from dragoman.inference.engine import Engine
from dragoman.inference.hypotheses import Hypothesis
from dragoman.inference.rules import MinLength, forbid_specials
from dragoman.inference.search import SearchState, log_sums, search
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.text.batches import pad_right

CPU = torch.device("cpu")


def small_model(max_length: int) -> Transformer:
    """A model of 20 subwords, with random weights."""
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return Transformer(ModelConfig(**sizes, max_length=max_length, source_vocab_size=20, target_vocab_size=20)).eval()


class Whole:
    """A search state that computes every prefix from its beginning."""

    def __init__(self, model: Transformer, source: Tensor) -> None:
        self.mask = padding_mask(source, PAD)
        self.memory = model.encode(source, self.mask)
        self.prefixes = torch.empty(len(source), 0, dtype=torch.long)

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        self.prefixes, self.memory, self.mask = (x[hypotheses] for x in (self.prefixes, self.memory, self.mask))


def search_uncached(model: Transformer, sources: list[list[int]], config: SearchConfig) -> list[list[Hypothesis]]:
    def step(last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        assert isinstance(state, Whole)
        state.prefixes = torch.cat((state.prefixes, last[:, None]), dim=1)
        logits = model.decode(state.prefixes, state.memory, state.mask)[:, -1]
        return logits, log_sums(logits)

    longest = model.config.max_length - 1
    limits = [min(len(ids) + config.max_length, longest) for ids in sources]
    state = Whole(model, torch.from_numpy(pad_right(sources, model.config.max_length)))
    return search(step, state, limits, config, [forbid_specials, MinLength(config.min_length)])


def opinionated(max_length: int = 24) -> Transformer:
    """Random weights that listen to their source and prefer some words: searches end after few steps or many."""
    torch.manual_seed(1)
    model = small_model(max_length)
    with torch.no_grad():
        model.softmax.weight.mul_(2.0)
        for layer in model.decoder.layers:
            layer.cross_attention.output.weight.mul_(6.0)
            layer.cross_attention.query.weight.mul_(4.0)
            layer.self_attention.output.weight.mul_(4.0)
        model.softmax.weight[EOS] += 0.3 * torch.randn(16)
    return model


@pytest.mark.parametrize("beam", [1, 4, 5])
@torch.no_grad()
def test_a_search_finds_what_one_without_a_cache_finds(beam: int) -> None:
    model = opinionated()
    generator = torch.Generator().manual_seed(beam)
    lengths = torch.randint(0, 12, (21,), generator=generator).tolist()
    sources = [[*torch.randint(4, 20, (length,), generator=generator).tolist(), EOS] for length in lengths]
    config = SearchConfig(beam=beam, n_best=beam)
    found = Engine(model, CPU, autocast=False).search(sources, config)
    steps = set()
    for ours, theirs in zip(found, search_uncached(model, sources, config), strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs], abs=1e-4)
        steps.add(len(ours[0].tokens))
    assert len(steps) > 3  # sentences left the batch at different times


@pytest.mark.parametrize("autocast", [False, True])
def test_a_search_in_bf16_is_about_as_good_as_one_in_fp32(autocast: bool) -> None:
    model, sources = opinionated(), [[*range(4, 5 + i), EOS] for i in range(12)]
    found = Engine(model, CPU, autocast).search(sources, SearchConfig())
    judge = Engine(model, CPU, autocast=False)
    scored = judge.score(sources, [[*hypotheses[0].tokens, EOS] for hypotheses in found])
    best = [hypotheses[0].log_prob for hypotheses in found]
    assert best == pytest.approx(scored, abs=0.3 if autocast else 1e-3)
    assert all(type(h.log_prob) is float for hypotheses in found for h in hypotheses)


def step_of(optimizer: type[torch.optim.Optimizer], **options: bool) -> Callable[[Transformer], None]:
    def change(model: Transformer) -> None:
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer(model.parameters(), lr=0.05, **options).step()  # type: ignore[call-arg]

    return change


def in_place(model: Transformer) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(torch.rand_like(parameter) + 0.5)


def in_inference_mode(model: Transformer) -> None:
    with torch.inference_mode():
        model.decoder.layers[0].feed_forward.outer.weight.mul_(-1.0)  # type: ignore[union-attr,operator]


def loaded_as_they_are(model: Transformer) -> None:
    model.load_state_dict({name: value * 1.3 - 0.1 for name, value in model.state_dict().items()}, assign=True)


CHANGES: dict[str, Callable[[Transformer], None]] = {
    "Adam, fused": step_of(torch.optim.Adam, fused=True),
    "Adam, foreach": step_of(torch.optim.Adam, foreach=True),
    "in place": in_place,
    "in inference mode": in_inference_mode,
    "load_state_dict, assign": loaded_as_they_are,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_search_uses_the_weights_as_they_are_now(change: Callable[[Transformer], None]) -> None:
    torch.manual_seed(2)
    model, sources = opinionated(), [[5, 6, 7, EOS], [8, EOS], [9, 4, EOS]]
    engine, config = Engine(model, CPU, autocast=False), SearchConfig(n_best=4)
    before = engine.search(sources, config)
    for _ in range(2):
        change(model)
        found = engine.search(sources, config)
        assert found == Engine(model, CPU, autocast=False).search(sources, config)
        assert found != before
        before = found


@pytest.mark.parametrize("max_length", [9, 10, 11, 12])
def test_a_sentence_may_be_as_long_as_the_model_takes(max_length: int) -> None:
    torch.manual_seed(1)
    engine = Engine(small_model(max_length), CPU, autocast=False)
    longest = [*range(5, 4 + max_length), EOS]
    assert len(longest) == max_length
    alone, together = engine.score([longest], [longest])[0], engine.score([[6, EOS], longest], [[7, EOS], longest])[1]
    assert together == pytest.approx(alone, abs=1e-4)
    assert all(len(hypothesis.tokens) < max_length for hypothesis in engine.search([longest], SearchConfig())[0])


@pytest.mark.parametrize("value", [float("nan"), 1e38])
def test_a_model_that_computes_no_numbers_is_an_error(value: float) -> None:
    model = Transformer(
        ModelConfig(
            d_model=8,
            d_ff=8,
            num_heads=2,
            num_encoder_layers=1,
            num_decoder_layers=1,
            source_vocab_size=20,
            target_vocab_size=20,
            max_length=16,
        )
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "feed_forward" in name:
                parameter.fill_(value)
    with pytest.raises(DragomanError, match="NaN"):
        Engine(model, CPU, False).search([[5, EOS], [6, 7, EOS]], SearchConfig(beam=2))


@torch.no_grad()
def test_an_ensemble_takes_the_token_with_the_greatest_mean_probability() -> None:
    models = [opinionated(), small_model(24), small_model(24)]
    sources = [[5, 6, 7, EOS], [8, 9, 4, 4, 11, EOS]]
    found = Engine(models[0], CPU, autocast=False, ensemble=models[1:]).search(sources, SearchConfig(beam=1))
    for source, (hypothesis,) in zip(sources, found, strict=True):
        written, log_prob = [BOS], 0.0
        while written[-1] != EOS:
            logits = [model(torch.tensor([source]), torch.tensor([written]))[0, -1] for model in models]
            mean = torch.stack([one.softmax(dim=0) for one in logits]).mean(dim=0)
            at_limit = len(written) == min(len(source) + SearchConfig().max_length, 23) + 1
            mean[[PAD, UNK, BOS]] = 0.0
            written.append(EOS if at_limit else int(mean.argmax()))
            log_prob += mean[written[-1]].log().item()
        assert hypothesis.tokens == written[1:-1]
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)


def test_attention_in_bf16_comes_as_float32() -> None:
    model, pairs = small_model(20), ([[5, 6, EOS]], [[7, 8, 9, EOS]])
    exact, rounded = (Engine(model, CPU, autocast).cross_attention(*pairs, 0)[0] for autocast in (False, True))
    assert rounded.dtype == exact.dtype == np.float32
    assert rounded == pytest.approx(exact, abs=0.02)
