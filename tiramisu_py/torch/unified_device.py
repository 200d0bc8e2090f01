"""The device "unified" for PyTorch: ``t.to("unified")``, ``torch.ones(16, device="unified")``.

It uses PyTorch's experimental `_setup_privateuseone_for_python_backend`, for the name, and intercepts functions that
are given the device. This is the only module that depends on it.
"""

from __future__ import annotations

from typing import Any

from tiramisu_py.errors import ArgumentError, UnsupportedError
from tiramisu_py.torch.functions import _torch
from tiramisu_py.torch.unified_tensors import unified

NAME = "unified"


def register_unified_device(*, device: str = "gpu") -> None:
    """Let PyTorch know the device "unified", for the rest of the process.

    ::

        tiramisu_py.torch.register_unified_device()
        features = torch.load("features.pt").to("unified")
        ones = torch.ones(16, device="unified")

    Both make unified tensors, as `unified` does. `device` is "gpu" or "simulator". A second call changes nothing.
    Raises `ArgumentError` if another backend has PyTorch's place for one more device (PrivateUse1), `UnsupportedError`
    if this PyTorch has no such place for Python.
    """
    torch = _torch()
    taken = torch._C._get_privateuse1_backend_name()
    if taken == NAME:
        return
    if taken != "privateuseone":
        raise ArgumentError(
            f"PyTorch has one place for another device, and {taken!r} has it: use tiramisu_py.torch.unified(tensor)"
        )
    setup = getattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend", None)
    if setup is None:
        raise UnsupportedError(
            f"PyTorch {torch.__version__} has no _setup_privateuseone_for_python_backend any more, or not yet",
            "use tiramisu_py.torch.unified(tensor)",
        )
    setup(NAME)
    _mode(torch, device).__enter__()


def _mode(torch: Any, device: str) -> Any:
    """A mode that intercepts functions that are given the device."""

    class UnifiedDevice(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined, unused-ignore]
        """Functions on the device "unified" run on the CPU, and have unified results."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            positions = [k for k, each in enumerate(args) if _is_unified(torch, each)]
            moves = func is torch.Tensor.to and bool(positions)
            if not (_is_unified(torch, named.get("device")) or moves):
                return func(*args, **named)
            if "device" in named:
                named["device"] = "cpu"
            changed = ["cpu" if k in positions else each for k, each in enumerate(args)]
            return unified(func(*changed, **named), device=device)

    return UnifiedDevice()


def _is_unified(torch: Any, given: Any) -> bool:
    if isinstance(given, torch.device):
        return str(given.type) == NAME
    return isinstance(given, str) and given.split(":")[0] == NAME
