"""Derivatives of functions: backwards by `vjp` and `grad`, forwards by `jvp`. Each is a function like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.errors import CallError, DeclarationError
from tiramisu_py.function.function import Function
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.adjoints import Adjoints, with_adjoints
from tiramisu_py.rewriting.requested import requested, the_one_value
from tiramisu_py.rewriting.saved_values import TwoFunctions, divided
from tiramisu_py.rewriting.tangents import with_tangents


@dataclass(eq=False)
class Gradients:
    """The gradients of a function, as functions of their own.

    `step` returns the outputs of the function, and the gradients of a weighted sum of them: the weights of the output
    `y` are its input ``d_y``, the gradient of the input `x` is ``d_x``. `forward` and `backward` are the same in two:
    what the latter reads of the values in between, `saved`, the former returns. Each can be scheduled for itself.
    """

    original: Algorithm
    adjoints: Adjoints
    recompute: tuple[str, ...] = ()

    if not TYPE_CHECKING:

        def __call__(self, *arguments: object, **named: object) -> NoReturn:
            raise CallError(
                f"the gradients of {self.original.name} are functions: write kernel = g.step.compile(), then "
                "kernel(...); g.step.evaluate(...) computes its values without compiling"
            )

    @property
    def step(self) -> Function:
        """Values and gradients in one function."""
        return self._step

    @property
    def forward(self) -> Function:
        """The function itself, which also returns what is saved."""
        return self._forward

    @property
    def backward(self) -> Function:
        """The gradients, from the inputs, what is saved, and the weights of the outputs."""
        return self._backward

    @cached_property
    def _step(self) -> Function:
        made = replace(
            self.adjoints.algorithm,
            name=f"{self.original.name}_step",
            outputs=(*self.original.outputs, *self.adjoints.gradients),
        )
        return Function.of(made)

    @cached_property
    def _divided(self) -> TwoFunctions:
        return divided(self.original, self.adjoints, self.recompute)

    @cached_property
    def _forward(self) -> Function:
        return Function.of(self._divided.forward)

    @cached_property
    def _backward(self) -> Function:
        return Function.of(self._divided.backward)

    @property
    def saved(self) -> tuple[str, ...]:
        """The arrays that `forward` returns for `backward`, beyond the outputs of the function."""
        return self._divided.saved

    @property
    def wrt(self) -> tuple[str, ...]:
        """The inputs whose gradients these are."""
        return self.adjoints.wrt

    def __repr__(self) -> str:
        return f"<gradients of {self.original.name} by {', '.join(self.wrt)}>"


@own_call
def vjp(f: Function, wrt: Sequence[Any] | None = None, *, recompute: Sequence[Any] = ()) -> Gradients:
    """The gradients of the outputs of a function by its inputs `wrt`: the derivative, transposed, times a vector.

    ::

        y[i] = x[i - 1] * w[k]   -->   g.step:  y, and d_x[j] = d_y[j + 1] * w[k], ...

    `wrt` has handles or names; by default all floating-point inputs and scalars. For each output `y` the step has an
    input ``d_y`` of its shape; the gradients come after the outputs, in the order of `wrt`. Values that nothing reads
    have the gradient 0. Adjoints are computations that are named ``d_`` and the value (with a number, if that is
    taken), over its iterators. Values keep their names, so that the commands of `f` can be applied to the step.
    Computations named in `recompute` are computed again by `g.backward`, and not saved.

    Ties and kinks are as in PyTorch. Raises `DeclarationError`, naming what has no derivative.
    """
    original = _algorithm_of(f, "vjp")
    names = tuple(str(each) for each in recompute) if not isinstance(recompute, str) else recompute
    return Gradients(original, with_adjoints(original, requested(original, wrt)), names)  # type: ignore[arg-type]


@own_call
def grad(f: Function, wrt: Sequence[Any] | None = None) -> Function:
    """A function of one value with its gradient: it returns the value, and ``d_x`` for each input `x` of `wrt`.

    ::

        loss = sum of x[i] * x[i]   -->   loss, and d_x[i] = 2 * x[i]

    Raises `DeclarationError` for functions of several values, and for what has no derivative.
    """
    original = _algorithm_of(f, "grad")
    the_one_value(original)
    made = with_adjoints(original, requested(original, wrt), of_one=True)
    return Function.of(
        replace(made.algorithm, name=f"{original.name}_grad", outputs=(*original.outputs, *made.gradients))
    )


@own_call
def jvp(f: Function, wrt: Sequence[Any] | None = None) -> Function:
    """A function with its derivative in a direction: for each input `x` of `wrt` it has an input ``t_x`` of its shape.

    ::

        y[i] = x[i] * w[k]   -->   y, and t_y[i] = t_x[i] * w[k] + x[i] * t_w[k]

    It returns the outputs of `f`, and then their tangents. Raises `DeclarationError`, naming what has no derivative.
    """
    original = _algorithm_of(f, "jvp")
    made = with_tangents(original, requested(original, wrt))
    return Function.of(replace(made.algorithm, name=f"{original.name}_jvp"))


def _algorithm_of(f: Any, what: str) -> Algorithm:
    if not isinstance(f, Function):
        raise DeclarationError(f"tm.{what} takes a function of tiramisu_py, not {f!r}")
    f._refuse_in_group(f"tm.{what}({f.name})", DeclarationError)
    return f.program.algorithm.as_rewritten
