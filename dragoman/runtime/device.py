"""The device to compute on, and the precision."""

import platform
import re
import time
from pathlib import Path

import torch

from dragoman.config import DragomanError, Precision, require

_AMPERE = 8  # NVIDIA's first generation that multiplies in bf16; those before it emulate that slowly
_TIMED_PRODUCTS, _TIMED_SECONDS = 7, 0.2  # timing ends with whichever comes first


def choose_device(name: str) -> torch.device:
    """The device of this name; auto takes CUDA, then Apple's MPS, then the CPU."""
    known = re.fullmatch(r"auto|cpu|cuda(:\d+)?|mps(:0)?", name)
    require(known is not None, f"device must be auto, cpu, cuda, cuda:N or mps, not {name!r}")
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise DragomanError(f"device {name!r} is unavailable ({reason}): use auto, cpu, cuda, cuda:N or mps") from None
    return device


def use_bf16(precision: Precision, device: torch.device | str, before: object = None) -> bool:
    """Whether to compute matrix products in bf16; auto asks the hardware.

    before is what describe_precision returned when the run began. On the same kind of device auto keeps to it, because
    another measurement might choose differently.
    """
    if precision != "auto":
        return precision == "bf16"
    device = torch.device(device)
    for choice in (False, True):
        if before == describe_precision(choice, device):
            return choice
    if device.type == "cuda":
        return torch.version.hip is not None or torch.cuda.get_device_capability(device)[0] >= _AMPERE
    return device.type == "cpu" and _product_seconds(torch.bfloat16) < 0.67 * _product_seconds(torch.float32)


def describe_precision(bf16: bool, device: torch.device) -> str:
    """The precision and the kind of device: "bf16 on cpu"."""
    return f"{'bf16' if bf16 else 'fp32'} on {device.type}"


def describe_device(device: torch.device) -> str:
    """The name of the processor; of a CPU with the number of threads in use."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    threads = torch.get_num_threads()
    return processor() + (f", {threads} thread{'s' if threads > 1 else ''}" if device.type == "cpu" else "")


def processor() -> str:
    """The CPU's name."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(errors="replace").splitlines() if information.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _product_seconds(dtype: torch.dtype) -> float:
    """Shortest time of a few matrix products on this CPU, after one that compiles the kernel."""
    a, b = torch.ones(512, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)
    a @ b
    times: list[float] = []
    while not times or (len(times) < _TIMED_PRODUCTS and sum(times) < _TIMED_SECONDS):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)
