"""A GPU for machines that have none: its tensors say that they are on `cuda:0`, and compute on the CPU.

Inside `with other_device():` whatever is made on DEVICE or moved there becomes an Elsewhere, which holds a CPU tensor.
An operation that mixes those with tensors that stayed on the CPU fails. This is stricter than a GPU, which also takes
scalars and indices from the CPU, and waits for them. Autocast casts what it casts on CUDA. To Python an Elsewhere says
cuda:0, so that the package takes the branches that it takes there. To PyTorch's C++ code it says `meta`, which needs no
CUDA. Kernels, streams and memory of a GPU are not imitated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("cuda:0")
# What the package calls of that which autocast casts (pytorch.org/docs/stable/amp.html).
_IN_BF16 = (F.linear, F.scaled_dot_product_attention, Tensor.__matmul__)
_IN_FP32 = (F.layer_norm, Tensor.softmax)
_COPY, _TO_COPY = torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default


class Elsewhere(Tensor):
    """A tensor that is not on the CPU, as far as anybody can see."""

    held: Tensor
    device = property(lambda self: DEVICE)
    is_cuda = property(lambda self: True)

    @staticmethod
    def __new__(cls, held: Tensor) -> Elsewhere:
        strides, offset, meta = held.stride(), held.storage_offset(), torch.device("meta")
        self = Tensor._make_wrapper_subclass(cls, held.shape, strides, offset, dtype=held.dtype, device=meta)
        self.held = held
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return compute(func, args, kwargs or {})

    def tolist(self) -> Any:
        return self.held.tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.held.__reduce_ex__(protocol)  # type: ignore[no-untyped-call]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Elsewhere({self.held})"


class _Tensors:
    """What an operation is called with."""

    def __init__(self) -> None:
        self.there: dict[int, Elsewhere] = {}
        self.here: list[Tensor] = []
        self.devices: list[torch.device] = []

    def hold(self, x: Any) -> Any:
        """Note what x is; return what the CPU computes with."""
        if isinstance(x, Elsewhere):
            self.there[id(x.held)] = x
            return x.held
        if isinstance(x, Tensor):
            self.here.append(x)
        elif isinstance(x, torch.device):
            self.devices.append(x)
            return torch.device("cpu")
        return [self.hold(y) for y in x] if isinstance(x, (list, tuple)) else x

    def wrap(self, x: Any) -> Any:
        """Put a result on the device; what was changed in place stays the same object."""
        if isinstance(x, Tensor):
            return self.there[id(x)] if id(x) in self.there else Elsewhere(x)
        return type(x)(map(self.wrap, x)) if isinstance(x, (list, tuple)) else x


def compute(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operation of PyTorch on the held tensors, unless it mixes devices."""
    found = _Tensors()
    held, named = found.hold(args), {name: found.hold(value) for name, value in kwargs.items()}
    if found.there and found.here and func is not _COPY:
        stray = found.here[0]
        raise RuntimeError(f"{func}: tensors on {DEVICE} and on {stray.device}, where one of {[*stray.shape]} is")
    goes = found.devices[0].type != "cpu" if found.devices else bool(found.there)
    if func is _TO_COPY and found.there and goes and named.get("dtype") in (None, held[0].dtype):
        return Elsewhere(held[0])  # it is there already: C++ code, which reads meta, would copy it
    result = func(*held, **named)
    return found.wrap(result) if goes else result


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees what makes tensors and what moves them, whose arguments are no Elsewhere."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Sees what C++ does above the operations: tensors made from lists, and autocast."""

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device"):
            return torch.tensor(*args, **{**kwargs, "device": None}).to(kwargs["device"])
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], Elsewhere):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            index = tuple(torch.tensor(x).to(DEVICE) if isinstance(x, list) else x for x in index)
            return func(args[0], index, *args[2:])
        if torch.is_autocast_enabled("cuda") and func in (*_IN_BF16, *_IN_FP32):
            dtype = torch.bfloat16 if func in _IN_BF16 else torch.float32
            cast = partial(_cast, dtype)
            return func(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})
        return func(*args, **kwargs)


def _cast(dtype: torch.dtype, x: Any) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x


@contextmanager
def other_device() -> Iterator[torch.device]:
    """Have the device; it is DEVICE."""
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "_lazy_init", lambda: None)
        patch.setattr(torch.cuda, "synchronize", lambda device=None: None)
        patch.setattr(torch.cuda, "get_device_name", lambda device=None: "no GPU")
        patch.setattr(torch.cuda, "is_bf16_supported", lambda *arguments: True)
        patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        # A wrapped tensor can't be made in inference mode.
        patch.setattr(torch.inference_mode, "__enter__", torch.no_grad.__enter__)
        patch.setattr(torch.inference_mode, "__exit__", torch.no_grad.__exit__)
        torch.__future__.set_swap_module_params_on_conversion(True)  # or shared parameters would part
        try:
            with _Functions(), _Operations():  # type: ignore[no-untyped-call]
                yield DEVICE
        finally:
            torch.__future__.set_swap_module_params_on_conversion(swaps)
