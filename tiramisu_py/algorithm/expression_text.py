"""Expressions as source text: in the notation of Python, with the brackets that its precedences need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr

#: The pieces of an expression's text: words and operands; an operand has the precedence below which it is bracketed.
Pieces = list["str | tuple[Expr, int]"]

#: How tightly operators bind, as in Python.
BINDING = {
    "<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1, "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5,
    "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7, "**": 9,
}  # fmt: skip
NEGATION = 8
TIGHTEST = 10

#: The approximate maximum length of a text: a shared subexpression may occur in it many times.
_LONGEST = 100_000


def text_of(expression: Expr, longest: int = _LONGEST) -> str:
    """An expression as source text; a text that is longer is cut at the end."""
    words: list[str] = []
    length, waiting = 0, Pieces([(expression, 0)])
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str):
            words.append(piece)
            length += len(piece)
            if length > longest:
                return "".join([*words, " ..."])
            continue
        e, least = piece
        inner = e.pieces()
        waiting += reversed(["(", *inner, ")"] if e.binding() < least else inner)
    return "".join(words)


def listed(operands: Sequence[Expr]) -> Pieces:
    """The pieces of a comma-separated list of operands."""
    found: Pieces = []
    for operand in operands:
        found += [", ", (operand, 0)] if found else [(operand, 0)]
    return found
