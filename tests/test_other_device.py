"""The device that stands in for a GPU notices what a GPU would refuse, and keeps what belongs together."""

import re
from collections.abc import Callable

import pytest
import torch

from dragoman.inference.translator import Translator
from dragoman.model import transformer
from dragoman.model.masks import causal_mask
from tests.other_device import DEVICE, Elsewhere, other_device
from tests.small_models import LINES, TARGETS, small_model


def test_a_mask_that_was_left_on_the_cpu_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "causal_mask", lambda length, offset, device: causal_mask(length, offset))
    pairs = list(zip(LINES[:3], TARGETS[:3], strict=True))
    Translator(small_model()).score(pairs)  # on the CPU nobody notices
    with other_device() as device, pytest.raises(RuntimeError, match=re.escape("tensors on cuda:0 and on cpu")):
        Translator(small_model(), device).score(pairs)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.cat((x, torch.ones(3))),
        lambda x: x[torch.tensor([0])],
        lambda x: x.masked_fill(torch.tensor([True, False, True]), 0.0),
        lambda x: torch.ones(3).add_(x),
        lambda x: x.numpy(),
    ],
    ids=["sum", "cat", "index", "mask", "in place", "numpy"],
)
def test_tensors_of_two_devices_do_not_mix(mistake: Callable[[torch.Tensor], object]) -> None:
    with other_device() as device, pytest.raises((RuntimeError, TypeError)):
        mistake(torch.zeros(3, device=device))


def test_tensors_come_and_go() -> None:
    there = torch.device("cuda:0")
    with other_device() as device:
        made = [torch.tensor([1, 2], device=device), torch.arange(1, 3, device=device), torch.tensor([1, 2]).to(device)]
        made += [torch.empty_like(made[0]).copy_(torch.tensor([1, 2]))]
        for x in made:
            assert isinstance(x, Elsewhere)
            assert x.device == there
            assert x.tolist() == [1, 2]
            assert x.cpu().device.type == "cpu"
            assert x[[1, 0]].tolist() == [2, 1]
        assert made[0].to(device).add_(1).tolist() == made[0].tolist() == [2, 3], "nothing to move, nothing copied"
        assert torch.tensor([1]).device.type == "cpu"


def test_parameters_stay_shared_and_learn_as_on_the_cpu() -> None:
    losses = []
    with other_device() as device:
        for place in (torch.device("cpu"), device):
            model = small_model().model.to(place)
            assert model.softmax.weight is model.target_embedding.weight is model.source_embedding.weight
            ids = torch.tensor([[5, 6, 7], [8, 9, 3]], device=place)
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            for _ in range(3):
                loss = model(ids, ids).log_softmax(-1)[..., 5].sum()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_autocast_computes_in_bf16() -> None:
    with other_device() as device:
        x, layer = torch.ones(2, 4, device=device), torch.nn.Linear(4, 4).to(device)
        with torch.autocast("cuda", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
            assert torch.nn.functional.layer_norm(layer(x), (4,)).dtype == torch.float32
        assert layer(x).dtype == torch.float32
    assert DEVICE.type == "cuda"
