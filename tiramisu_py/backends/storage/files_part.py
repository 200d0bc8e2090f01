"""The part of files in a host function: the folder of a thread's calls, and the calls of tm_file.h."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c.copy_boxes import copied_box
from tiramisu_py.backends.c.definitions import Definition
from tiramisu_py.backends.c.event_arrays import event_array
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import NamedArray, Scope
from tiramisu_py.backends.c.part import HostPart, Lines, Printer
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.backends.c.trace_calls import LOG_HEADER
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Allocate, Await, Copy, Events, LoopFunction, Node, Record
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.program.statement import FILES, LOADS, STORES
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr
    from tiramisu_py.backends.c.statements import Statements

RUNTIME = ("tm_file.h", "tm_file_disk.h", "tm_file.c")
_QUEUES = {STORES: "TM_FILE_STORES", LOADS: "TM_FILE_LOADS"}


def uses_files(function: LoopFunction) -> bool:
    """Whether a function keeps arrays in files."""
    bodies = (function.body, *(version.function.body for version in function.companions.versions))
    return any(isinstance(node, Allocate) and node.memory is Memory.FILE for body in bodies for node in walk(body))


class FilesPart(HostPart):
    """The files of a function; a call has them from its beginning to its end."""

    libraries = ("-lpthread",)
    one_body = True
    error_bytes = 1024

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """Whether the function keeps arrays in files."""
        return uses_files(function)

    @classmethod
    def own_names(cls, function: LoopFunction, inside: Sequence[str]) -> list[str]:
        """The call's state, and the folder."""
        return ["files", *(function.name + part for part in ("_end_files", "_use_storage", "_storage"))]

    # -- files, and the header

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The runtime of the queues."""
        header, *others = RUNTIME
        *files, source = (*packaged("storage", header), *packaged("storage", *others, included=False))
        if self.function.options.traced:
            source = replace(source, text=f'#define _GNU_SOURCE\n#include "{LOG_HEADER}"\n{source.text}')
        return (*files, source)

    def documentation(self) -> list[str]:
        """The error codes of files."""
        return ["Files: 121 no folder for them, 122 no room, 123 a copy failed, 124 a fork meanwhile, 125 no memory."]

    def declarations(self) -> Lines:
        """The function that chooses the folder."""
        words = "From now on, calls in this thread have their files in this folder; they leave nothing there."
        choice = cgen.Statement(f"void {self.name}_use_storage(const char *folder)")
        return [cgen.LineComment(words), choice, cgen.Line()]

    # -- the source around the body

    def definitions(self) -> Lines:
        """The folder of this thread, the end of a call, and the check of runtime calls."""
        name = self.name
        chosen = [
            cgen.Assign(f"{name}_storage", "NULL"),
            cgen.Statement("static _Thread_local char kept[4096]"),
            cgen.If(
                cgen.Line("folder != NULL"),
                cgen.Block(
                    [
                        cgen.Statement('snprintf(kept, sizeof kept, "%s", folder)'),
                        cgen.Assign(f"{name}_storage", "kept"),
                    ]
                ),
            ),
        ]
        end = [
            cgen.Statement("const int ended = tm_file_end(files, code)"),
            cgen.If(cgen.Line("ended < TM_FILE_FOLDER || ended > TM_FILE_MEMORY"), cgen.Statement("return ended")),
            cgen.Statement(f'return {name}_fail(ended, "%s", tm_file_error())'),
        ]
        failed = self.parts.abandon(self.parts.leaving("tm_code"))
        return [
            cgen.Statement(f"static _Thread_local const char *{name}_storage"),
            Definition(f"void {name}_use_storage(const char *folder)", cgen.Block(chosen)),
            cgen.Line(),
            cgen.LineComment("Ends the copies to and from files, and gives their room back; the code to return."),
            Definition(f"static int {name}_end_files(tm_file_call *files, int code)", cgen.Block(end)),
            cgen.Line(
                "#define TM_FILE_TRY(...) do { const int tm_code = (__VA_ARGS__); "
                f"if (tm_code != 0) {failed}; }} while (0)"
            ),
            cgen.Line(),
        ]

    def begin(self) -> Lines:
        """Begins the work with files."""
        begin = f'tm_file_begin(&files, "{self.name}", {self.name}_storage)'
        wrong = f"return {self.name}_end_files(NULL, tm_files)"
        return [
            cgen.Statement("tm_file_call *files = NULL"),
            cgen.Statement(f"const int tm_files = {begin}"),
            cgen.If(cgen.Line("tm_files != 0"), cgen.Statement(wrong)),
        ]

    def logged(self) -> Lines:
        """Tells the log of the copies."""
        return [cgen.Statement(f"tm_file_trace(files, {self.log.place})")]

    def leaving(self, code: str) -> str:
        """Ends the work with files before the function returns."""
        return f"{self.name}_end_files(files, {code})"

    # -- statements

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """Copies, events, and arrays in files."""
        calls = FileCalls(statements)
        return {
            Copy: calls.copy, Record: calls.record, Await: calls.wait, Events: calls.events, Memory.FILE: calls.allocate
        }  # fmt: skip

    def prints(self, node: Node) -> bool:
        """Whether a copy, or an event, is of files."""
        return getattr(node, "device", None) == FILES


class FileCalls:
    """Emits the operations on files of one function; `statements` emits the statements inside them."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements

    def copy(self, node: Node, scope: Scope) -> Lines:
        """A copy to a file, or from one."""
        assert isinstance(node, Copy)
        _require_one_thread(scope)
        copied, wait = copied_box(node, scope), "false" if node.asynchronous else "true"
        stores = node.target_device == FILES
        file, position = (node.target, copied.into) if stores else (node.source, copied.first)
        place = copied.bytes_before(file, position)
        box = f"&(tm_file_box){{{copied.members}}}"
        device = node.source_device if stores else node.target_device
        stage, made = ("NULL", []) if device is None else _stage(device, _QUEUES[node.stream])
        if stores:
            memory = copied.place_in(node.source, copied.first)
            given = (f'"{node.statement}"', scope.arrays[file].name, place, memory, box, stage, wait)
            call = copied.around(tried("tm_file_store", *given))
        else:
            memory = copied.place_in(node.target, copied.into)
            given = (f'"{node.statement}"', memory, scope.arrays[file].name, place, box, stage, wait)
            call = copied.around(tried("tm_file_load", *given))
        return [cgen.Block([*made, call])] if made else [call]

    def events(self, node: Node, scope: Scope) -> Lines:
        """An array of events, which exists as long as the call."""
        assert isinstance(node, Events)
        return self.statements.named(node.name, node, scope, self._events)

    def _events(self, node: Node, scope: Scope) -> Lines:
        assert isinstance(node, Events)
        _require_one_thread(scope)

        def made(count: str, address: str) -> cgen.Generable:
            return tried("tm_file_events", count, address)

        return event_array(self.statements, node, scope, "tm_file_event *", made)

    def record(self, node: Node, scope: Scope) -> Lines:
        """Let an event stand for what is under way here."""
        assert isinstance(node, Record)
        return [tried("tm_file_record", _QUEUES[node.stream], self._event(node.event, node.indices, scope))]

    def wait(self, node: Node, scope: Scope) -> Lines:
        """The host waits."""
        assert isinstance(node, Await)
        _require_one_thread(scope)
        if node.stream is not None:
            raise CompilerDefect(f"{node.statement}: the queues of files wait for nothing but their own order")
        return [tried("tm_file_wait", self._event(node.event, node.indices, scope))]

    def _event(self, event: str, indices: tuple[Expr, ...], scope: Scope) -> str:
        return f"&{Scalars(scope).element(event, indices)}"

    def allocate(self, node: Node, scope: Scope) -> Lines:
        """An array in a file, which exists during the body."""
        assert isinstance(node, Allocate)
        _require_one_thread(scope)
        name, kind, text = scope.names[node.buffer], node.dtype.c_name, Scalars(scope).text
        rows = f"tm_count({text(node.extents[0])})" if node.extents else "1"
        rest = ", ".join(map(text, node.extents[1:])) or "1"
        scope.declare_array(node.buffer, NamedArray(name, node.dtype, node.extents))
        return [
            cgen.Statement(f"tm_file *{name} = NULL"),
            tried("tm_file_open", f'"{node.buffer}"', rows, f"(size_t)TM_BYTES({kind}, {rest})", f"&{name}"),
            *self.statements.emit(node.body, scope),
            tried("tm_file_close", name),
        ]


def tried(function: str, *arguments: str) -> cgen.Generable:
    """A call of the runtime, checked."""
    return cgen.Statement(f"TM_FILE_TRY({function}({', '.join(['files', *arguments])}))")


def _stage(device: int, queue: str) -> tuple[str, Lines]:
    """How a queue reaches the memory of a GPU: the argument for it, and the lines that make it."""
    found = f"tm_gpu_stage_of(gpu, {device}, {queue}, TM_FILE_CHUNK, &tm_staged, &tm_pinned)"
    members = (
        ".of = tm_staged, .memory = tm_pinned, .copy = tm_gpu_stage_copy, .error = tm_gpu_error, "
        ".file = tm_gpu_stage_file, .move = tm_gpu_stage_move, .release = tm_gpu_stage_release"
    )
    lines: Lines = [
        cgen.Statement("tm_gpu_stage *tm_staged = NULL"),
        cgen.Statement("void *tm_pinned = NULL"),
        cgen.Statement(f"TM_TRY({found})"),
        cgen.Statement(f"const tm_file_stage tm_way = {{{members}}}"),
    ]
    return "&tm_way", lines


def _require_one_thread(scope: Scope) -> None:
    """Raises if several threads are running: a failing call may end the function."""
    if scope.threaded:
        raise CompilerDefect("a file is used inside a parallel loop: leave out parallelize")
