"""Programs that are numbered in another order, ``tl.swizzle2d``: each program takes the part of another one.

Values do not depend on the order in which programs run. As the swizzle of a whole grid gives each program the numbers
of one other, its values are those of programs with these numbers: the iterators of the grid stand for what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import islpy as isl

from tiramisu_py.algorithm.declarations import Algorithm, Origin
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import DeclarationError
from tiramisu_py.language.ir.nodes import Instruction, Operand
from tiramisu_py.language.values.uses import Uses
from tiramisu_py.records import dataclass
from tiramisu_py.sets import smallest


@dataclass(frozen=True, eq=False)
class Swizzle:
    """The two axes of the grid whose programs are numbered anew, in groups of so many rows; where it is written."""

    axes: tuple[int, int]
    group: int
    extents: tuple[Operand, Operand]
    origin: Origin


def swizzles_of(uses: Uses, origin: Callable[[int], Origin]) -> list[Swizzle]:
    """The swizzles of a kernel, which are one; raises `DeclarationError` where they may not number programs one by one.

    No program's own number is used beside its new one, and all swizzles are equal.
    """
    found: list[Swizzle] = []
    for node in uses.nodes:
        if isinstance(node, Instruction) and node.op == "swizzle2d":
            axes = [uses.program_axis(each) for each in node.operands[:2]]
            if None in axes or axes[0] == axes[1]:
                raise DeclarationError(
                    f"{origin(node.line)}: tl.swizzle2d numbers the programs of a grid anew: give it two of their "
                    "numbers as they are, tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), "
                    "tl.num_programs(1), group), and launch a grid of two axes"
                )
            first, second = axes
            assert first is not None and second is not None
            found.append(
                Swizzle((first, second), node.static[0], (node.operands[2], node.operands[3]), origin(node.line))
            )
    for each in found[1:]:
        if (each.axes, each.group) != (found[0].axes, found[0].group):
            raise DeclarationError(f"{each.origin} numbers programs in another order than {found[0].origin}: use one")
    if found:
        _check_no_other(uses, found[0], origin)
    return found


def _check_no_other(uses: Uses, swizzle: Swizzle, origin: Callable[[int], Origin]) -> None:
    """Refuse the number that a program had before beside the new one."""
    for node in uses.nodes:
        if not isinstance(node, Instruction) or node.op != "get_program_id" or node.static[0] not in swizzle.axes:
            continue
        assert node.result is not None
        for user in uses.users.get(node.result, ()):
            if not isinstance(user, Instruction) or user.op != "swizzle2d" or node.result in user.operands[2:]:
                raise DeclarationError(
                    f"{origin(user.line)} uses tl.program_id({node.static[0]}) beside the number that tl.swizzle2d "
                    "gives the program: use only the new one"
                )


def check_extents(
    algorithm: Algorithm, swizzles: Sequence[Swizzle], grid: Sequence[Expr], meaning: Callable[[Operand], Expr]
) -> None:
    """Refuse a swizzle of another extent than that of the grid; raises `DeclarationError` with sizes."""
    reader = Affine(algorithm.frame(None, ()), {})
    for swizzle in swizzles:
        for axis, operand in zip(swizzle.axes, swizzle.extents, strict=True):
            given, programs = meaning(operand), grid[axis]
            wanted = f"give tl.num_programs({axis})"
            try:
                equal = reader.condition(given == programs).params()
            except NotAffine:
                raise DeclarationError(
                    f"{swizzle.origin}: the extent {given} is not seen to be the {programs} programs along axis "
                    f"{axis} of the grid: {wanted}"
                ) from None
            wrong = algorithm.context.params().subtract(equal)
            if not wrong.is_empty():
                raise DeclarationError(
                    f"{swizzle.origin}: the extent {given} is not that of axis {axis} of the grid, which has "
                    f"{programs} programs: {_sizes(wrong, algorithm)}; {wanted}"
                )


def _sizes(wrong: isl.Set, algorithm: Algorithm) -> str:
    """The smallest sizes at which both differ."""
    found = smallest.smallest_params(wrong)
    return "as for " + ", ".join(f"{name} = {value}" for name, value in found.items()) if found else "whatever is given"
