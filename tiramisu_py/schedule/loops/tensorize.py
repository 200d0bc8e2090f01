"""The command that runs three loops of a product by an instruction on small matrices."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Iter
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import TensorLoop
from tiramisu_py.program.machine.tensor_instructions import TensorInstruction, tensor_instruction
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.loops.tags import tagged


@dataclass(frozen=True, eq=False)
class Tensorize(OnStatements):
    """Run three loops of a product by an instruction on small matrices: AMX of cores, or a GPU's tensor cores.

    ::

        for i in 0..16:               -->   tile of C += tile of A * tile of B
            for j in 0..16:
                for k in 0..64:
                    C[i, j] += A[i, k] * B[k, j]          (C.update.tensorize(i, j, k, "amx"))

    The loops are the innermost ones, in any order, of as many iterations as the instruction takes: `split` makes
    them. A tile that is not full stays loops. The term is a product of two values, each converted to the type of
    the sum; one depends on the row and the term, the other on the term and the column.

    =============== ================ ============================================================================
    instruction     rows, columns,   products, and the type of their sum
                    terms
    =============== ================ ============================================================================
    "amx"           16, 16, 64 bytes uint8 and int8, in any pair, in int32; bfloat16 in float32
    "m16n8k16"      2, 2, 16         float16, bfloat16 in float32 (a GPU from compute capability 8.0 on)
    "m16n8k8"       2, 2, 8          float16 in float32 (from 7.5 on)
    "m16n8k8.tf32"  2, 2, 8          float32 in float32, with 10 bits after the point in factors (from 8.0 on)
    =============== ================ ============================================================================

    Sums of integers are exact. Those of floats give up bits, since the instruction adds terms in an order of its
    own; the report names what else is given up.

    With ``"amx"`` the sums are in memory, a row's neighbours beside each other, and stay in registers around a loop
    that adds to the same tiles. So are the terms of a row of the left factor. The right one has the terms in
    groups of 4 bytes: 4 bytes, or 2 bfloat16, of one column together::

        B.store_in(panels, [j // 16, k // 4, j % 16, k % 4])

    The processor needs AMX, as Intel's have from Sapphire Rapids on; ``compile(target="sapphirerapids")`` compiles
    for it anywhere.

    On a GPU the 32 threads of a warp run the instruction together: the block has 4 threads along x and 8 along y,
    the sums are in registers, and ``rows`` and ``columns`` are those of one thread. Thread (x, y) has the rows y
    and y + 8 of a tile of 16 by 8, and the columns 2x and 2x + 1.

    `check()` refuses loops of other lengths, loops that are not the innermost ones, and operands that do not lie as
    the instruction takes them. Raises `CommandError` for terms that are no products, and types that it does not
    have.
    """

    rows: Iter
    columns: Iter
    terms: Iter
    instruction: str

    def applied(self, program: Program) -> Program:
        instruction = tensor_instruction(self.instruction)
        names = [loop_name(loop) for loop in (self.rows, self.columns, self.terms)]
        if len(set(names)) < 3:
            raise CommandError(f"tensorize takes three loops, over rows, columns and terms, not {', '.join(names)}")
        found = [s for s in statements(program, self.names(program)) if s.role is Role.UPDATE]
        if not found:
            raise CommandError(f"{self.of} adds no products: give tensorize the update of a reduction, C.update")
        for statement in found:
            self._check_term(program, statement, instruction)
            for axis, name in enumerate(names):
                loop = find(program, statement, name)
                if loop is None:
                    raise CommandError(f"no loop {name} here: {nest(program, statement)}")
                program = tagged(program, loop, TensorLoop(instruction.name, axis), self.text)
        return program

    def _check_term(self, program: Program, statement: Statement, instruction: TensorInstruction) -> None:
        """Refuse what is no sum of products of types that the instruction has."""
        computation = program.algorithm.computations[statement.source]
        if computation.op is not sum_:
            raise CommandError(
                f"{statement.handle} combines terms by {computation.op}, and {instruction.name} adds products: only "
                "sums are tensorized"
            )
        term = statement.body
        types = factors(statement)
        if types is None:
            raise CommandError(
                f"a term of {statement.handle} is {term}, no product of two reads, each converted to "
                f"{computation.dtype}: compute other factors as values of their own, which {statement.handle} reads"
            )
        if instruction.sums(*types) != computation.dtype:
            raise CommandError(
                f"{instruction.name} does not sum {types[0]} * {types[1]} in {computation.dtype}: it has "
                f"{instruction.known_types}"
            )
        if statement.guards:
            raise CommandError(
                f"{statement.handle} has terms under the condition {statement.guards[0]}, and {instruction.name} adds "
                "all terms of a tile: let a factor be zero where the condition does not hold"
            )


def factors(statement: Statement) -> tuple[DType, DType] | None:
    """The types of the two values whose product a term is; None for other terms."""
    term = statement.body
    if not isinstance(term, Binary) or term.op != "*":
        return None
    found = [e.operand if isinstance(e, Cast) and e.dtype == term.dtype else e for e in (term.left, term.right)]
    if not all(isinstance(e, Access) for e in found):
        return None
    return found[0].dtype, found[1].dtype
