"""Where operations on unified tensors are computed: every set of operands, beside the rules one by one."""

from __future__ import annotations

import itertools

import pytest

import tiramisu_py as tm
from tiramisu_py.torch import unified
from tiramisu_py.torch.placement import Placement, TensorKind, placement
from tiramisu_py.torch.unified_tensors import kind_of

CUDA, CPU, SCALAR, HOST, GPU = TensorKind


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_operands_of_all_kinds(count: int) -> None:
    for operands in itertools.product(TensorKind, repeat=count):
        if CUDA in operands and CPU in operands:
            with pytest.raises(tm.ArgumentError, match="an operand is on a GPU, and another is a CPU tensor with elem"):
                placement(operands)
        elif CUDA in operands:
            assert placement(operands) == Placement("cuda", "cuda")
        elif CPU in operands:
            unified = HOST in operands and GPU not in operands
            assert placement(operands) == Placement("cpu", "unified" if unified else "cpu")
        elif GPU in operands:
            assert placement(operands) == Placement("cuda", "cuda")
        else:
            assert placement(operands) == Placement("cpu", "unified" if HOST in operands else "cpu")


def test_tensors_have_the_kinds_of_the_table_also_fake_ones_of_a_gpu() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")
    with torch._subclasses.FakeTensorMode():
        cuda = torch.empty(3, 2, device="cuda")
        made = {CUDA: cuda, CPU: torch.empty(3, 2), SCALAR: torch.empty(())}
        assert {kind: kind_of(each) for kind, each in made.items()} == {kind: kind for kind in made}
        for one, other in itertools.product(
            made, repeat=2
        ):  # what PyTorch itself does with operands that are not unified
            try:
                found = torch.add(made[one], made[other]).device.type
            except RuntimeError:
                assert {one, other} == {CUDA, CPU}
            else:
                assert placement([one, other]).result == found, (one, other)
    held = unified(torch.ones(3, 2), device="simulator")
    assert (kind_of(held), kind_of(held.affinity("gpu"))) == (HOST, GPU)


def test_the_order_of_operands_does_not_matter() -> None:
    for operands in itertools.combinations(TensorKind, 3):
        if not {CUDA, CPU} <= {*operands}:
            assert len({placement(order) for order in itertools.permutations(operands)}) == 1
