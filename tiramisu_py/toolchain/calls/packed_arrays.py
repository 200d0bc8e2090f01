"""Operands that are kept between calls: packed once by a function of the library, and passed to any number of calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class PackedArray:
    """An array in the layout in which a kernel reads it: ``packed = kernel.pack("weights", weights)``.

    It is an argument of this kernel, and of one compiled from the same program with the same options, in place of the
    array. `sizes` are the values of the parameters for which it was packed. It can be pickled.
    """

    kernel: str
    name: str
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array] = field(repr=False)
    key: str = field(repr=False)

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return sum(array.nbytes for array in self.arrays.values())

    def __repr__(self) -> str:
        sizes = "".join(f", {name}={value}" for name, value in self.sizes.items())
        return f"<PackedArray {self.name} for {self.kernel}{sizes}: {self.nbytes} bytes>"


@dataclass(frozen=True, eq=False)
class Packing:
    """The operands that a kernel takes packed: the function that makes them, and the key of its text, by input."""

    functions: Mapping[str, LoopFunction] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, str]:
        """The input of each packed array."""
        return {array: name for name, function in self.functions.items() for array in function.outputs}

    def split(self, given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, PackedArray]]:
        """Arguments by name, those that are packed apart; raises `ArgumentError` for one that does not fit."""
        packed = {name: self.fitting(name, given[name]) for name in self.functions if name in given}
        return {name: value for name, value in given.items() if name not in packed}, packed

    def fitting(self, name: str, given: object) -> PackedArray:
        """The argument `name`, if it was packed for this kernel; raises `ArgumentError`."""
        wanted = self.functions[name].companions.packs_for
        if not isinstance(given, PackedArray):
            raise ArgumentError(f'{name} is passed packed: pass {wanted}.pack("{name}", {name})')
        if given.name != name:
            raise ArgumentError(f"{name} is an array packed as {given.name}: pass what was packed as {name}")
        if given.key != self.keys[name]:
            raise ArgumentError(
                f"{name} was packed by another kernel ({given.kernel}), whose layout may differ: pack it again, with "
                f'kernel.pack("{name}", ...) of the kernel that is called'
            )
        return given


def packing_of(function: LoopFunction, keys: Mapping[str, str], verified: bool) -> Packing:
    """The inputs that a function takes packed; `keys` are those of its packing functions, by their names.

    If declared facts are `verified`, arrays of which they were only trusted are not taken.
    """
    functions = {source_of(pack).name: pack for pack in function.companions.packs}
    ending = "" if verified else ", unverified"
    return Packing(functions, {name: f"{keys[pack.name]}{ending}" for name, pack in functions.items()})


def source_of(pack: LoopFunction) -> ArrayArgument:
    """The array from which a function packs."""
    return next(a for a in pack.arguments if isinstance(a, ArrayArgument) and not a.is_output)


def sizes_in_words(packed: Mapping[str, PackedArray]) -> str:
    """The sizes for which arrays were packed: ``weights was packed for C = 64``."""
    return "; ".join(
        f"{name} was packed for {', '.join(f'{size} = {value}' for size, value in each.sizes.items())}"
        for name, each in packed.items()
        if each.sizes
    )


def joined_sizes(packed: Mapping[str, PackedArray], given: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes that are `given`, and those for which arrays were packed; raises `ArgumentError` where they differ."""
    sizes = dict(given)
    for name, each in packed.items():
        for size, value in each.sizes.items():
            known = sizes.setdefault(size, value)
            if isinstance(known, int | np.integer) and int(known) != value:
                raise ArgumentError(f"{name} was packed for {size} = {value}, but the call has {size} = {known}")
    return sizes
