"""Dropout: the right rate, the right scale, the same noise backward."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.model.dropout import Dropout, dropout

RATES = [0.01, 0.1, 0.3, 0.5, 0.9]


def noise(shape: tuple[int, ...], probability: float, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(seed)
    return dropout(torch.ones(shape, dtype=dtype), probability)


def calls(probability: float, count: int, size: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [dropout(torch.ones(size), probability) for _ in range(count)]


@pytest.mark.parametrize("probability", RATES)
def test_elements_are_dropped_with_the_given_probability(probability: float) -> None:
    count, size = 1000, 1000
    dropped = sum(int((noise == 0).sum()) for noise in calls(probability, count, size))
    rest = probability * 256 % 1  # how often a call drops the larger one of two multiples of 1/256
    sigma = math.sqrt(count * size * probability * (1 - probability) + count * rest * (1 - rest) * (size / 256) ** 2)
    assert abs(dropped - count * size * probability) < 4.5 * sigma


@pytest.mark.parametrize("probability", RATES)
def test_a_single_call_keeps_to_a_multiple_of_a_256th_beside_the_probability(probability: float) -> None:
    size = 400_000
    sigma = math.sqrt(probability * (1 - probability) / size)
    found = set()
    for noise in calls(probability, 20, size):
        dropped = (noise == 0).double().mean().item()
        found.add(
            min((math.floor(probability * 256), math.ceil(probability * 256)), key=lambda k: abs(k / 256 - dropped))
        )
        assert min(abs(k / 256 - dropped) for k in found) < 5 * sigma
    assert len(found) == (1 if probability * 256 % 1 == 0 else 2)


@pytest.mark.parametrize("probability", RATES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_kept_is_scaled_by_exactly_the_inverse_of_the_keep_rate(probability: float, dtype: torch.dtype) -> None:
    values = noise((10_000,), probability, dtype=dtype).unique()
    assert torch.equal(values, torch.tensor([0.0, 1 / (1 - probability)], dtype=dtype))


@pytest.mark.parametrize("probability", [0.1, 0.15, 0.3, 0.4])
def test_the_mean_is_preserved_in_bfloat16_though_the_scale_is_rounded(probability: float) -> None:
    torch.manual_seed(0)
    ones = torch.ones(10_000, dtype=torch.bfloat16)
    means = torch.stack([dropout(ones, probability).double().mean() for _ in range(1500)])
    error = means.std().item() / math.sqrt(len(means))
    assert abs(means.mean().item() - 1) < 4.5 * error < 1e-3  # the rounding of 1 / (1 - probability) is larger


def test_neighbours_are_dropped_independently_of_each_other() -> None:
    # Eight decisions come from one random word: each pair of them must be uncorrelated, also with the next word.
    kept = (noise((400_000,), 0.5) != 0).double() * 2 - 1
    for distance in (1, 2, 3, 4, 5, 7, 8, 9, 16):
        correlation = (kept[:-distance] * kept[distance:]).mean().item()
        assert abs(correlation) < 5 / math.sqrt(400_000)


def test_a_very_small_probability_is_met_by_the_calls_that_drop_anything() -> None:
    noises = calls(0.001, 2000, 1000)
    assert any(torch.equal(noise, torch.full_like(noise, 1 / 0.999)) for noise in noises)
    dropped = sum(int((noise == 0).sum()) for noise in noises)
    assert dropped == pytest.approx(2000, abs=700)


def test_the_same_seed_gives_the_same_noise_and_another_call_another() -> None:
    first = noise((1000,), 0.5, seed=7)
    second = dropout(torch.ones(1000), 0.5)  # goes on from there
    assert torch.equal(first, noise((1000,), 0.5, seed=7))
    assert not torch.equal(first, second)
    assert not torch.equal(first, noise((1000,), 0.5, seed=8))


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (5,), (7, 3), (2, 3, 5), (0, 4)])
def test_any_shape_will_do_also_with_sizes_not_divisible_by_four(shape: tuple[int, ...]) -> None:
    out = noise(shape, 0.5)
    assert out.shape == shape
    assert ((out == 0) | (out == 2)).all()


def test_the_gradient_meets_the_same_noise_as_the_value() -> None:
    torch.manual_seed(0)
    x = torch.randn(33, 5, requires_grad=True)
    out = dropout(x, 0.4)
    incoming = torch.randn(33, 5)
    out.backward(incoming)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, incoming * (out / x).detach())


def test_a_tensor_that_is_not_contiguous_is_dropped_in_place_of_its_elements() -> None:
    x = torch.arange(1.0, 61).reshape(5, 12).T[::2]
    torch.manual_seed(0)
    out = dropout(x, 0.5)
    assert ((out == 0) | (out == 2 * x)).all()
    assert 0 < (out == 0).sum() < x.numel()


def test_probability_zero_is_no_operation_and_uses_up_no_randomness() -> None:
    x = torch.randn(10)
    state = torch.get_rng_state()
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_layer_drops_in_training_and_does_nothing_in_evaluation() -> None:
    layer, x = Dropout(0.5), torch.randn(1000)
    assert torch.equal(layer.eval()(x), x)
    assert 400 < (layer.train()(x) == 0).sum() < 600
