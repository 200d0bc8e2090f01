"""A function with its gradients as a framework calls it: arrays in the order of the inputs, sizes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params, shape_value
from tiramisu_py.algorithm.evaluate.given_values import arrays_of, extents
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function.gradients import Gradients
from tiramisu_py.records import dataclass

#: The shape and the type of an array.
Form = tuple[tuple[int, ...], "np.dtype[Any]"]


@dataclass(eq=False)
class FrameworkCalls:
    """The kernels of `g.forward` and `g.backward`, and the forms of what they return."""

    g: Gradients

    def __post_init__(self) -> None:
        if not isinstance(self.g, Gradients):
            raise ArgumentError(f"function takes what tm.vjp returns, not {self.g!r}")

    @property
    def name(self) -> str:
        """The name of the function that is differentiated."""
        return self.g.original.name

    @property
    def inputs(self) -> list[str]:
        """The inputs of the function, in order."""
        return [*self.g.original.inputs]

    @property
    def params(self) -> tuple[str, ...]:
        """The sizes of the function, in order."""
        return self.g.original.params

    @property
    def wrt(self) -> tuple[str, ...]:
        """The inputs whose gradients are computed; none for what is never differentiated."""
        return self.g.wrt

    @property
    def outputs(self) -> tuple[str, ...]:
        """The arrays that the function returns."""
        return self.g.original.output_arrays

    @property
    def made(self) -> list[str]:
        """The arrays that the function forwards returns: outputs, and what is saved."""
        return [*self.outputs, *self.g.saved]

    @property
    def needed(self) -> list[str]:
        """The inputs, outputs and saved values that the backward function takes; the weights of outputs come after."""
        taken = self.g.backward.algorithm.inputs
        return [name for name in [*self.inputs, *self.made] if name in taken]

    @property
    def weights(self) -> Mapping[str, str]:
        """The name of the weight of each floating-point output that the backward function takes."""
        taken = self.g.backward.algorithm.inputs
        return {array: name for array, name in self.g.adjoints.cotangents.items() if name in taken}

    @cached_property
    def _kernels(self) -> tuple[Any, Any]:
        return self.g.forward.compile(), self.g.backward.compile()

    def sizes(self, shapes: Sequence[tuple[int, ...]], given: Mapping[str, int]) -> dict[str, int]:
        """The parameters, from the shapes of the inputs and those given by name; raises `ArgumentError`."""
        original = self.g.original
        if len(shapes) != len(self.inputs):
            raise ArgumentError(f"{self.name} takes {', '.join(self.inputs)}, and {len(shapes)} arrays were given")
        unknown = [name for name in given if name not in original.params]
        if unknown:
            raise ArgumentError(f"{self.name} has no size {unknown[0]}: it has {', '.join(original.params) or 'none'}")
        pairs = [
            (name, declared.passed_shape, shape)
            for (name, declared), shape in zip(original.inputs.items(), shapes, strict=True)
        ]
        return infer_params(original.params, pairs, given)

    def forms(self, params: Mapping[str, int]) -> list[Form]:
        """The forms of what the forward function returns."""
        return forms_of(self.g.forward.algorithm, params)

    def gradient_forms(self, params: Mapping[str, int]) -> list[Form]:
        """The forms of the gradients: those of the inputs."""
        inputs = [self.g.original.inputs[name] for name in self.g.wrt]
        return [(shape_value(each.passed_shape, params), each.dtype.numpy) for each in inputs]

    def forwards(self, arrays: Sequence[Any], params: Mapping[str, int]) -> list[np.ndarray[Any, Any]]:
        """The outputs and what is saved, as NumPy arrays."""
        named = {name: _argument(each) for name, each in zip(self.inputs, arrays, strict=True)}
        return _listed(self._kernels[0](**named, **params))

    def backwards(
        self, needed: Sequence[Any], weights: Sequence[Any], params: Mapping[str, int]
    ) -> list[np.ndarray[Any, Any]]:
        """The gradients, in the shapes of the inputs."""
        names = [*self.needed, *self.weights.values()]
        named = {name: _argument(each) for name, each in zip(names, [*needed, *weights], strict=True)}
        found = _listed(self._kernels[1](**named, **params))
        return [each.reshape(shape) for each, (shape, _) in zip(found, self.gradient_forms(params), strict=True)]


def forms_of(algorithm: Algorithm, params: Mapping[str, int]) -> list[Form]:
    """The shape and the type of each array that a function returns."""
    return [(shape_value(shape, params), dtype) for shape, dtype in symbolic_forms(algorithm)]


def symbolic_forms(algorithm: Algorithm) -> list[tuple[tuple[Expr, ...], np.dtype[Any]]]:
    """The shape in terms of sizes, and the type, of each array that a function returns."""
    found: list[tuple[tuple[Expr, ...], np.dtype[Any]]] = []
    for name in algorithm.outputs:
        computed = algorithm.computations[name]
        shape = extents(algorithm, computed)
        found += [(shape, dtype.numpy) for _, dtype in arrays_of(computed)]
    return found


def _argument(array: Any) -> Any:
    """An array as an argument: one without dimensions is a scalar."""
    return np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)[()]


def _listed(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]
