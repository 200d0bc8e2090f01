"""The host: the statements common to all machines, and the operations that it issues to GPUs."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiramisu_py.algorithm.domains.extents_from_arguments import shape_value
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.interpret.array_steps import ArraySteps
from tiramisu_py.interpret.checked_call import entered, left, returned
from tiramisu_py.interpret.devices.kernel_run import launched
from tiramisu_py.interpret.devices.queues import MOODS, QueuedOperation, Queues
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.machine import Interpreter
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.strands import Nested, OwnSteps, Steps
from tiramisu_py.ir import (
    ArrayArgument,
    Await,
    Copy,
    Events,
    Launch,
    LoopFunction,
    Record,
    ScalarArgument,
    Version,
)

#: The last record of each event; None for one that has never been recorded.
Marks = dict[tuple[int, ...], QueuedOperation | None]


def run(
    function: LoopFunction,
    arguments: Mapping[str, Any],
    params: Mapping[str, int],
    seed: int = 0,
    threads: int | None = None,
    array_steps: ArraySteps | None = None,
) -> None:
    """Execute a function on NumPy arrays, in place, with concurrent iterations in an order that `seed` selects.

    With `threads`, loops over partial results of threads are dealt out to so many, as OpenMP does. With `array_steps`
    loops of the host run in steps over arrays where the results are the same, and concurrent ones in their order.

    Operands that are kept between calls are packed first, if the arrays that they are packed from are given.
    Operations on operation sequences run as late as possible, at random times, or at once, depending on `seed` modulo
    3. Raises `InterpretError` for a precondition that fails, an index outside its buffer, an element that is read
    before it is written, a store to an input, two lanes of one store to the same element, and an incomplete output; in
    kernels for a race between threads, and for a barrier that not all threads of a block reach; and for an access to
    memory after it was freed, or after the function returned.
    """
    arguments = {**arguments, **_packed(function, arguments, params, seed)}
    version = _version(function, {**arguments, **params})
    if version is not function:
        function, arguments = version, {**arguments, **_as_passed(function, arguments, params)}
    frame = entered(function, arguments, params)
    queues = Queues(random.Random(seed), MOODS[seed % len(MOODS)])
    machine = Host(function, random.Random(seed), queues, threads, array_steps)
    with np.errstate(all="ignore"):
        for _ in machine.run(function.body, frame):
            machine.queues.meanwhile()
        returned(function, frame)
        machine.queues.rest()
        left(function, frame)


def _version(function: LoopFunction, given: Mapping[str, Any]) -> LoopFunction:
    """The version of a function that a call with these parameters and scalars executes."""
    for version in function.companions.versions:
        if all(_is(given[name], value) for name, value in version.sizes) and _holds(function, version, given):
            return version.function
    return function


def _as_passed(
    function: LoopFunction, arguments: Mapping[str, Any], params: Mapping[str, int]
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays whose dimensions a function has joined, in the shapes of callers: a version may have joined others.

    Those of another size are left as they are: the version refuses them.
    """
    joined = (each for each in function.arguments if isinstance(each, ArrayArgument) and each.passed is not None)
    shapes = {each.name: shape_value(each.passed_extents, params) for each in joined if each.name in arguments}
    fitting = {name: shape for name, shape in shapes.items() if arguments[name].size == math.prod(shape)}
    return {name: arguments[name].reshape(shape) for name, shape in fitting.items()}


def _holds(function: LoopFunction, version: Version, given: Mapping[str, Any]) -> bool:
    """Whether the conditions of a version hold in a call."""
    scalars = {each.name: each.dtype for each in function.arguments if isinstance(each, ScalarArgument)}
    types = {**dict.fromkeys(function.params, int64), **scalars}
    frame = Frame({name: dtype.numpy.type(given[name]) for name, dtype in types.items() if name in given}, {})
    with np.errstate(all="ignore"):
        return all(Evaluator(frame)(condition) for condition in version.conditions)


def _is(given: Any, value: bool | int | float) -> bool:
    """Whether a number is this one, with its sign."""
    return bool(given == value) and bool(np.signbit(float(given)) == np.signbit(float(value)))


def _packed(
    function: LoopFunction, arguments: Mapping[str, Any], params: Mapping[str, int], seed: int
) -> dict[str, np.ndarray[Any, Any]]:
    """The operands that a function takes packed, made from the arrays that are given for them."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for pack in function.companions.packs:
        source, *kept = (argument for argument in pack.arguments if isinstance(argument, ArrayArgument))
        if source.name in arguments:
            sizes = {name: params[name] for name in pack.params}
            made = {each.name: np.zeros(shape_value(each.extents, sizes), each.dtype.numpy) for each in kept}
            run(pack, {source.name: arguments[source.name], **made}, sizes, seed)
            found |= made
    return found


class Host(Interpreter):
    """The host's part of a function."""

    def __init__(
        self,
        function: LoopFunction,
        choice: random.Random,
        queues: Queues,
        threads: int | None = None,
        array_steps: ArraySteps | None = None,
    ) -> None:
        super().__init__(choice, threads, array_steps)
        self.kernels = {kernel.name: kernel for kernel in function.gpus.kernels}
        self.queues = queues
        self.events: dict[str, Marks] = {}

    def visit_launch(self, node: Launch, frame: Frame) -> Steps:
        frame.where = f"the launch of {node.kernel}"
        kernel = self.kernels.get(node.kernel)
        if kernel is None:
            raise InterpretError(f"{frame.where}: there is no such kernel")
        x, y, z = map(Evaluator(frame).integer, node.grid)
        if len(node.values) != len(kernel.params) + len(kernel.scalars) or len(node.arrays) != len(kernel.arrays):
            raise InterpretError(f"{frame.where} passes the wrong number of arguments")
        values = [Evaluator(frame)(value) for value in node.values]
        arrays = [_existing(name, frame) for name in node.arrays]
        steps = launched(kernel, (x, y, z), values, arrays, node.device, self.queues.choice)
        self.queues.put(QueuedOperation((node.device, node.stream), steps))
        yield None

    def visit_copy(self, node: Copy, frame: Frame) -> Steps:
        frame.where = node.statement
        target = _at(_existing(node.target, frame), node.target_device, node.statement)
        source = _at(_existing(node.source, frame), node.source_device, node.statement)
        extents, into, first = (_integers(some, frame) for some in (node.extents, node.into, node.first))
        steps = _copied(target, into, source, first, extents, node.statement)
        operation = QueuedOperation((node.device, node.stream), steps)
        self.queues.put(operation)
        if not node.asynchronous:
            self.queues.until(operation)
        yield None

    def visit_events(self, node: Events, frame: Frame) -> OwnSteps:
        frame.where = f"the events {node.name}"
        shape = _integers(node.extents, frame)
        self.events[node.name] = {tuple(map(int, index)): None for index in np.ndindex(*(max(0, n) for n in shape))}
        yield Nested(node.body, frame)
        del self.events[node.name]

    def visit_record(self, node: Record, frame: Frame) -> Steps:
        marks, index = self._event(node.event, node.indices, frame)
        marks[index] = mark = QueuedOperation((node.device, node.stream), iter(()))
        self.queues.put(mark)
        yield None

    def visit_await(self, node: Await, frame: Frame) -> Steps:
        frame.where = node.statement
        marks, index = self._event(node.event, node.indices, frame)
        mark = marks[index]
        if mark is not None and node.stream is None:
            self.queues.until(mark)
        elif mark is not None and node.stream is not None:
            self.queues.put(QueuedOperation((node.device, node.stream), iter(()), (mark,)))
        yield None

    def _event(self, name: str, indices: Sequence[Expr], frame: Frame) -> tuple[Marks, tuple[int, ...]]:
        marks, index = self.events.get(name, {}), _integers(indices, frame)
        if index not in marks:
            raise InterpretError(f"{frame.where} uses the event {name}{list(index)}, which does not exist there")
        return marks, index


def _integers(expressions: Sequence[Expr], frame: Frame) -> tuple[int, ...]:
    return tuple(map(Evaluator(frame).integer, expressions))


def _existing(name: str, frame: Frame) -> Array:
    if name not in frame.arrays:
        raise InterpretError(f"{frame.where} uses the buffer {name}, which does not exist there")
    return frame.arrays[name]


def _at(array: Array, device: int | None, where: str) -> Array:
    if array.device != device:
        raise InterpretError(f"{where} takes {array.name} to be on device {device}; it is on {array.device}")
    return array


def _copied(
    target: Array, into: Sequence[int], source: Array, first: Sequence[int], extents: Sequence[int], where: str
) -> Steps:
    """Copy a box, a step for each index of its outermost dimension."""
    if min(extents, default=1) <= 0:
        return
    inner = np.ix_(*(np.arange(extent) for extent in extents[1:]))
    for outer in range(extents[0]) if extents else ():
        taken = (first[0] + outer, *(start + step for start, step in zip(first[1:], inner, strict=True)))
        put = (into[0] + outer, *(start + step for start, step in zip(into[1:], inner, strict=True)))
        yield None
        target.write(put, source.read(taken, where), where)
    if not extents:
        target.write((), source.read((), where), where)
