"""Functions in C: a definition, and what a function of the user needs."""

from __future__ import annotations

import cgen

from tiramisu_py.algorithm.expressions import ExternFunction


class Definition(cgen.Collection):
    """A function from the text of its declaration."""

    def __init__(self, declaration: str, body: cgen.Block) -> None:
        super().__init__([cgen.Line(declaration), body])


def of_user(extern: ExternFunction) -> list[cgen.Generable]:
    """What a function of the user needs: its header, its source, or else its declaration."""
    lines: list[cgen.Generable] = []
    if extern.header:
        system = extern.header.startswith("<")
        lines.append(cgen.Include(extern.header.strip('<>"'), system=system))
    if extern.source:
        lines += [cgen.Line(line) for line in extern.source.strip("\n").split("\n")]
    if not lines:
        arguments = ", ".join(dtype.c_name for dtype in extern.arguments) or "void"
        lines.append(cgen.Statement(f"{extern.result.c_name} {extern.name}({arguments})"))
    return [*lines, cgen.Line()]
