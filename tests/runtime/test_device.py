"""Where to compute, and in which precision."""

import pytest
import torch

from dragoman.config import DragomanError
from dragoman.runtime import device as precision
from dragoman.runtime.device import choose_device, describe_device, describe_precision, use_bf16

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda"), torch.device("mps")


def pretend(monkeypatch: pytest.MonkeyPatch, *, cuda: bool, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


def pretend_products_take(monkeypatch: pytest.MonkeyPatch, *, bf16: float, fp32: float) -> None:
    monkeypatch.setattr(precision, "_product_seconds", {torch.bfloat16: bf16, torch.float32: fp32}.__getitem__)


@pytest.mark.parametrize(
    ("cuda", "mps", "kind"), [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_cuda_or_mps_or_the_cpu(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, kind: str) -> None:
    pretend(monkeypatch, cuda=cuda, mps=mps)
    assert choose_device("auto").type == kind


@pytest.mark.parametrize("name", ["nonsense", "", "cuda:no", "cuda:4711", "cpu:-3", "xla"])
def test_a_device_that_is_not_there_is_one_sentence_that_names_it_and_the_choices(name: str) -> None:
    with pytest.raises(DragomanError) as caught:
        choose_device(name)
    message = str(caught.value)
    assert repr(name) in message
    assert "auto, cpu, cuda, cuda:N or mps" in message
    assert "\n" not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # no traceback of PyTorch's behind it


@pytest.mark.parametrize("device", [CPU, CUDA, MPS])
def test_a_precision_asked_for_is_taken_on_any_device_without_asking_the_hardware(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    def refuse(*_: object) -> bool:
        raise AssertionError("asked the hardware")

    monkeypatch.setattr(precision, "_product_seconds", refuse)
    monkeypatch.setattr(torch.cuda, "get_device_capability", refuse)
    assert use_bf16("bf16", device) is True
    assert use_bf16("fp32", device) is False


@pytest.mark.parametrize(("bf16", "fp32", "taken"), [(1.0, 4.0, True), (4.0, 1.0, False), (0.95, 1.0, False)])
def test_auto_takes_bf16_on_a_cpu_that_multiplies_it_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, bf16: float, fp32: float, taken: bool
) -> None:
    pretend_products_take(monkeypatch, bf16=bf16, fp32=fp32)
    assert use_bf16("auto", CPU) is taken


@pytest.mark.parametrize("chosen", [True, False])
def test_auto_keeps_to_what_it_chose_before_on_such_a_device(monkeypatch: pytest.MonkeyPatch, chosen: bool) -> None:
    pretend_products_take(monkeypatch, bf16=4.0 if chosen else 1.0, fp32=1.0 if chosen else 4.0)
    assert use_bf16("auto", CPU, describe_precision(chosen, CPU)) is chosen
    assert use_bf16("auto", CPU, describe_precision(chosen, CUDA)) is not chosen
    assert use_bf16("bf16", CPU, describe_precision(False, CPU)) is True
    for strange in (None, 7, "bf17 on cpu", ["bf16 on cpu"]):
        assert use_bf16("auto", CPU, strange) is not chosen


@pytest.mark.parametrize(
    ("capability", "hip", "taken"),
    [((7, 5), None, False), ((8, 0), None, True), ((9, 0), None, True), ((7, 0), "6.2", True)],
)
def test_auto_takes_bf16_on_a_gpu_that_multiplies_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], hip: str | None, taken: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert use_bf16("auto", CUDA) is taken


def test_hardware_is_named_with_the_threads_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert describe_device(cpu).endswith(", 3 threads")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert describe_device(cpu).endswith(", 1 thread")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    assert describe_device(torch.device("cuda")) == "NVIDIA H200"
