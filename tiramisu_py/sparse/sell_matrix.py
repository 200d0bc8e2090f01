"""Compiled products over slices of rows: the inspector of matrices, and a matrix as the executor reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py import Kernel
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import DeclaredInput, infer_params, verify_facts
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class SellKernels:
    """The kernels of a product over slices of rows; see `tm.sparse.sell`.

    `multiply` takes what `rows` returns, then the entries that `packs` return, then the `others`; `trusting` is the
    same without the verification of facts about the matrix. `start` names the input with the starts of rows, `slices`
    and `places` the parameters for the number of slices, and of places of a lane in all of them.
    """

    rows: Kernel
    packs: Mapping[str, Kernel]
    multiply: Kernel
    trusting: Kernel
    start: str
    slices: str
    places: str
    lanes: int

    @property
    def declared(self) -> Mapping[str, DeclaredInput]:
        """The inputs of `multiply`."""
        return self.multiply.arguments.algorithm.inputs

    @property
    def layout(self) -> tuple[str, ...]:
        """The inputs of `multiply` that `rows` computes: first places of slices, order of rows, lengths of rows."""
        return tuple(self.declared)[:3]

    @property
    def others(self) -> tuple[str, ...]:
        """The inputs of `multiply` that are no part of a matrix."""
        return tuple(name for name in self.declared if name not in self.layout and name not in self.packs)

    def inspect(self, *arrays: Any, **named: Any) -> SellMatrix:
        """A matrix in slices, from the starts of its rows and the elements of its entries.

        ::

            matrix = kernels.inspect(s.indptr, s.indices, s.data, M=s.shape[1])

        The arrays are the starts, and the inputs with an element for each entry in the order in which they are
        declared (the keys of `packs`), by position or by name. Parameters that their shapes do not determine, such as
        the number of columns, are given by name. All arrays are copied. Raises `ArgumentError` where a declared fact
        does not hold, such as a column that is not there.
        """
        wanted = (self.start, *self.packs)
        given = _named("inspect", wanted, arrays, named)
        if absent := [name for name in wanted if name not in given]:
            raise ArgumentError(f"{absent[0]} is missing: inspect takes {', '.join(wanted)}")
        matrix = {name: np.asarray(given.pop(name)) for name in wanted}
        sizes = self._sizes(matrix, given)
        own = {name: size for name, size in sizes.items() if name in self.rows.function.params}
        found = self.rows(**{self.start: matrix[self.start]}, **own)
        assert isinstance(found, tuple)
        order, length, begin = (np.asarray(each) for each in found)
        sizes[self.places] = int(begin[-1])
        layout = dict(zip(self.layout, (begin, order, length), strict=True))
        for name, array in layout.items():
            verify_facts(self.declared[name], array, sizes)
        start = matrix.pop(self.start).copy()
        return SellMatrix(self, start, sizes, layout).replace(**matrix)

    def _sizes(self, matrix: Mapping[str, Array], given: Mapping[str, Any]) -> dict[str, int]:
        """The parameters that say what a matrix is: of its shapes, and given."""
        kernels = {self.start: self.rows, **self.packs}
        names = [name for kernel in kernels.values() for name in kernel.function.params]
        names = [name for name in dict.fromkeys(names) if name not in (self.slices, self.places)]
        shapes = [
            (name, kernel.arguments.algorithm.inputs[name].shape, matrix[name].shape)
            for name, kernel in kernels.items()
        ]
        if wrong := [name for name in given if name not in names]:
            raise ArgumentError(f"inspect has no argument {wrong[0]}: it takes {', '.join((*kernels, *names))}")
        sizes = infer_params(names, shapes, given)
        return {**sizes, self.slices: -(-max(matrix[self.start].size - 1, 0) // self.lanes)}

    def export(self, folder: str | Path) -> Path:
        """Write a C library for each kernel, in a folder of its own inside `folder`, as `Kernel.export` does."""
        for kernel in (self.rows, *self.packs.values(), self.multiply):
            kernel.export(Path(folder) / kernel.name)
        return Path(folder)


@dataclass(frozen=True, eq=False)
class SellMatrix:
    """A matrix in slices: ``matrix(x)`` is the product with a vector.

    `layout` and `entries` are the arrays that the executor reads; they are the matrix's own, and read-only. A matrix
    may be used by several threads at once.
    """

    kernels: SellKernels
    start: Array
    sizes: Mapping[str, int]
    layout: Mapping[str, Array]
    entries: Mapping[str, Array] = field(default_factory=dict)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The product: takes the inputs that are no part of the matrix, in order or by name, as a kernel does.

        ``matrix(x, y=out)`` writes into an array of the caller's. Raises `ArgumentError`.
        """
        kernels = self.kernels
        if wrong := [name for name in named if name in self.layout or name in self.entries]:
            raise ArgumentError(f"{wrong[0]} belongs to the matrix: give other entries to its replace")
        given = _named("the product", kernels.others, arrays, named)
        known = kernels.trusting.function.params
        sizes = {name: size for name, size in self.sizes.items() if name in known}
        return kernels.trusting(**self.layout, **self.entries, **{**sizes, **given})

    def replace(self, **entries: Any) -> SellMatrix:
        """A matrix with the same rows, and other elements of its entries: ``matrix.replace(value=s.data)``.

        The elements are in the order of CSR. What is not given is shared with this matrix. Raises `ArgumentError`.
        """
        kernels = self.kernels
        packed = dict(self.entries)
        begin, order = (self.layout[name] for name in kernels.layout[:2])
        for name, elements in entries.items():
            kernel = kernels.packs.get(name)
            if kernel is None:
                raise ArgumentError(f"replace has no argument {name}: it takes {', '.join(kernels.packs)}")
            given = {kernels.start: self.start, name: elements, kernels.layout[0]: begin, kernels.layout[1]: order}
            sizes = {param: size for param, size in self.sizes.items() if param in kernel.function.params}
            packed[name] = np.asarray(kernel(**given, **sizes))
        for array in (self.start, *self.layout.values(), *packed.values()):
            array.flags.writeable = False
        return SellMatrix(kernels, self.start, self.sizes, self.layout, packed)


def _named(caller: str, names: Sequence[str], arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by position and by name, all by their names."""
    if len(arrays) > len(names):
        raise ArgumentError(
            f"{caller} takes {len(names)} arguments by position ({', '.join(names)}), {len(arrays)} given"
        )
    given = dict(zip(names, arrays, strict=False))
    if twice := [name for name in given if name in named]:
        raise ArgumentError(f"{twice[0]} was given twice; leave one out")
    return {**given, **named}
