"""Calls of C functions over whole arrays, by their equivalents in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiramisu_py.algorithm.evaluate.stage_values import returned
from tiramisu_py.algorithm.words.stages import READS, WRITES, ArrayParameter, StrideParameter
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.strands import Steps
from tiramisu_py.ir import ArrayCall, ArraySection


def call_steps(node: ArrayCall, frame: Frame) -> Steps:
    """The steps of a call: it reads all that it reads, and then stores."""
    frame.where = node.statement
    evaluate = Evaluator(frame)
    names = [name for name, _ in node.stage.array_parameters]
    boxes = {
        name: _Box(frame.array(array), section, evaluate, node.statement)
        for name, array, section in zip(names, node.arrays, node.sections, strict=True)
    }
    scalars = iter([evaluate(e) for e in node.scalars])
    given: list[Any] = []
    for name, of in node.stage.parameters:
        if isinstance(of, ArrayParameter) and of.does != WRITES:
            given.append(boxes[name].read(tolerant=of.does == READS and not boxes[name].section.full))
        elif not isinstance(of, ArrayParameter | StrideParameter):
            given.append(next(scalars))
    yield None
    stored = [name for name, _ in node.stage.stored]
    found = returned(node.stage, given, boxes[stored[0]].shape)
    for name in stored:
        boxes[name].write(found if len(stored) == 1 else found[name])
        yield None


class _Box:
    """A part of an array, element by element."""

    def __init__(self, array: Array, section: ArraySection, evaluate: Evaluator, where: str) -> None:
        self.array, self.section, self.where = array, section, where
        self.shape = tuple(map(evaluate.integer, section.extents))
        self.first = tuple(map(evaluate.integer, section.first))

    def _element(self, at: tuple[int, ...]) -> tuple[int, ...]:
        moved = zip(at, self.section.steps, strict=True)
        by = [tuple(k * step for step in steps) for k, steps in moved]
        return tuple(start + sum(each) for start, *each in zip(self.first, *by, strict=True))

    def read(self, tolerant: bool) -> np.ndarray[Any, Any]:
        """Its elements; those without a value are poison, if it is `tolerant` of them."""
        dtype = self.array.data.dtype
        found = np.zeros(self.shape, dtype)
        if tolerant and found.size:
            found[...] = np.nan if dtype.kind == "f" else 85
        for at in np.ndindex(*self.shape):
            element = self._element(at)
            if not tolerant or self.array.has(element):
                found[at] = self.array.read(element, self.where)
        return found

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Store all its elements."""
        for at in np.ndindex(*self.shape):
            self.array.write(self._element(at), values[at], self.where)
