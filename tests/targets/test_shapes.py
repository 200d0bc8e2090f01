"""Every shape of code is right on every target: x86 from SSE2 to AVX-512, NEON, and vectors without intrinsics."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.shapes import SHAPES, Shape
from tests.selection import some
from tests.targets.machines import TARGETS, Target, is_plain
from tests.targets.programs import Call, Printed, Program, printed
from tiramisu_py.ir import ArrayArgument, LoopFunction

#: Every second shape is tried on a target, and all of them on two that follow each other.
HALVES = 2
USUAL = [target for target in TARGETS if is_plain(target)]


@functools.cache
def sources(cpu: tm.Target, half: int) -> list[Printed]:
    """Every second shape, as it is scheduled for a processor."""
    return printed([shape.made_for(cpu).show("lowered", cpu.vector_bytes) for shape in SHAPES[half::HALVES]])


def every_call(functions: list[LoopFunction], cpu: tm.Target, half: int) -> list[tuple[Call, dict[str, np.ndarray]]]:
    """The calls of these shapes."""
    return [pair for k, shape in enumerate(SHAPES[half::HALVES]) for pair in calls(k, shape, functions[k], cpu)]


def is_usual(case: tuple[Target, int]) -> bool:
    """Whether a plain run tries this half of the shapes on this target."""
    target, half = case
    return is_plain(target) and USUAL.index(target) % HALVES == half


def calls(which: int, shape: Shape, function: LoopFunction, cpu: tm.Target) -> list[tuple[Call, dict[str, np.ndarray]]]:
    """Calls with arrays on cache lines and off them, and what the outputs must hold then.

    A story may round in another order on another processor.
    """
    f, made = shape.made_for(cpu), []
    for rows, columns in shape.sizes:
        given = dict(shape.sample(rows, columns))
        found = f.evaluate(**given)
        want = dict(zip(f.algorithm.outputs, found if isinstance(found, tuple) else (found,), strict=True))
        params = {**_params(function, given), **{name: given[name] for name in function.params if name in given}}
        outputs = {name: np.zeros_like(array) for name, array in want.items()}
        widest = max(a.dtype.bytes for a in function.arguments if isinstance(a, ArrayArgument))
        made += [(Call(which, params, {**given, **outputs}, offset), want) for offset in (0, widest)]
    return made


def _params(function: LoopFunction, given: dict[str, np.ndarray]) -> dict[str, int]:
    """The sizes, from the shapes of arrays: extents are a parameter and a constant."""
    found = {}
    for argument in function.arguments:
        if isinstance(argument, ArrayArgument) and argument.is_input and argument.name in given:
            for extent, size in zip(argument.extents, given[argument.name].shape, strict=True):
                for name in function.params:
                    if str(extent) == name or str(extent).startswith(f"{name} + "):
                        found[name] = size - int(str(extent).partition(" + ")[2] or 0)
    return found


@pytest.mark.parametrize(("target", "half"), some(itertools.product(TARGETS, range(HALVES)), is_usual), ids=str)
def test_every_shape_is_right(target: Target, half: int, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    parts = sources(target.cpu, half)
    pairs = every_call([part.function for part in parts], target.cpu, half)
    found = Program(target, parts, tmp_path)([call for call, _ in pairs])
    for (call, want), got in zip(pairs, found, strict=True):
        for name, array in want.items():
            shape = SHAPES[half::HALVES][call.which]
            message = f"{shape} at {call.params}, {call.offset} bytes off a cache line"
            np.testing.assert_array_equal(got[name], array, err_msg=message, strict=True)
