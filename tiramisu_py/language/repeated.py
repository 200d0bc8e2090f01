"""Calls that were made before, with arrays of the same types and sizes: they go to the compiled kernel at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiramisu_py.language.called import constant_key
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain import Kernel

#: The most kinds of calls that a kernel remembers.
MOST_KINDS = 512
#: The types of arguments that are no arrays, and whose values are a part of what is remembered.
_PLAIN = frozenset((int, bool, str, type(None)))


@dataclass(frozen=True, eq=False)
class RepeatedCall:
    """A compiled kernel, the sizes of a call, and which arguments are passed to it: by position, and by name."""

    kernel: Kernel
    sizes: Mapping[str, int]
    positions: tuple[tuple[int, str], ...]
    names: tuple[str, ...]

    def run(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Call the kernel with arguments of the same kinds."""
        passed = {name: arguments[k] for k, name in self.positions}
        for name in self.names:
            passed[name] = named[name]
        self.kernel(**passed, **self.sizes)


def repeated(
    known: Sequence[str], constants: frozenset[str], arguments: Sequence[Any], named: Mapping[str, Any],
    call: tuple[Kernel, Mapping[str, int]],
) -> RepeatedCall:  # fmt: skip
    """The kernel that was called, to be called again."""
    positions = tuple((k, known[k]) for k, each in enumerate(arguments) if _is_passed(known[k], each, constants))
    names = tuple(name for name, each in named.items() if _is_passed(name, each, constants))
    return RepeatedCall(*call, positions, names)


def _is_passed(name: str, given: Any, constants: frozenset[str]) -> bool:
    """Whether an argument is one of the compiled kernel, too: an array, or a number that is no size."""
    return isinstance(given, np.ndarray | float | np.floating) and name not in constants


def call_key(
    known: Sequence[str], constants: frozenset[str], grid: Any, arguments: Sequence[Any], named: Mapping[str, Any],
    options: tuple[object, ...],
) -> tuple[object, ...] | None:  # fmt: skip
    """A key that calls share which go to one kernel with equal sizes; None where that takes a closer look."""
    extents = grid if type(grid) is tuple else (grid,)
    if any(type(extent) is not int for extent in extents) or len(arguments) > len(known):
        return None
    key: list[object] = [extents, options]
    for name, each in (*zip(known, arguments, strict=False), *named.items()):
        kind = type(each)
        if kind is np.ndarray:
            key.append((name, each.dtype, each.shape))
        elif kind in _PLAIN:
            key.append((name, kind, each))
        elif kind is float:
            key.append((name, constant_key(each) if name in constants else float))
        else:
            return None
    return tuple(key)
