"""Kernels called with arrays: each kind of call is proven, scheduled and compiled once, and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import islpy as isl
import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.declare.stored_elements import loaded_outside, stored_outside, stored_twice, unstored
from tiramisu_py.algorithm.expressions import Const, Expr, Param
from tiramisu_py.algorithm.types import as_dtype, weak_int
from tiramisu_py.errors import ArgumentError, LegalityError
from tiramisu_py.function import Function
from tiramisu_py.language.ir.nodes import BlockValue, Instruction
from tiramisu_py.language.ir.scalars import block_type, short
from tiramisu_py.language.launched import KernelRun, Weak, launched
from tiramisu_py.language.schedules.blocks import blocks
from tiramisu_py.language.tracing.source import BlockSource
from tiramisu_py.language.tracing.tracer import ArrayType, traced
from tiramisu_py.language.values.uses import walked
from tiramisu_py.program.targets import Cores, GpuThreads
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain import Kernel

#: Sizes of one call: of arrays by axis, of the grid, and integers.
Sizes = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Signature:
    """Types and ranks of arrays, constants, and which axes of the grid are 1: a compiled kernel depends on these."""

    source: BlockSource
    given: Mapping[str, Any]
    grid: tuple[int, ...]

    def key(self) -> tuple[object, ...]:
        """A key that equal signatures share."""
        return (*(self._part(name, each) for name, each in self.given.items()), *(extent == 1 for extent in self.grid))

    def _part(self, name: str, each: Any) -> object:
        if self.is_size(name):
            return "size"
        return constant_key(each) if name in self.source.constants else _kind(each)

    def sizes(self) -> dict[str, int]:
        """The sizes of this call, by the names of the parameters."""
        found: dict[str, int] = {}
        for name, each in self.given.items():
            if isinstance(each, np.ndarray):
                found |= {f"{name}_{axis}": extent for axis, extent in enumerate(each.shape)}
            elif self.is_size(name):
                found[name] = int(each)
        return found | {_programs(axis): extent for axis, extent in enumerate(self.grid) if extent != 1}

    def is_size(self, name: str) -> bool:
        """Whether an argument is an integer that may differ from call to call."""
        each = self.given[name]
        is_number = isinstance(each, int | np.integer) and not isinstance(each, bool)
        return is_number and name not in self.source.constants and each >= 0

    def scalars(self) -> dict[str, Any]:
        """The floating-point numbers of this call."""
        return {n: e for n, e in self.given.items() if self.is_scalar(n)}

    def is_scalar(self, name: str) -> bool:
        """Whether an argument is a floating-point number."""
        return isinstance(self.given[name], float | np.floating) and name not in self.source.constants

    def declared(self, assume: str | None) -> tuple[Function, KernelRun]:
        """A function of all sizes with the kernel in it."""
        sizes = {name: Param(name) for name in self.sizes()}
        f = Function(self.source.name, params=[*sizes.values()], assume=assume)
        stored = self._stored()
        handles: dict[str, Any] = {}
        outputs = []
        for name, each in self.given.items():
            handles[name] = each
            if isinstance(each, np.ndarray):
                shape = [sizes[f"{name}_{axis}"] for axis in range(each.ndim)]
                declare = f.array if name in stored else f.input
                handles[name] = declare(name, as_dtype(each.dtype), shape)
                outputs += [handles[name]] if name in stored else []
            elif self.is_size(name):
                handles[name] = sizes[name]
            elif self.is_scalar(name):
                scalar = f.scalar(name, as_dtype(getattr(each, "dtype", np.float64)))
                handles[name] = (
                    Weak(scalar) if isinstance(each, float) and not isinstance(each, np.floating) else scalar
                )
        grid: list[Expr] = [
            Const(1, weak_int) if extent == 1 else sizes[_programs(axis)] for axis, extent in enumerate(self.grid)
        ]
        run = launched(f, self.source, handles, grid)
        f.outputs(*outputs)
        return f, run

    def _stored(self) -> set[str]:
        """The arrays that the kernel stores to."""
        kinds = {name: self._traced(name, each) for name, each in self.given.items()}
        found: set[str] = set()
        kernel = traced(self.source, kinds, ())
        pointers = {n.result: n for n in walked(kernel.body) if isinstance(n, Instruction) and n.op == "getelementptr"}
        for node in walked(kernel.body):
            if isinstance(node, Instruction) and node.result is None and node.operands[0] in pointers:
                array = pointers[node.operands[0]].operands[0]
                assert isinstance(array, BlockValue)
                found.add(array.name)
        return found

    def _traced(self, name: str, given: Any) -> Any:
        if isinstance(given, np.ndarray):
            return ArrayType(short(as_dtype(given.dtype)), given.ndim)
        if self.is_size(name):
            return block_type(weak_int)
        if self.is_scalar(name):
            is_weak = not isinstance(given, np.floating)
            return Weak.type if is_weak else block_type(as_dtype(given.dtype))
        return given


def constant_key(given: Any) -> tuple[object, ...]:
    """A key that equal constants share: of floats with their sign, which 0.0 and -0.0 differ in."""
    return type(given), repr(given) if isinstance(given, float | complex) else given


def _kind(given: Any) -> object:
    if isinstance(given, np.ndarray):
        return "array", given.dtype.str, given.ndim
    if isinstance(given, np.generic):
        return "number", given.dtype.str
    return ("number", type(given)) if isinstance(given, float) else (type(given), given)


def _programs(axis: int) -> str:
    return f"programs_{axis}"


class Called:
    """The compiled kernels of one signature: one for each part of the sizes that fit, made when it is called first."""

    def __init__(self, signature: Signature, device: str | None, num_warps: int, num_stages: int) -> None:
        first, _ = signature.declared(None)
        self._fits = sets.basic_sets(weakest_sizes(first.algorithm))
        self._device, self._stages, self._warps = device, num_stages, num_warps
        self._kernels: dict[int, Kernel] = {}
        self._seen: dict[tuple[int, ...], Kernel] = {}
        self.functions: dict[int, Function] = {}

    @classmethod
    def of(
        cls, kept: dict[Any, Called], source: BlockSource, given: Mapping[str, Any], grid: tuple[int, ...],
        num_warps: int, num_stages: int, device: str | None,
    ) -> tuple[Kernel, dict[str, int]]:  # fmt: skip
        """Call the kernel of a signature, which is made and kept if it is called first; it, and the sizes it took."""
        for name, each in given.items():
            if hasattr(each, "__array__") and not isinstance(each, np.ndarray | np.generic):
                raise ArgumentError(f"{name} of {source.name} is {type(each).__name__}: give a NumPy array")
        signature = Signature(source, given, grid)
        options = (num_warps, num_stages, device)
        key = (signature.key(), *options) if device is not None else signature.key()
        found = kept.get(key)
        if found is None:
            found = kept[key] = cls(signature, device, num_warps, num_stages)
        return found.run(signature)

    def run(self, signature: Signature) -> tuple[Kernel, dict[str, int]]:
        """Run the kernel on the arrays of a call; raises `LegalityError` for sizes that do not fit."""
        sizes = signature.sizes()
        key = tuple(sizes.values())
        kernel = self._seen.get(key)
        if kernel is None:
            kernel = self._seen[key] = self._kernel(signature, sizes)
        arrays = {name: each for name, each in signature.given.items() if isinstance(each, np.ndarray)}
        needed = {n: sizes[n] for n in kernel.function.params if n in sizes}
        kernel(**arrays, **signature.scalars(), **needed)
        return kernel, needed

    def _kernel(self, signature: Signature, sizes: Sizes) -> Kernel:
        """The kernel for some sizes, proven for all that fit in the same way; parts with fewer equations first."""
        part = min(
            (k for k, each in enumerate(self._fits) if _holds(each, sizes)),
            key=lambda k: sets.equalities(self._fits[k]), default=None,
        )  # fmt: skip
        if part is None:
            raise refused(signature)
        if part not in self._kernels:
            f, run = signature.declared(_text(self._fits[part]))
            on: Cores | GpuThreads = Cores() if self._device is None else GpuThreads()
            blocks(run, on, num_warps=self._warps, num_stages=self._stages)
            if self._device is not None:
                f.derive_transfers()
            self.functions[part], self._kernels[part] = f, f.compile(device=self._device)
        return self._kernels[part]


def _holds(fits: isl.Set, sizes: Sizes) -> bool:
    return not sets.at_params(fits, {name: sizes[name] for name in sets.params(fits)}).is_empty()


def weakest_sizes(algorithm: Algorithm) -> isl.Set:
    """The sizes at which reads and stores are inside of arrays, and each element is stored once, none left out."""
    values, context = ValueSets(algorithm), algorithm.context
    fits = context.params()
    for c in algorithm.computations.values():
        for reading in values.of(c):
            bad = reading.relation.subtract_range(values.domain(reading.access.source))
            fits = fits.subtract(bad.params())
        if c.stored is None:
            continue
        elements = values.filled(c)
        for site in c.stored.sites:
            fits = fits.subtract(stored_outside(site, elements, context).params())
        for load in c.stored.loads:
            fits = fits.subtract(loaded_outside(load, values.domain(load.source), context).params())
        for pairs, _, _ in stored_twice(c.stored, context):
            fits = fits.subtract(pairs.params())
        if not c.stored.partial:
            fits = fits.subtract(unstored(c.stored, elements).params())
    return fits.coalesce()


def _text(fits: isl.Set) -> str | None:
    """A set of sizes as a condition for `Function`; None for all sizes."""
    words = str(fits)
    return words[words.index("{") + 1 : words.rindex("}")].strip().removeprefix(":").strip() or None


def refused(signature: Signature) -> LegalityError:
    """The error about sizes that a kernel does not fit, with the element at which that shows."""
    sizes = signature.sizes()
    fixed = " and ".join(f"{name} = {value}" for name, value in sizes.items())
    f, _ = signature.declared(fixed or None)
    report = f.check()
    assert not report.ok
    return LegalityError(report.violations)


__all__: Sequence[str] = ["Called", "Signature", "constant_key", "refused", "weakest_sizes"]
