"""C text with its precedence, so that parentheses stand only where C needs them."""

from __future__ import annotations

from typing import NamedTuple

TERNARY, OR, AND, BIT_OR, BIT_XOR, BIT_AND, EQUALITY, RELATION, SHIFT, SUM, PRODUCT, UNARY, POSTFIX = range(13)

PRECEDENCE = {
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT,
    "<": RELATION, "<=": RELATION, ">": RELATION, ">=": RELATION, "==": EQUALITY, "!=": EQUALITY,
    "&": BIT_AND, "|": BIT_OR, "^": BIT_XOR, "<<": SHIFT, ">>": SHIFT, "&&": AND, "||": OR,
}  # fmt: skip
#: Operators whose operands get parentheses at any precedence, since compilers warn without them.
_EXPLICIT = {"&", "|", "^", "<<", ">>", "&&", "||", "<", "<=", ">", ">=", "==", "!="}


class Code(NamedTuple):
    """A C expression."""

    text: str
    precedence: int = POSTFIX

    def at(self, precedence: int) -> str:
        """The text, in parentheses if its operator binds less tightly than `precedence`."""
        return self.text if self.precedence >= precedence else f"({self.text})"


def infix(op: str, left: Code, right: Code, tight: bool = False) -> Code:
    """``left op right``."""
    precedence = PRECEDENCE[op]
    a, b = left.at(precedence), right.at(precedence + 1)
    if op in _EXPLICIT:
        a, b = _operand(op, left), _operand(op, right)
    return Code(f"{a}{op}{b}" if tight else f"{a} {op} {b}", precedence)


def _operand(op: str, code: Code) -> str:
    precedence = PRECEDENCE[op]
    if op in ("&&", "||"):
        return code.at(precedence if code.precedence == precedence else EQUALITY)
    return code.at(SUM if precedence in (RELATION, EQUALITY) else UNARY)


def prefix(op: str, operand: Code) -> Code:
    """``op operand``."""
    text = operand.at(UNARY)
    return Code(f"{op}({text})" if text.startswith(op) and op == "-" else f"{op}{text}", UNARY)


def cast(c_type: str, operand: Code) -> Code:
    """``(c_type)operand``."""
    return Code(f"({c_type}){operand.at(UNARY)}", UNARY)


def call(function: str, *arguments: Code | str) -> Code:
    """``function(arguments)``."""
    return Code(f"{function}({', '.join(a if isinstance(a, str) else a.text for a in arguments)})")
