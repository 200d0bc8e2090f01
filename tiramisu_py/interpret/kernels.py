"""Kernels: blocks in any order, several at a time, and the threads of each as strands that meet at barriers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiramisu_py.algorithm.types import int64
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.faults import InterpretError
from tiramisu_py.interpret.machine import Machine, Steps
from tiramisu_py.interpret.memory import Array, allocated
from tiramisu_py.interpret.races import Clock, Trace, Watched, watched
from tiramisu_py.interpret.reductions import apply
from tiramisu_py.lower.ir import Allocate, Barrier, Deferred, GpuIndex, KernelArray, KernelFunction, Store, TreeReduce
from tiramisu_py.program.storage import Memory

Shape = tuple[int, int, int]
#: How many steps a thread takes before another one may come in between.
BURSTS = (1, 3, 1000)


@dataclass(eq=False)
class Meeting:
    """Where a thread waits for all others of its block; for a reduction, with what it brings."""

    node: Barrier | TreeReduce
    frame: Frame
    value: Value = None
    indices: tuple[int, ...] = ()


def launched(
    kernel: KernelFunction,
    grid: Shape,
    values: Sequence[Value],
    arrays: Sequence[Array],
    device: int,
    choice: random.Random,
) -> Steps:
    """The steps of one launch; raises at once where an array is not what the kernel takes."""
    frame = Frame({}, {}, where=f"kernel {kernel.name}", device=device)
    names = (*kernel.params, *(scalar.name for scalar in kernel.scalars))
    dtypes = (*(int64 for _ in kernel.params), *(scalar.dtype for scalar in kernel.scalars))
    for name, dtype, value in zip(names, dtypes, values, strict=True):
        frame.variables[name] = arithmetic.convert(value, dtype)
    for declared, array in zip(kernel.arrays, arrays, strict=True):
        frame.arrays[declared.name] = _passed(kernel, declared, array, frame)
    return Launched(kernel, grid, frame, choice).steps()


def _passed(kernel: KernelFunction, declared: KernelArray, array: Array, frame: Frame) -> Array:
    mapped = Memory.HOST_MAPPED in (array.memory, declared.memory) and array.device is None
    if array.device != frame.device and not mapped:
        raise InterpretError(f"kernel {kernel.name} is given {array.name}, which GPU {frame.device} cannot reach")
    shape = tuple(max(0, Evaluator(frame).integer(extent)) for extent in declared.extents)
    if shape != array.data.shape or declared.dtype.numpy != array.data.dtype:
        raise InterpretError(f"kernel {kernel.name} takes {array.name} as {declared.dtype}{list(shape)}, which it is not")
    return Passed(**{**vars(array), "constant": declared.is_constant or array.constant}, origin=array)


@dataclass(eq=False)
class Passed(Array):
    """An array as a kernel takes it: gone when the one that was passed is."""

    origin: Array = field(kw_only=True)

    @property  # type: ignore[override]
    def gone(self) -> str:  # type: ignore[override]
        """Why nothing may touch it any more."""
        return self.origin.gone
