"""Instructions that multiply small matrices: the matrix registers of cores, and the tensor cores of GPUs.

An instruction adds the product of a block of `rows` times `terms` and one of `terms` times `columns` to a block of
`rows` times `columns`. On a GPU the threads of a warp, 4 along x and 8 along y, run it together, and `rows` and
`columns` are those of one thread: row ``8*h + y``, and column ``2*x + p``.
"""

from __future__ import annotations

from tiramisu_py.algorithm.types import DType, bfloat16, float16, float32, int8, int32, uint8
from tiramisu_py.errors import CommandError
from tiramisu_py.records import dataclass

#: The threads of a block along x and y that run an instruction of a GPU together.
WARP_SHAPE = (4, 8)


@dataclass(frozen=True)
class TensorInstruction:
    """An instruction: its extents, and the types of its operands, each pair with the type of the sums.

    `term_bytes` are the bytes of one row of the left operand. `capability` is the least compute capability of a GPU
    that has it; None is an instruction of cores. `given_up` says what becomes of the bits of floats.
    """

    name: str
    rows: int
    columns: int
    term_bytes: int
    types: tuple[tuple[DType, DType, DType], ...]
    given_up: str
    capability: int | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether threads of a GPU run it."""
        return self.capability is not None

    def terms(self, operand: DType) -> int:
        """The number of terms that it adds to each sum."""
        return self.term_bytes // operand.bytes

    def extents(self, operand: DType) -> tuple[int, int, int]:
        """The iterations of the loops over rows, columns and terms."""
        return self.rows, self.columns, self.terms(operand)

    def sums(self, left: DType, right: DType) -> DType | None:
        """The type in which it sums products of these types; None if it does not multiply them."""
        return next((total for a, b, total in self.types if (a, b) == (left, right)), None)

    @property
    def known_types(self) -> str:
        """The products that it computes, in words."""
        return ", ".join(f"{a} * {b} in {total}" for a, b, total in self.types)


_BYTES = tuple((a, b, int32) for a in (uint8, int8) for b in (uint8, int8))
_AS_ADDED = "terms are added in the order, and with the roundings, of the GPU's tensor cores"
_INSTRUCTIONS = (
    TensorInstruction(
        "amx", 16, 16, 64, (*_BYTES, (bfloat16, bfloat16, float32)),
        "even and odd terms are added apart, and numbers below 2**-126 count as zero",
    ),
    TensorInstruction(
        "m16n8k16", 2, 2, 32, ((float16, float16, float32), (bfloat16, bfloat16, float32)), _AS_ADDED, 80
    ),
    TensorInstruction("m16n8k8", 2, 2, 16, ((float16, float16, float32),), _AS_ADDED, 75),
    TensorInstruction(
        "m16n8k8.tf32", 2, 2, 32, ((float32, float32, float32),),
        f"factors keep 10 of their 23 bits after the point, and {_AS_ADDED}", 80,
    ),
)  # fmt: skip
TENSOR_INSTRUCTIONS = {each.name: each for each in _INSTRUCTIONS}


def tensor_instruction(name: object) -> TensorInstruction:
    """The instruction of this name; raises `CommandError`."""
    if isinstance(name, str) and name in TENSOR_INSTRUCTIONS:
        return TENSOR_INSTRUCTIONS[name]
    known = ", ".join(f'"{each}"' for each in TENSOR_INSTRUCTIONS)
    raise CommandError(f"there is no instruction {name!r} on matrices: choose one of {known}")


def capability_of(name: str) -> int:
    """The least compute capability of a GPU that has an instruction, 80 for 8.0; 0 for those of cores."""
    return TENSOR_INSTRUCTIONS[name].capability or 0
