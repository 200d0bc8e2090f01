"""Functions in C: their definitions, and the declarations of the user's own functions (`tm.extern`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

import cgen

from tiramisu_py.algorithm.words.stages import (
    ArrayParameter,
    ExternStage,
    ForeignFunction,
    Parameter,
    StrideParameter,
)


class Definition(cgen.Collection):
    """A function definition, from the text of its declaration and its body."""

    def __init__(self, declaration: str, body: cgen.Block) -> None:
        super().__init__([cgen.Line(declaration), body])


#: The most signatures that one assertion lists.
_MOST_CASES = 64
#: The C types of the same width as an integer's own type, which C still treats as distinct types.
_SAME = {"int64_t": ("long", "long long"), "uint64_t": ("unsigned long", "unsigned long long")}


def linked(externs: Sequence[ForeignFunction]) -> tuple[str, ...]:
    """The flags by which the libraries of the user's functions are linked."""
    found = (library for extern in externs if isinstance(extern, ExternStage) for library in extern.libraries)
    return tuple(dict.fromkeys(f"-l{library}" for library in found))


def of_user(extern: ForeignFunction) -> list[cgen.Generable]:
    """The lines for a user's function: its header, its source, or else its declaration; then the signature check."""
    return [*given(extern), *signature_check(extern), cgen.Line()]


def given(extern: ForeignFunction) -> list[cgen.Generable]:
    """The lines that declare a user's function in C: its header and its source, or a prototype if it has neither."""
    lines: list[cgen.Generable] = []
    if extern.header:
        system = extern.header.startswith("<")
        lines.append(cgen.Include(extern.header.strip('<>"'), system=system))
    if extern.source:
        lines += [cgen.Line(line) for line in extern.source.strip("\n").split("\n")]
    if not lines:
        lines.append(cgen.Statement(prototype(extern)))
    return lines


def prototype(extern: ForeignFunction) -> str:
    """The declaration of a user's function, as `tm.extern` or `tm.extern_stage` gives it."""
    return f"{_result(extern)} {extern.name}({', '.join(_arguments(extern))})"


def signature_check(extern: ForeignFunction) -> list[cgen.Generable]:
    """The assertion that a function has the signature given to `tm.extern`; a macro is not checked."""
    kinds = [_SAME.get(kind, (kind,)) for kind in (_result(extern), *_arguments(extern))]
    pointers = (f"{result} (*)({', '.join(arguments)})" for result, *arguments in product(*kinds))
    cases = ", ".join(f"{pointer}: 1" for pointer in islice(pointers, _MOST_CASES))
    holds = f"_Generic(&{extern.name}, {cases}, default: 0)"
    return [
        cgen.Line(f"#ifndef {extern.name}"),
        cgen.Statement(f'_Static_assert({holds}, "{declarer(extern)} says {prototype(extern)}")'),
        cgen.Line("#endif"),
    ]


def declarer(extern: ForeignFunction) -> str:
    """The function that declares it."""
    return "tm.extern_stage" if isinstance(extern, ExternStage) else "tm.extern"


def _result(extern: ForeignFunction) -> str:
    return "void" if isinstance(extern, ExternStage) else extern.result.c_name


def _arguments(extern: ForeignFunction) -> list[str]:
    if isinstance(extern, ExternStage):
        return [_parameter(of) for _, of in extern.parameters]
    return [dtype.c_name for dtype in extern.arguments] or ["void"]


def _parameter(of: Parameter) -> str:
    if not isinstance(of, ArrayParameter):
        return of.dtype.c_name if isinstance(of, StrideParameter) else of.c_name
    return f"{of.dtype.c_name} *" if of.is_stored else f"const {of.dtype.c_name} *"
