"""What all launches pass as one number is in the kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs.loop_ir.gpu_files import block, kernel, launch, let, on_gpu, parameter
from tests.programs.loop_ir.short_names import function, number, result, size, store, var
from tiramisu_py.algorithm.expressions import Iter, constant
from tiramisu_py.ir import Block, KernelFunction, Launch, LoopFunction, Node, Store
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.passes.kernels.launch_constants import with_literals


def each(*inside: Node) -> KernelFunction:
    return kernel("each", "N k", [parameter("y", size("N"), constant=False)], (1, 1, 1), *inside)


def launched(of: KernelFunction, *values: int) -> LoopFunction:
    starts = tuple(replace(start, values=(start.values[0], number(k))) for k in values for start in [launch(of, (1,))])
    body = on_gpu("y@gpu0", (size("N"),), Block(starts))
    return with_literals(function("f", "N", [result("y", size("N"))], body, kernels=(of,), devices=1))


def parameters(f: LoopFunction) -> tuple[tuple[str, ...], list[int]]:
    return f.gpus.kernels[0].params, [len(node.values) for node in walk(f.body) if isinstance(node, Launch)]


def test_a_number_that_every_launch_passes_is_no_parameter() -> None:
    f = launched(each(store("y", var("k"), 1.0)), 3, 3)
    assert parameters(f) == (("N",), [1, 1])
    (stored,) = (node for node in walk(f.gpus.kernels[0].body) if isinstance(node, Store))
    assert constant(stored.indices[0]) == 3


def test_numbers_that_differ_stay_a_parameter() -> None:
    assert parameters(launched(each(store("y", var("k"), 1.0)), 3, 4)) == (("N", "k"), [2, 2])


@pytest.mark.parametrize("values", [(5,), ()])
def test_a_name_that_means_something_else_inside_and_a_kernel_that_nothing_launches_are_left(
    values: tuple[int, ...],
) -> None:
    of = each(let("k", block(), store("y", var("k"), 1.0)))
    f = launched(of, *values)
    assert parameters(f) == (("N", "k"), [2] * len(values))
    (stored,) = (node for node in walk(f.gpus.kernels[0].body) if isinstance(node, Store))
    assert isinstance(stored.indices[0], Iter)
