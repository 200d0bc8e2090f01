"""Where an operation on unified tensors is computed, and what its result is: one function over a table.

The table of the thesis (4.2) is lost in its text. This is a reconstruction of it, from what the text around it says:

- an operand on a GPU leaves nothing but the GPU, and a result there; a CPU tensor with elements beside it is an error,
  as for PyTorch's own tensors, while a number on the CPU is none;
- without one, a CPU tensor with elements leaves nothing but the CPU, and the result is unified if all unified operands
  have the affinity of the host;
- otherwise the affinity of the unified operands decides: of the host, the CPU and a unified result; of a GPU, if one of
  them has it, the GPU and a result there.

Source: Wu, "Code generation and runtime techniques for enabling data-efficient deep learning training on GPUs", PhD
thesis, UIUC 2024, section 4.4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from tiramisu_py.errors import ArgumentError


class TensorKind(Enum):
    """Kinds of operands: on a GPU, on the CPU, a number on the CPU, unified with the affinity of the host or a GPU."""

    CUDA = "CUDA tensor"
    CPU = "CPU tensor"
    SCALAR = "number on the CPU"
    HOST_UNIFIED = "unified tensor with the affinity of the host"
    GPU_UNIFIED = "unified tensor with the affinity of a GPU"


class Placement(NamedTuple):
    """Where an operation is computed, "cpu" or "cuda", and what its result is: "cpu", "cuda" or "unified"."""

    computed: str
    result: str


def placement(operands: Iterable[TensorKind]) -> Placement:
    """The placement of an operation on operands of these kinds; raises `ArgumentError` where there is none."""
    kinds = set(operands)
    unified = kinds & {TensorKind.HOST_UNIFIED, TensorKind.GPU_UNIFIED}
    if TensorKind.CUDA in kinds:
        if TensorKind.CPU in kinds:
            raise ArgumentError(
                "an operand is on a GPU, and another is a CPU tensor with elements: give that to the GPU by "
                '.to("cuda"), or make it unified by tiramisu_py.torch.unified(..)'
            )
        return Placement("cuda", "cuda")
    if TensorKind.CPU in kinds:
        return Placement("cpu", "unified" if unified == {TensorKind.HOST_UNIFIED} else "cpu")
    if TensorKind.GPU_UNIFIED in kinds:
        return Placement("cuda", "cuda")
    return Placement("cpu", "unified" if unified else "cpu")
