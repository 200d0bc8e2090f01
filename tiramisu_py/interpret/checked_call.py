"""Entry and exit: arguments become arrays, and promises to the caller are checked at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tiramisu_py.algorithm.types import int64
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import argument
from tiramisu_py.ir import ArrayArgument, LoopFunction, ScalarArgument


def entered(
    function: LoopFunction, arguments: Mapping[str, Any], params: Mapping[str, int], place: Mapping[str, int] = {}
) -> Frame:
    """The frame in which the body starts; raises `InterpretError` if an argument does not fit or a precondition fails.

    `place` gives the coordinates of the rank, by name.
    """
    known = {**params, **place}
    frame = Frame({name: arithmetic.literal(known[name], int64) for name in (*function.params, *place)}, {})
    for condition, words in function.preconditions:
        if not Evaluator(frame)(condition):
            raise InterpretError(f"{function.name}: {words}")
    for declared in function.arguments:
        if declared.name not in arguments:
            raise InterpretError(f"{function.name} needs the argument {declared.name}")
        if isinstance(declared, ScalarArgument):
            frame.variables[declared.name] = declared.dtype.numpy.type(arguments[declared.name])
        else:
            _enter_array(declared, arguments[declared.name], frame)
    return frame


def _enter_array(declared: ArrayArgument, given: np.ndarray, frame: Frame) -> None:
    shape = tuple(max(0, extent) for extent in map(Evaluator(frame).integer, declared.extents))
    if declared.passed is not None and given.size == math.prod(shape):
        given = given.reshape(shape)
    if given.shape != shape or given.dtype != declared.dtype.numpy:
        raise InterpretError(
            f"{declared.name} is declared as {declared.dtype}{list(shape)}, given as {given.dtype}{list(given.shape)}"
        )
    constant = not declared.is_output
    frame.arrays[declared.name] = argument(declared.name, given, declared.is_input, constant, declared.device)


def left(function: LoopFunction, frame: Frame) -> None:
    """Check at the end that every output that is declared to be covered has been written completely."""
    for declared in function.arguments:
        if isinstance(declared, ArrayArgument) and declared.is_output and declared.covered:
            written = frame.arrays[declared.name].written
            if not written.all():
                missing = ", ".join(map(str, np.argwhere(~written)[0]))
                raise InterpretError(f"{function.name} returns without having written {declared.name}[{missing}]")


def returned(function: LoopFunction, frame: Frame) -> None:
    """Return the arrays to the caller: any later access by the function is an error."""
    for declared in function.arguments:
        if isinstance(declared, ArrayArgument):
            frame.arrays[declared.name].leave(f"{function.name} has returned")
