"""Loops of proven GPU programs without one of their barriers or waits: the adversarial machine must notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.programs.gpu.pipelines import CASES, Case
from tests.schedule.devices.test_gpu_pipelines import arguments, scheduled
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import Await, Barrier, Block, LoopFunction
from tiramisu_py.lower import lower

NAMES = (
    "blur row by row on three sequences",
    "blur, the first stage in shared memory",
    "transposed through a padded tile",
    "neighbours in shared memory",
    "matrix product through shared tiles",
    "two operation sequences",
)
SEEDS = range(9)


def nodes(node: Any) -> Iterator[Any]:
    """A statement and all that are below it."""
    yield node
    for field in fields(node):
        below = getattr(node, field.name)
        for child in below if isinstance(below, tuple) else (below,):
            if hasattr(child, "__dataclass_fields__") and field.name in ("body", "then", "otherwise"):
                yield from nodes(child)


def without(node: Any, gone: object) -> Any:
    """The same with one statement left out."""
    if node is gone:
        return Block(())
    changed = {}
    for name in ("body", "then", "otherwise"):
        below = getattr(node, name, None)
        if isinstance(below, tuple):
            changed[name] = tuple(without(child, gone) for child in below)
        elif below is not None:
            changed[name] = without(below, gone)
    return replace(node, **changed) if changed else node


def mutants(function: LoopFunction) -> Iterator[LoopFunction]:
    """The function without one wait, or without one barrier of a kernel."""
    for wait in (node for node in nodes(function.body) if isinstance(node, Await)):
        yield replace(function, body=without(function.body, wait))
    for number, kernel in enumerate(function.gpus.kernels):
        for barrier in (node for node in nodes(kernel.body) if isinstance(node, Barrier)):
            changed = replace(kernel, body=without(kernel.body, barrier))
            yield replace(
                function,
                gpus=replace(
                    function.gpus,
                    kernels=(*function.gpus.kernels[:number], changed, *function.gpus.kernels[number + 1 :]),
                ),
            )


def is_wrong(s: SimpleNamespace, function: LoopFunction, sizes: dict[str, int], seed: int) -> bool:
    arrays = arguments(s, sizes)
    wanted = s.f.evaluate(**arrays, **sizes)
    got = np.zeros_like(wanted)
    try:
        run(function, {**arrays, function.outputs[0]: got}, sizes, seed)
    except InterpretError:
        return True
    return not np.array_equal(got, wanted)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in NAMES], ids=str)
def test_each_barrier_and_each_wait_is_missed_when_it_is_gone(case: Case) -> None:
    s = scheduled(case)
    function = lower(s.f.completed)
    tried = [dict.fromkeys(s.params, size) for size in (8, case.sizes[0])]  # some waits are for no elements at all
    runs = [(sizes, seed) for sizes in tried for seed in SEEDS]
    assert not any(is_wrong(s, function, *one) for one in runs)
    found = list(mutants(function))
    assert found
    for mutant in found:
        assert any(is_wrong(s, mutant, *one) for one in runs)
