"""Functions with gradients for JAX: `custom_vjp` over callbacks to compiled kernels.

::

    rod_of = tiramisu_py.jax.function(tm.vjp(f))
    jax.grad(lambda c: rod_of(u0, c, T=100).sum())(c)

Needs JAX: ``pip install 'tiramisu_py[interop]'``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tiramisu_py.errors import UnsupportedError
from tiramisu_py.function.framework_calls import Form, FrameworkCalls
from tiramisu_py.function.gradients import Gradients

__all__ = ["function"]


def function(g: Gradients) -> Callable[..., Any]:
    """The function of some gradients, on arrays of JAX: in the order of the inputs, sizes that no shape tells by name.

    It returns the outputs, runs under `jax.jit`, and has gradients by the inputs `wrt`. The forward kernel returns what
    the backward one needs; each is compiled when it is first called, with the commands that `g.forward` and
    `g.backward` have then. A second derivative is refused: use `tm.vjp` of `tm.grad`. JAX converts arrays of 64 bits to
    32 unless ``jax_enable_x64`` is set. Raises `UnsupportedError` without JAX.
    """
    calls = FrameworkCalls(g)
    jax = _jax()

    @cache
    def of_sizes(sizes: tuple[tuple[str, int], ...]) -> Callable[..., Any]:
        return _function(jax, calls, dict(sizes))

    def called(*arrays: Any, **sizes: int) -> Any:
        found = of_sizes(tuple(sorted(sizes.items())))(*map(jax.numpy.asarray, arrays))
        return found[0] if len(found) == 1 else tuple(found)

    called.__name__ = called.__qualname__ = calls.name
    return called


def _jax() -> Any:
    try:
        import jax  # noqa: PLC0415 - JAX is needed by those alone who call this
    except ImportError:
        raise UnsupportedError("JAX is not installed", "pip install 'tiramisu_py[interop]'") from None
    return jax


def _function(jax: Any, calls: FrameworkCalls, sizes: dict[str, int]) -> Callable[..., Any]:
    """The function for some sizes, with its derivative."""

    def structures(forms: Sequence[Form]) -> list[Any]:
        return [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in forms]

    def forwards(arrays: Sequence[Any]) -> list[Any]:
        params = calls.sizes([each.shape for each in arrays], sizes)
        result = structures(calls.forms(params))
        made: list[Any] = jax.pure_callback(lambda *given: calls.forwards(given, params), result, *arrays)
        return made

    def backwards(needed: Sequence[Any], weights: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        params = calls.sizes([each.shape for each in arrays], sizes)
        count, result = len(needed), structures(calls.gradient_forms(params))
        made: list[Any] = jax.pure_callback(
            lambda *given: calls.backwards(given[:count], given[count:], params), result, *needed, *weights
        )
        return made

    def refused(primals: Any, tangents: Any) -> Any:
        raise UnsupportedError(
            f"the second derivative of {calls.name} through JAX",
            "differentiate twice before: tm.vjp(tm.grad(f)) is a function with derivatives of its own",
        )

    forwards_once, backwards_once = jax.custom_jvp(forwards), jax.custom_jvp(backwards)
    forwards_once.defjvp(refused)
    backwards_once.defjvp(refused)

    def whole(*arrays: Any) -> list[Any]:
        made: list[Any] = forwards_once(arrays)
        return made[: len(calls.outputs)]

    def ahead(*arrays: Any) -> tuple[list[Any], Any]:
        made = forwards_once(arrays)
        return made[: len(calls.outputs)], (arrays, dict(zip(calls.made, made, strict=True)))

    def back(residuals: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        arrays, made = residuals
        pool = {**dict(zip(calls.inputs, arrays, strict=True)), **made}
        weights = dict(zip(calls.outputs, cotangents, strict=True))
        found = backwards_once([pool[name] for name in calls.needed], [weights[name] for name in calls.weights], arrays)
        gradients = dict(zip(calls.g.wrt, found, strict=True))
        return tuple(gradients.get(name, _nothing(jax, of)) for name, of in zip(calls.inputs, arrays, strict=True))

    function: Callable[..., Any] = jax.custom_vjp(whole)
    function.defvjp(ahead, back)  # type: ignore[attr-defined]
    return function


def _nothing(jax: Any, of: Any) -> Any:
    """The gradient by an input for which none was asked: 0, and of an integer JAX's own word for none."""
    if np.issubdtype(of.dtype, np.floating) or of.dtype == jax.numpy.bfloat16:
        return jax.numpy.zeros(of.shape, of.dtype)
    return np.zeros(of.shape, jax.dtypes.float0)
