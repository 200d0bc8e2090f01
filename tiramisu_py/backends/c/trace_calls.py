"""The event log in C (tm_trace.h): the log of a traced function, and the calls around each traced statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import LoopFunction, Traced
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

LOG_HEADER = "tm_trace.h"
#: The value for a field that is unknown or absent.
_NONE = -1


def runtime(function: LoopFunction) -> tuple[RuntimeFile, ...]:
    """The header that a traced function includes."""
    return packaged("c", LOG_HEADER) if function.options.traced else ()


@dataclass(frozen=True)
class Log:
    """The log of a function called `name`; if it is not `kept`, there are no lines and no names."""

    name: str
    kept: bool = False

    @property
    def variable(self) -> str:
        """Its name in C."""
        return f"{self.name}_log"

    @property
    def place(self) -> str:
        """Its address in C."""
        return f"&{self.variable}"

    @property
    def names(self) -> list[str]:
        """The names that the source reserves for itself."""
        if not self.kept:
            return []
        return [self.name + part for part in ("_log", "_trace", "_trace_write", "_trace_free")]

    def declared(self) -> Lines:
        """The declarations in the header."""
        if not self.kept:
            return []
        name = self.name
        return [
            cgen.LineComment(
                "What the last call in this thread did and when: a file for Perfetto; returns 0 or an errno."
            ),
            cgen.Statement(f"int {name}_trace_write(const char *path)"),
            cgen.LineComment("Frees the memory of this thread's log."),
            cgen.Statement(f"void {name}_trace_free(void)"),
            cgen.Line(),
        ]

    def defined(self) -> Lines:
        """The log of each thread, and the functions that read, write and free it."""
        if not self.kept:
            return []
        name, log = self.name, self.place
        written = f'return tm_trace_write({log}, "{name}", path)'
        return [
            cgen.LineComment("what the last call in a thread did, and when"),
            cgen.Statement(f"static _Thread_local tm_trace {self.variable}"),
            cgen.Statement(f"const tm_trace *{name}_trace(void)"),
            cgen.Line(),
            cgen.Line(f"const tm_trace *{name}_trace(void)"),
            cgen.Block([cgen.Statement(f"return {log}")]),
            cgen.Line(),
            cgen.Line(f"int {name}_trace_write(const char *path)"),
            cgen.Block([cgen.Statement(written)]),
            cgen.Line(),
            cgen.Line(f"void {name}_trace_free(void)"),
            cgen.Block([cgen.Statement(f"tm_trace_free({log})")]),
            cgen.Line(),
        ]

    def started(self) -> Lines:
        """The first line of the function."""
        return [cgen.Statement(f"tm_trace_start({self.place})")] if self.kept else []


def log_of(function: LoopFunction) -> Log:
    """The log of a function."""
    return Log(function.name, function.options.traced)


def traced(statements: Statements, node: Traced, scope: Scope) -> Lines:
    """An event around statements, in the same C block."""
    if scope.threaded:
        raise CompilerDefect(f"the trace of {node.name} is inside a parallel loop")
    place, text = statements.log.place, Scalars(scope).text
    name = node.name.replace("\\", "\\\\").replace('"', '\\"')
    given = [place, f'"{name}"']
    match node.kind:
        case "launch" | "copy":
            given += [str(node.device), str(node.stream)]
        case "wait":
            given.append(str(_NONE if node.device is None else node.device))
        case "send" | "receive":
            size = _NONE if node.bytes is None else text(node.bytes)
            given += [str(_NONE) if node.peer is None else text(node.peer), str(node.tag), str(size)]
    return [
        cgen.Statement(f"tm_trace_{node.kind}({', '.join(given)})"),
        *statements.emit(node.body, scope),
        cgen.Statement(f"tm_trace_end({place})"),
    ]
