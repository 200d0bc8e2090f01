"""Functions with gradients for PyTorch: two custom operators, of which one is the gradient of the other.

::

    rod_of = tiramisu_py.torch.function(tm.vjp(f))
    rod_of(u0, c, T=100).sum().backward()

Needs PyTorch: ``pip install 'tiramisu_py[interop]'``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from tiramisu_py.errors import ArgumentError, UnsupportedError
from tiramisu_py.function.framework_calls import Form, FrameworkCalls, symbolic_forms
from tiramisu_py.function.gradients import Gradients

__all__ = ["OperatorCalls", "function", "new_number", "registered", "symbolic_forms"]

#: Operators are registered for the whole process: each has a number.
_NUMBERS = count()


class OperatorCalls(Protocol):
    """Calls of an operator: arrays in the order of `inputs`, sizes by the names of `params`; see `FrameworkCalls`."""

    @property
    def name(self) -> str:
        """The name of what is called."""

    @property
    def inputs(self) -> Sequence[str]:
        """The arrays that the operator is given, in order."""

    @property
    def params(self) -> Sequence[str]:
        """The sizes that it is given, in order."""

    @property
    def outputs(self) -> Sequence[str]:
        """The arrays that the caller sees: the first ones of `made`."""

    @property
    def made(self) -> Sequence[str]:
        """The arrays that `forwards` returns: outputs, and what is saved for `backwards`."""

    @property
    def needed(self) -> Sequence[str]:
        """The inputs and arrays made that `backwards` takes."""

    @property
    def weights(self) -> Mapping[str, str]:
        """The outputs whose gradients `backwards` takes after these."""

    @property
    def wrt(self) -> Sequence[str]:
        """The inputs whose gradients `backwards` returns; none for what has none."""

    def forwards(self, arrays: Sequence[Any], params: Mapping[str, int], /) -> Sequence[Any]:
        """The arrays made."""

    def backwards(self, needed: Sequence[Any], weights: Sequence[Any], params: Mapping[str, int], /) -> Sequence[Any]:
        """The gradients."""

    def forms(self, params: Mapping[str, int], /) -> Sequence[Form]:
        """The forms of the arrays made."""

    def gradient_forms(self, params: Mapping[str, int], /) -> Sequence[Form]:
        """The forms of the gradients."""


def function(g: Gradients) -> Callable[..., Any]:
    """The function of some gradients, on tensors: in the order of the inputs, sizes that no shape tells by name.

    It returns the outputs as tensors of their own. The operator is made by `torch.library`, with gradients by the
    inputs `wrt`; saved tensors go through `save_for_backward`, so that PyTorch refuses one that is changed in between.
    Tensors are read where they are. Kernels are compiled when they are first called, with the commands that `g.forward`
    and `g.backward` have then. A second derivative is refused: use `tm.vjp` of `tm.grad`. Raises `UnsupportedError`
    without PyTorch, and `ArgumentError` for tensors on a GPU.
    """
    calls = FrameworkCalls(g)
    torch = _torch()
    operator = registered(calls, new_number())
    names = calls.params

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
    def numbers(shapes: Any, sizes: Any) -> list[int]:
        found = calls.sizes([*shapes], dict(sizes))
        return [found[name] for name in names]

    def called(*tensors: Any, **sizes: int) -> Any:
        for name, each in zip(calls.inputs, tensors, strict=False):
            if getattr(each, "device", None) is not None and each.device.type != "cpu":
                raise ArgumentError(f"{name} is on {each.device}, and {calls.name} runs on cores: give {name}.cpu()")
        given = [torch.as_tensor(each) for each in tensors]
        shapes = tuple(tuple(map(int, each.shape)) for each in given)
        made = operator(given, numbers(shapes, tuple(sizes.items())))[: len(calls.outputs)]
        return made[0] if len(made) == 1 else tuple(made)

    called.__name__ = called.__qualname__ = calls.name
    return called


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415 - PyTorch is needed by those alone who call this
    except ImportError:
        raise UnsupportedError("PyTorch is not installed", "pip install 'tiramisu_py[interop]'") from None
    return torch


def new_number() -> int:
    """A number that no operator of this process has yet."""
    return next(_NUMBERS)


def registered(calls: OperatorCalls, number: int) -> Any:
    """The operator forwards, whose gradient is the operator backwards; of calls without gradients, that alone.

    PyTorch knows it as ``torch.ops.tiramisu_py.{name}_{number}_forward``.
    """
    torch, names = _torch(), calls.params
    schema = "(Tensor[] tensors, SymInt[] sizes) -> Tensor[]"

    def params_of(sizes: Sequence[int]) -> dict[str, int]:
        return dict(zip(names, map(int, sizes), strict=True))

    def arrays(tensors: Sequence[Any]) -> list[Any]:
        return [each.detach().contiguous().numpy() for each in tensors]

    def tensors_of(made: Sequence[Any]) -> list[Any]:
        return [torch.from_numpy(each if each.flags.writeable else each.copy()) for each in made]

    def empty(like: Sequence[Any], forms: Sequence[Form]) -> list[Any]:
        types = {name: getattr(torch, name) for name in _TYPES}
        return [like[0].new_empty(shape, dtype=types[str(dtype)]) for shape, dtype in forms]

    @torch.library.custom_op(  # type: ignore[untyped-decorator, unused-ignore]
        f"tiramisu_py::{calls.name}_{number}_forward", mutates_args=(), schema=schema, device_types="cpu"
    )
    def forwards(tensors: Any, sizes: Any) -> Any:
        return tensors_of(calls.forwards(arrays(tensors), params_of(sizes)))

    @forwards.register_fake  # type: ignore[untyped-decorator, unused-ignore]
    def _(tensors: Any, sizes: Any) -> Any:
        return empty(tensors, calls.forms(params_of(sizes)))

    if not calls.wrt:
        return forwards

    @torch.library.custom_op(  # type: ignore[untyped-decorator, unused-ignore]
        f"tiramisu_py::{calls.name}_{number}_backward", mutates_args=(), schema=schema, device_types="cpu"
    )
    def backwards(tensors: Any, sizes: Any) -> Any:
        given, many = arrays(tensors), len(calls.needed)
        return tensors_of(calls.backwards(given[:many], given[many:], params_of(sizes)))

    @backwards.register_fake  # type: ignore[untyped-decorator, unused-ignore]
    def _(tensors: Any, sizes: Any) -> Any:
        return empty(tensors, calls.gradient_forms(params_of(sizes)))

    _let_differentiate(torch, calls, forwards, backwards)
    return forwards


def _let_differentiate(torch: Any, calls: OperatorCalls, forwards: Any, backwards: Any) -> None:
    """Tell PyTorch that the gradient of the operator `forwards` is the operator `backwards`, which has none."""

    def refused(ctx: Any, *gradients: Any) -> Any:
        raise UnsupportedError(
            f"the second derivative of {calls.name} through PyTorch",
            "differentiate twice before: tm.vjp(tm.grad(f)) is a function with derivatives of its own",
        )

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        tensors, sizes = inputs
        pool = {**dict(zip(calls.inputs, tensors, strict=True)), **dict(zip(calls.made, output, strict=True))}
        ctx.save_for_backward(*[pool[name] for name in calls.needed])
        ctx.sizes = sizes
        ctx.weights = [output[calls.made.index(name)].detach() for name in calls.weights]

    def back(ctx: Any, gradients: Any) -> Any:
        given = [gradients[calls.made.index(name)] for name in calls.weights]
        weights = [
            torch.zeros_like(like) if each is None else each for each, like in zip(given, ctx.weights, strict=True)
        ]
        found = dict(zip(calls.wrt, backwards([*ctx.saved_tensors, *weights], ctx.sizes), strict=True))
        return [found.get(name) for name in calls.inputs], None

    forwards.register_autograd(back, setup_context=setup)
    backwards.register_autograd(refused)


#: Types that both have.
_TYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip
