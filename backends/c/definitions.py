"""Functions in C: a definition, and what a function of the user needs."""

from __future__ import annotations

from itertools import islice, product

import cgen

from tiramisu_py.algorithm.expressions import ExternFunction


class Definition(cgen.Collection):
    """A function from the text of its declaration."""

    def __init__(self, declaration: str, body: cgen.Block) -> None:
        super().__init__([cgen.Line(declaration), body])


#: An assertion lists at most so many signatures.
_MOST_CASES = 64
#: The C types that are as wide as the one that an integer has, and other types to C.
_SAME = {"int64_t": ("long", "long long"), "uint64_t": ("unsigned long", "unsigned long long")}


def of_user(extern: ExternFunction) -> list[cgen.Generable]:
    """What a function of the user needs: its header, its source, or else its declaration; that it is as declared."""
    return [*given(extern), *signature_check(extern), cgen.Line()]


def given(extern: ExternFunction) -> list[cgen.Generable]:
    """What says to C what a function of the user is."""
    lines: list[cgen.Generable] = []
    if extern.header:
        system = extern.header.startswith("<")
        lines.append(cgen.Include(extern.header.strip('<>"'), system=system))
    if extern.source:
        lines += [cgen.Line(line) for line in extern.source.strip("\n").split("\n")]
    if not lines:
        lines.append(cgen.Statement(prototype(extern)))
    return lines


def prototype(extern: ExternFunction) -> str:
    """The declaration of a function of the user, as `tm.extern` says it."""
    return f"{extern.result.c_name} {extern.name}({', '.join(_arguments(extern))})"


def signature_check(extern: ExternFunction) -> list[cgen.Generable]:
    """The assertion that a function is as `tm.extern` says; a macro is taken on trust."""
    kinds = [_SAME.get(kind, (kind,)) for kind in (extern.result.c_name, *_arguments(extern))]
    pointers = (f"{result} (*)({', '.join(arguments)})" for result, *arguments in product(*kinds))
    cases = ", ".join(f"{pointer}: 1" for pointer in islice(pointers, _MOST_CASES))
    holds = f"_Generic(&{extern.name}, {cases}, default: 0)"
    return [
        cgen.Line(f"#ifndef {extern.name}"),
        cgen.Statement(f'_Static_assert({holds}, "tm.extern says {prototype(extern)}")'),
        cgen.Line("#endif"),
    ]


def _arguments(extern: ExternFunction) -> list[str]:
    return [dtype.c_name for dtype in extern.arguments] or ["void"]
