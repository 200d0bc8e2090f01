"""Gradients compared with differences of the function, for users who want to see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.function.function import Function
from tiramisu_py.function.gradients import Gradients
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass

Array = np.ndarray[Any, Any]

#: So many elements at most are moved one by one to find the worst one.
MOST_MOVED = 500


@dataclass(frozen=True)
class GradientCheck:
    """A comparison by `check_gradient`: for each input the largest relative error, and which element is worst."""

    errors: Mapping[str, float]
    tolerance: float
    worst: str = ""

    @property
    def ok(self) -> bool:
        """Whether no error is above the tolerance."""
        return all(error <= self.tolerance for error in self.errors.values())

    def __str__(self) -> str:
        lines = [f"{name}: relative error {error:.1e}" for name, error in self.errors.items()]
        if self.ok:
            return "\n".join(["gradients as differences say", *lines])
        return "\n".join([f"gradients differ from differences by more than {self.tolerance:.0e}", *lines, self.worst])

    __repr__ = __str__


@own_call
def check_gradient(g: Gradients, *given: Any, directions: int = 3, seed: int = 0, **named: Any) -> GradientCheck:
    """Compare gradients with differences of the function in random directions; of wrong ones it names an element.

    ::

        report = tm.check_gradient(tm.vjp(f), x=np.random.rand(9))
        assert report.ok, report

    The arguments are those of the function, in its order or by name. It is evaluated without any schedule, and so is
    the step. Take inputs of float64 at which the function is smooth: differences of float32 say little. Raises
    `ArgumentError`.
    """
    if not isinstance(g, Gradients):
        raise ArgumentError(f"tm.check_gradient takes what tm.vjp returns, not {g!r}")
    f, numbers = Function.of(g.original), np.random.default_rng(seed)
    inputs = [*f.algorithm.inputs]
    if len(given) > len(inputs):
        raise ArgumentError(f"{f.name} takes {', '.join(inputs)}: {len(given)} arguments are too many")
    arguments = {**dict(zip(inputs, given, strict=False)), **named}
    for name in g.wrt:
        if name not in arguments:
            raise ArgumentError(f"the argument {name} of {f.name} is missing: give all its inputs")
    arrays = f.algorithm.output_arrays
    base = dict(zip(arrays, _listed(f.evaluate(**arguments)), strict=True))
    weights = {output: _like(base[output], numbers) for output in g.adjoints.cotangents}
    named = {name: _argument(weights[output]) for output, name in g.adjoints.cotangents.items()}
    found = _listed(g.step.evaluate(**arguments, **named))[len(arrays) :]

    def value(moved: Mapping[str, Any]) -> float:
        outputs = dict(zip(arrays, _listed(f.evaluate(**{**arguments, **moved})), strict=True))
        return float(sum(np.sum(outputs[name] * weight, dtype=np.float64) for name, weight in weights.items()))

    compared = [_Compared(name, arguments[name], each, value) for name, each in zip(g.wrt, found, strict=True)]
    errors = {each.name: max(each.error_along(numbers) for _ in range(directions)) for each in compared}
    report = GradientCheck(errors, min(1e-6 if each.is_wide else 1e-2 for each in compared))
    if report.ok:
        return report
    worst = max(compared, key=lambda each: errors[each.name])
    return GradientCheck(errors, report.tolerance, worst.worst_element(numbers))


@dataclass(frozen=True, eq=False)
class _Compared:
    """The gradient of a function, `value`, by one input at one place."""

    name: str
    given: Any
    gradient: Array
    value: Callable[[Mapping[str, Any]], float]

    @property
    def is_wide(self) -> bool:
        return bool(self.gradient.dtype == np.float64)

    def error_along(self, numbers: np.random.Generator) -> float:
        """The relative error of the derivative in a random direction."""
        direction = _like(self.gradient, numbers)
        said = float(np.sum(direction * self.gradient, dtype=np.float64))
        size = float(np.sum(np.abs(direction * self.gradient), dtype=np.float64))
        return abs(self._difference(direction) - said) / max(size, 1.0)

    def worst_element(self, numbers: np.random.Generator) -> str:
        """The element whose derivative differs most from a difference, in words."""
        places = list(np.ndindex(self.gradient.shape))
        if len(places) > MOST_MOVED:
            places = [places[k] for k in sorted(numbers.choice(len(places), MOST_MOVED, replace=False))]
        worst, words = -1.0, ""
        for place in places:
            direction = np.zeros(self.gradient.shape)
            direction[place] = 1
            expected = self._difference(direction)
            said = float(self.gradient[place])
            if not abs(expected - said) <= worst:  # also where one is not a number
                worst = abs(expected - said)
                index = f"[{', '.join(map(str, place))}]" if place else ""
                words = f"worst: the gradient of {self.name}{index} is {said:.9g}, and differences give {expected:.9g}"
        return words

    def _difference(self, direction: Array) -> float:
        given = np.asarray(self.given)
        h = (6e-6 if self.is_wide else 5e-3) * max(1.0, float(np.max(np.abs(given), initial=0.0)))
        ends = [
            self.value({self.name: _argument((given + step * direction.reshape(given.shape)).astype(given.dtype))})
            for step in (h, -h)
        ]
        return (ends[0] - ends[1]) / (2 * h)


def _listed(result: Any) -> list[Array]:
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


def _like(array: Array, numbers: np.random.Generator) -> Array:
    return np.asarray(numbers.uniform(-1, 1, array.shape), array.dtype)


def _argument(array: Array) -> Any:
    """An array as an argument: one without dimensions is a scalar."""
    return array if array.shape else array.item()
