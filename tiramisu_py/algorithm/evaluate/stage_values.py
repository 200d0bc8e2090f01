"""The values of a stage: one call of its Python equivalent for each call of the C function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation, StagePart
from tiramisu_py.algorithm.evaluate.lattice import Column, Lattice
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.evaluate.valuation import Points, Valuation
from tiramisu_py.algorithm.types import DType
from tiramisu_py.algorithm.words.stages import ArrayParameter, ExternStage, StageCall
from tiramisu_py.errors import DeclarationError

#: First index and number of indices of each iterator within a call.
Ranges = Mapping[str, tuple[int, int]]


def called_stage(c: Computation, valuation: Valuation, columns: Sequence[Column], count: int) -> Array:
    """The values of a stage at the points that the columns list."""
    assert c.stage is not None
    found = np.zeros(count, dtype=c.dtype.numpy)
    calls = _Calls(c, valuation)
    own = np.stack(columns[: c.stage.each], axis=1) if c.stage.each else np.zeros((count, 0), dtype=np.int64)
    each, number = np.unique(own, axis=0, return_inverse=True)
    for k in range(len(each)):
        rows = np.flatnonzero(number.reshape(-1) == k)
        at = [column[rows] for column in columns]
        result = calls.result(tuple(each[k].tolist()), at[c.stage.each :])
        found[rows] = result
    return found


class _Calls:
    """The calls of one stage."""

    def __init__(self, c: Computation, valuation: Valuation) -> None:
        assert c.stage is not None and isinstance(c.expr, StageCall)
        self.c, self.sets, self.call, self.valuation = c, c.stage, c.expr, valuation
        self.ranges = {name: Lattice(of, valuation.params) for name, of in c.stage.ranges.items()}
        self.parts = [Lattice(part.points, valuation.params) for part in c.stage.parts]

    def result(self, at: tuple[int, ...], elements: Sequence[Column]) -> Array:
        """The values of one call, at the elements that the columns list."""
        ranges = {name: self._range(lattice, at) for name, lattice in self.ranges.items()}
        pairs = zip(self.sets.parts, self.parts, strict=True)
        arrays = iter([self._array(part, lattice, at, ranges) for part, lattice in pairs])
        given = [
            next(arrays) if isinstance(of, ArrayParameter) else self._scalar(k, of, at)
            for k, (_, of) in enumerate(self.call.stage.passed)
        ]
        own = [ranges[name] for name in self.c.iterators[self.sets.each :]]
        whole = returned(self.call.stage, given, tuple(extent for _, extent in own))
        return np.asarray(whole[tuple(column - low for column, (low, _) in zip(elements, own, strict=True))])

    def _range(self, lattice: Lattice, at: tuple[int, ...]) -> tuple[int, int]:
        columns, _ = lattice.extended([np.array([k]) for k in at], 1, lattice.size)
        values = columns[-1]
        return (int(values.min()), int(values.max() - values.min()) + 1) if len(values) else (0, 0)

    def _scalar(self, position: int, dtype: DType, at: tuple[int, ...]) -> Any:
        names = self.c.iterators[: self.sets.each]
        points = Points({name: np.array([k]) for name, k in zip(names, at, strict=True)}, 1)
        return self.valuation.column(typed(self.call.arguments[position], dtype), points)[0]

    def _array(self, part: StagePart, lattice: Lattice, at: tuple[int, ...], ranges: Ranges) -> Array:
        """The part of an array that a call takes; elements of the box that it does not read are poison."""
        box = [ranges[name] for name in part.varying if name]
        array = poisoned(tuple(extent for _, extent in box), part.access.dtype)
        columns, _ = lattice.extended([np.array([k]) for k in at], 1, lattice.size)
        named = dict(zip(part.iterators, columns, strict=True))
        count = len(columns[-1]) if columns else 1
        values = self.valuation.column(typed(part.access, part.access.dtype), Points(named, count))
        array[tuple(named[name] - ranges[name][0] for name in part.varying if name)] = values
        return array


def poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    """An array without values: not a number, or a number that stands out."""
    return np.full(shape, np.nan if dtype.is_float else dtype.numpy.type(True if dtype.is_bool else 85), dtype.numpy)


def returned(stage: ExternStage, given: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """The result of the Python equivalent of a C function over arrays, of this shape; records of components where the
    function writes several arrays. Raises `DeclarationError`.

    It gets arrays of its own, so that it may overwrite them.
    """
    found = stage.python(*(np.array(one) if isinstance(one, np.ndarray) else one for one in given))
    if len(stage.stored) == 1:
        return _checked(stage, found, stage.stored[0][1].dtype, shape)
    if not isinstance(found, tuple | list) or len(found) != len(stage.stored):
        names = ", ".join(name for name, _ in stage.stored)
        raise DeclarationError(
            f"the Python equivalent of {stage.name} returned {type(found).__name__}; the function writes {names}: "
            "return a tuple of as many arrays"
        )
    records = np.zeros(shape, stage.result.numpy)
    for (name, of), one in zip(stage.stored, found, strict=True):
        records[name] = _checked(stage, one, of.dtype, shape)
    return records


def _checked(stage: ExternStage, given: Any, of: DType, shape: tuple[int, ...]) -> Array:
    """One array that the Python equivalent has returned, in the type of the function's."""
    found, dtype = np.asarray(given), of.numpy
    if found.shape != shape:
        raise DeclarationError(
            f"the Python equivalent of {stage.name} returned an array of shape {found.shape}; the function writes "
            f"one of shape {shape}"
        )
    if not np.can_cast(found.dtype, dtype, "same_kind"):
        raise DeclarationError(f"the Python equivalent of {stage.name} returned {found.dtype}, not {dtype}")
    return found.astype(dtype)
