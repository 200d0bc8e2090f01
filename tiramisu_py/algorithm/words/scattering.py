"""A term together with the place that it goes to."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Expr, Operand
from tiramisu_py.errors import DeclarationError
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class ScatteredTerm:
    """The term of a reduction, and the indices of the value that it goes to."""

    term: Operand | tuple[Operand, ...]
    at: Sequence[Operand]

    def __str__(self) -> str:
        return f"tm.scatter({self.term}, at={_listed(self.at)})"

    def __tiramisu_expr__(self) -> Expr:
        raise DeclarationError(
            f"{self} is a term and its place, not a value: it is the whole expr= of f.reduction(...); elsewhere, as in "
            "a group, say the place as a condition, where=b == level[r, c]"
        )


@own_call
def scatter(term: Operand | tuple[Operand, ...], at: Sequence[Operand]) -> ScatteredTerm:
    """The term of a reduction that goes to the value with the indices `at`, and to no other.

    ::

        h = f.reduction("h", {b: 256}, {r: R, c: C}, tm.sum, tm.scatter(1, at=[level[r, c]]))

    There is an index for each iterator of the reduction's values: a value that is read, a form of the iterators of the
    terms, or the iterator itself, where a term goes to all its values. A term whose place is outside of the domain is
    left out. `Function.scatter` is the same in one word.
    """
    return ScatteredTerm(term, at)


def _listed(at: object) -> str:
    return f"[{', '.join(map(str, at))}]" if isinstance(at, list | tuple) else repr(at)
