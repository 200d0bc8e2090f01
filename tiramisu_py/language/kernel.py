"""Kernels: ``@tm.jit`` functions, their launches on handles and on arrays, and their interpretation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, update_wrapper
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import Access, Const, Expr
from tiramisu_py.algorithm.types import weak_int
from tiramisu_py.errors import ArgumentError, CallError, DeclarationError
from tiramisu_py.function import Function
from tiramisu_py.function.handles.computations import Indexed
from tiramisu_py.language.called import Called
from tiramisu_py.language.launched import KernelRun, launched
from tiramisu_py.language.repeated import MOST_KINDS, RepeatedCall, call_key, repeated
from tiramisu_py.language.running import ArrayView, Interpretation, is_interpreting
from tiramisu_py.language.tracing.source import BlockSource
from tiramisu_py.public_calls import own_call

#: The most axes of a grid.
MOST_AXES = 3

Grid = Any


@own_call
def jit(function: Callable[..., Any]) -> Jit:
    """A kernel: a program for each point of a grid, written on whole blocks, in the words of `tiramisu_py.language`.

    ::

        @tm.jit
        def add(X, Y, Z, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            inside = i < X.shape[0]
            tl.store(Z[i], tl.load(X[i], mask=inside, other=0) + tl.load(Y[i], mask=inside, other=0), mask=inside)

        add[tl.cdiv(N, 256)](X, Y, Z, BLOCK=256)        on handles: Z is part of their function
        add[4](x, y, z, BLOCK=256)                      on NumPy arrays: proven, scheduled, compiled, run
        add.interpret[4](x, y, z, BLOCK=256)            the same Python, on NumPy

    The source is read, not executed. Arguments annotated ``tl.constexpr`` are constants. Raises `DeclarationError` for
    a function without source; all else is said when the kernel is launched, with the line.
    """
    return Jit(function)


class Jit:
    """A kernel; ``kernel[grid]`` launches it, and ``kernel.interpret[grid]`` runs its Python on NumPy."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)
        self.compiled: dict[Any, Called] = {}
        self.repeated: dict[Any, RepeatedCall] = {}

    @cached_property
    def __tiramisu_source__(self) -> BlockSource:
        return BlockSource.of(self.function)

    def __getitem__(self, grid: Grid) -> KernelLaunch:
        return KernelLaunch(self, grid)

    @property
    def interpret(self) -> Interpretations:
        """The kernel as plain Python: ``kernel.interpret[grid]``, called with arrays, its programs in random order."""
        return Interpretations(self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The value of a kernel that another one calls, while that is interpreted; raises `CallError` elsewhere."""
        if is_interpreting():
            return self.function(*arguments, **named)
        name = self.__tiramisu_source__.name
        raise CallError(f"{name} is a kernel: launch it on a grid, {name}[programs](...)")

    def __repr__(self) -> str:
        return f"<kernel {self.__tiramisu_source__.name}>"


class KernelLaunch:
    """A kernel on a grid of programs, to be called with handles or arrays."""

    def __init__(self, kernel: Jit, grid: Grid) -> None:
        self._kernel, self._grid = kernel, grid

    def __call__(
        self, *arguments: Any, num_warps: int = 4, num_stages: int = 1, device: str | None = None,
        **named: Any,
    ) -> KernelRun | None:  # fmt: skip
        """Add the programs to the function of the handles, or prove, compile and run them on arrays.

        With handles the result is the `KernelRun`, whose values are computations: ``run["acc"]``. With arrays nothing
        is returned; `num_warps` and `num_stages` are for GPUs, `device` is as for `Function.compile`. Raises
        `DeclarationError` for what the kernel cannot mean, and `LegalityError` for arrays that it does not fit.
        """
        source, again = self._kernel.__tiramisu_source__, self._kernel.repeated
        known, constants, options = source.arguments, source.constants, (num_warps, num_stages, device)
        key = call_key(known, constants, self._grid, arguments, named, options)
        found = None if key is None else again.get(key)
        if found is not None:
            found.run(arguments, named)
            return None
        given = _bound(source, arguments, named)
        grid = grid_of(source, self._grid, given)
        handles = [each for each in given.values() if isinstance(each, Indexed)]
        if handles:
            owner = handles[0]._function  # type: ignore[attr-defined]
            if not isinstance(owner, Function):
                raise DeclarationError(f"{handles[0]} belongs to no function")
            return launched(owner, self._kernel.__tiramisu_source__, given, grid)
        numbers = tuple(_number(source, each) for each in grid)
        call = Called.of(self._kernel.compiled, source, given, numbers, num_warps, num_stages, device)
        if key is not None:
            if len(again) >= MOST_KINDS:
                again.clear()
            again[key] = repeated(known, constants, arguments, named, call)
        return None


class Interpretations:
    """``kernel.interpret``: indexed by a grid, and called with arrays."""

    def __init__(self, kernel: Jit) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        source = self._kernel.__tiramisu_source__

        def run(*arguments: Any, seed: int = 0, **named: Any) -> None:
            given = _bound(source, arguments, named)
            numbers = tuple(_number(source, each) for each in grid_of(source, grid, given))
            values = {name: _interpreted(name, each) for name, each in given.items()}
            Interpretation(numbers).run(source.function, values, np.random.default_rng(seed))

        return run


def _interpreted(name: str, given: Any) -> Any:
    if not isinstance(given, np.ndarray):
        return given
    if not given.flags.c_contiguous:
        raise ArgumentError(f"{name} is not contiguous: give numpy.ascontiguousarray({name})")
    return ArrayView(name, given)


def _bound(source: BlockSource, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The argument of each name; raises `CallError`."""
    if len(arguments) > len(source.arguments):
        raise CallError(f"{source.name} takes {', '.join(source.arguments)}; {len(arguments)} arguments were given")
    given = dict(zip(source.arguments, arguments, strict=False))
    unknown = [name for name in named if name not in source.arguments]
    twice = [name for name in named if name in given]
    if unknown or twice:
        raise CallError(
            f"{source.name} has no argument {unknown[0]}: it takes {', '.join(source.arguments)}"
            if unknown
            else f"{source.name} is given {twice[0]} twice"
        )
    whole = {**source.defaults, **given, **named}
    whole |= {name: whole[name].item() for name in source.constants if isinstance(whole.get(name), np.generic)}
    missing = [name for name in source.arguments if name not in whole]
    if missing:
        raise CallError(f"{source.name} lacks {', '.join(missing)}")
    for name in source.constants:
        if isinstance(whole[name], Expr | Indexed | np.ndarray):
            raise DeclarationError(f"{name} of {source.name} is tl.constexpr: give a constant, not {whole[name]!r}")
    return {name: whole[name] for name in source.arguments}


def grid_of(source: BlockSource, grid: Grid, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """The extents of a grid, which may be a function of the constants; raises `CallError`."""
    found = grid({name: given[name] for name in given if name in source.constants}) if callable(grid) else grid
    listed = tuple(found) if isinstance(found, tuple | list) else (found,)
    if not 1 <= len(listed) <= MOST_AXES:
        raise CallError(f"the grid of {source.name} has {len(listed)} axes; it has 1 to {MOST_AXES}")
    for each in listed:
        is_number = isinstance(each, int | np.integer) and not isinstance(each, bool)
        if not is_number and not (isinstance(each, Expr) and each.dtype.is_integer and not isinstance(each, Access)):
            raise CallError(
                f"the grid of {source.name} has the extent {each!r}: give integers, or sizes of the function"
            )
        if is_number and each < 0:
            raise CallError(f"the grid of {source.name} has the extent {each}; extents are at least 0")
    return tuple(Const(int(each), weak_int) if not isinstance(each, Expr) else each for each in listed)


def _number(source: BlockSource, extent: Expr) -> int:
    if not isinstance(extent, Const):
        raise CallError(f"the grid of {source.name} has the extent {extent}: with arrays extents are numbers")
    return int(extent.value)


__all__ = ["Jit", "KernelLaunch", "jit"]
