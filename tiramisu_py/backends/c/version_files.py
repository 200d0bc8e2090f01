"""The versions of a function: several bodies, of which each call runs one.

A body with non-temporal stores is printed once, in a file that the source includes twice: `TM_BODY` is the name of the
version, and `tm_streams` says how it stores. (A constant argument would not do: compilers outline the bodies of
parallel loops before they inline anything.) A distributed function, or one that uses GPUs, has a single body, in which
`tm_streams` is a variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cgen
import numpy as np

from tiramisu_py.algorithm.types import int64
from tiramisu_py.backends.c import streaming_stores as streams
from tiramisu_py.backends.c.definitions import Definition
from tiramisu_py.backends.c.expressions.literals import literal
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import of_function
from tiramisu_py.backends.c.layout import text
from tiramisu_py.backends.c.statements import Statements
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.rewriting import used_names

if TYPE_CHECKING:
    from tiramisu_py.backends.c.emitter import Source

Lines = list[cgen.Generable]
#: The suffixes of the names of a body's two versions.
STREAMING, ORDINARY = "streaming", "ordinary"


class Versions:
    """The bodies of a host function."""

    def __init__(self, source: Source, function: LoopFunction) -> None:
        self.source = source
        self.function = function
        self.files: dict[str, str] = {}
        self.definitions: Lines = []

    def special(self) -> Lines:
        """The calls of the versions for some calls."""
        lines: Lines = []
        for version in self.function.companions.versions:
            chosen = " && ".join(self._has(name, value) for name, value in version.sizes)
            condition = arithmetic.conjunction(version.conditions)
            if condition is not None:
                holds = Scalars(of_function(self.function, self.source.names)).text(condition)
                chosen = f"{chosen} && ({holds})" if chosen else holds
            lines.append(cgen.If(cgen.Line(chosen), self._version(version.function)))
        return lines

    def _has(self, name: str, value: bool | int | float) -> str:
        """The condition that a parameter or a scalar has a value: of floats, with its sign."""
        own = self.source.names[name]
        dtype = next((a.dtype for a in self.function.arguments if a.name == name), int64)
        if dtype.is_half:
            return f"{own} == {int(np.array(value, dtype.numpy).view(np.uint16))}"
        same = f"{own} == {literal(value, dtype).text}"
        if not dtype.is_float or value != 0:
            return same
        return f"{same} && {'' if np.signbit(value) else '!'}signbit({own})"

    def general(self) -> Lines:
        """The choice between the versions of the general body; empty if it has only one."""
        if not streams.uses_streams(self.function.body):
            return []
        return self._streaming(self.function, self.function.name)

    def _version(self, function: LoopFunction) -> cgen.Generable:
        """The call of a version."""
        if streams.uses_streams(function.body):
            return cgen.Block(self._streaming(function, function.name))
        self.definitions += [*self._body(function.name, function, None), cgen.Line()]
        return cgen.Statement(f"return {function.name}({self.source.passed()})")

    def _streaming(self, function: LoopFunction, name: str) -> Lines:
        """The choice between the two versions of a body with non-temporal stores."""
        alignment = streams.Alignment(function)
        self.files[f"{name}_body.h"] = self._file(function, name, alignment)
        for version, value in ((STREAMING, "true"), (ORDINARY, "false")):
            self.definitions += [
                cgen.Define("TM_BODY", f"{name}_{version}"),
                cgen.Define(streams.STREAMS, value),
                cgen.Include(f"{name}_body.h", system=False),
                cgen.Line("#undef TM_BODY"),
                cgen.Line(f"#undef {streams.STREAMS}"),
                cgen.Line(),
            ]
        scope = of_function(function, self.source.names)
        chosen = cgen.Statement(f"return {name}_{STREAMING}({self.source.passed()})")
        return [
            cgen.If(cgen.Line(streams.chooses(function, scope, alignment)), chosen),
            cgen.Statement(f"return {name}_{ORDINARY}({self.source.passed()})"),
        ]

    def _file(self, function: LoopFunction, name: str, alignment: streams.Alignment) -> str:
        lines: Lines = [
            cgen.LineComment(f"The body of {name}, included once for each of its versions: TM_BODY is its name, and"),
            cgen.LineComment(f"{streams.STREAMS} says whether it stores past the caches."),
            cgen.Line(),
        ]
        return text(cgen.Module([*lines, *self._body("TM_BODY", function, alignment)]))

    def _body(self, name: str, function: LoopFunction, alignment: streams.Alignment | None) -> Lines:
        source = self.source
        statements = Statements(source.name, source.types, source.host_parts, source.log, source.function.title)
        statements.alignment = alignment
        statements.division = source.division(function)
        lines = statements.emit(function.body, of_function(function, source.names))
        given = (each for each in function.arguments if isinstance(each, ArrayArgument))
        arrays = {each.name: (*each.extents, *(each.strides or ())) for each in given}
        used = used_names(function.body, arrays)
        every = (*function.params, *(each.name for each in function.arguments))
        unused = [cgen.Statement(f"(void){source.names[name]}") for name in every if name not in used]
        body = cgen.Block([*unused, *lines, cgen.Statement("return 0")])
        outside = statements.division.definitions if statements.division else []
        return [*outside, Definition(f"static int {name}({source.parameters(restrict=True)})", body)]


def own_names(function: LoopFunction) -> list[str]:
    """The names of the versions of a function."""
    bodies = [function, *(version.function for version in function.companions.versions)]
    streaming = [each.name for each in bodies if streams.uses_streams(each.body)]
    names = [f"{name}_{version}" for name in streaming for version in (STREAMING, ORDINARY)]
    return [*names, *(each.name for each in bodies[1:])]


def with_variable(function: LoopFunction, source: Source, statements: Statements) -> Lines:
    """The variable that says, in a function with a single body, whether its stores bypass the caches."""
    if not streams.uses_streams(function.body):
        return []
    statements.alignment = streams.Alignment(function)
    condition = streams.chooses(function, of_function(function, source.names), statements.alignment)
    return [cgen.Statement(f"const bool {streams.STREAMS} = {condition}")]
