"""The arguments of `evaluate()`, checked: inputs, scalars, initial contents of outputs, parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.declare.assumptions import verify_facts
from tiramisu_py.algorithm.declare.distinct import arrays_of_distinct, together_names, verify_together
from tiramisu_py.algorithm.declare.inverses import in_parts
from tiramisu_py.algorithm.domains.extents import default_extents, first_indices
from tiramisu_py.algorithm.domains.extents_from_arguments import (
    element_strides,
    extent_value,
    infer_params,
    shape_value,
)
from tiramisu_py.algorithm.domains.runs import stored_axes
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.expressions import Expr, typed_const
from tiramisu_py.algorithm.types import DType, TupleType, array_names
from tiramisu_py.errors import ArgumentError, DTypeError
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class GivenValues:
    """Checked arguments: the arrays of inputs (scalars have no dimensions) and of outputs, and the parameters."""

    inputs: Mapping[str, Array]
    initial: Mapping[str, Array]
    params: Mapping[str, int]


def checked_arguments(algorithm: Algorithm, arguments: Mapping[str, Any], params: Mapping[str, int]) -> GivenValues:
    """The arguments of a call; raises `ArgumentError`, naming the one that does not fit."""
    arguments = arrays_of_distinct(algorithm.inputs, in_parts(algorithm.inputs, arguments))
    given = {**{name: value for name, value in arguments.items() if name in algorithm.params}, **params}
    _check_names(algorithm, arguments)
    inputs = {name: _input(declared, arguments) for name, declared in algorithm.inputs.items()}
    initial: dict[str, Array] = {}
    shaped = [(name, algorithm.inputs[name].passed_shape, array.shape) for name, array in inputs.items()]
    for name, declared in algorithm.inputs.items():
        if declared.strides is not None:
            shaped.append((name, declared.strides, element_strides(name, inputs[name])))
    for output in algorithm.outputs:
        computed = algorithm.computations[output]
        for name, dtype in arrays_of(computed):
            if arguments.get(name) is not None:
                initial[name] = checked_array(name, dtype, arguments[name])
                shaped.append((name, extents(algorithm, computed), initial[name].shape))
    values = infer_params(algorithm.params, shaped, given)
    check_context(algorithm, values)
    for name, declared in algorithm.inputs.items():
        verify_facts(declared, inputs[name], values)
        if together_names(declared):
            verify_together(declared, algorithm.inputs, inputs)
        if declared.passed is not None:
            inputs[name] = inputs[name].reshape(shape_value(declared.shape, values))
    return GivenValues(inputs, initial, values)


def _check_names(algorithm: Algorithm, arguments: Mapping[str, Any]) -> None:
    known = [*algorithm.inputs, *algorithm.output_arrays, *algorithm.params]
    for name in arguments:
        if name not in known:
            raise ArgumentError(f"{algorithm.name} has no argument {name}; its arguments are {', '.join(known)}")


def _input(declared: Input, arguments: Mapping[str, Any]) -> Array:
    if declared.name not in arguments:
        raise ArgumentError(f"the argument {declared.name} is missing")
    given = arguments[declared.name]
    if declared.scalar:
        return checked_scalar(declared.name, declared.dtype, given)
    return checked_array(declared.name, declared.dtype, given)


def arrays_of(computation: Computation) -> list[tuple[str, DType]]:
    """The names and types of the arrays of a computation."""
    dtype = computation.dtype
    types = [own for _, own in dtype.fields] if isinstance(dtype, TupleType) else [dtype]
    return list(zip(array_names(computation.name, dtype), types, strict=True))


def extents(algorithm: Algorithm, computation: Computation) -> tuple[Expr, ...]:
    """The extents of the array that holds a computation by default."""
    if computation.shape is not None:
        return computation.shape
    return default_extents(computation.domain, algorithm.context, stored_axes(algorithm, computation))


def output_shape(algorithm: Algorithm, computation: Computation, params: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of the array that holds a computation by default."""
    return shape_value(extents(algorithm, computation), params)


def output_lows(algorithm: Algorithm, computation: Computation, params: Mapping[str, int]) -> tuple[int, ...]:
    """The indices of the first element of that array."""
    if computation.shape is not None:
        return (0,) * len(computation.shape)
    lows = first_indices(computation.domain, algorithm.context, stored_axes(algorithm, computation))
    return tuple(extent_value(low, params) for low in lows)


def checked_array(name: str, dtype: DType, given: Any) -> Array:
    """An array argument of the right type; raises `ArgumentError`."""
    if not isinstance(given, np.ndarray):
        raise ArgumentError(f"{name} is a NumPy array of {dtype}, not {type(given).__name__}")
    if given.dtype != dtype.numpy:
        raise ArgumentError(f"{name} is an array of {dtype}, but one of {given.dtype} was passed")
    return given


def checked_scalar(name: str, dtype: DType, given: Any) -> Array:
    """A scalar argument: a Python number that fits, or a NumPy scalar of the type; raises `ArgumentError`."""
    value = given.item() if isinstance(given, np.ndarray | np.generic) and given.ndim == 0 else given
    if isinstance(given, np.ndarray | np.generic) and given.dtype == dtype.numpy and given.ndim == 0:
        return np.asarray(given)
    if not isinstance(value, bool | int | float) or (dtype.is_bool and not isinstance(value, bool)):
        raise ArgumentError(f"{name} is a scalar of {dtype}, not {given!r}")
    if isinstance(value, float) and not dtype.is_float:
        raise ArgumentError(f"{name} is a scalar of {dtype}, not {given!r}")
    try:
        return np.asarray(typed_const(value, dtype).value, dtype=dtype.numpy)
    except (DTypeError, OverflowError) as error:
        raise ArgumentError(f"{name}: {error}") from None


def check_context(algorithm: Algorithm, params: Mapping[str, int]) -> None:
    """Raise `ArgumentError` if the function is not defined for these parameters."""
    if sets.fixed(algorithm.context.from_params(), params).is_empty():
        values = ", ".join(f"{name} = {value}" for name, value in params.items())
        raise ArgumentError(f"{algorithm.name} is not defined for {values}: it assumes {algorithm.context}")
