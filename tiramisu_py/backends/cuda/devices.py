"""The host's GPU operations, as calls of the runtime tm_gpu.h: memory, copies, launches, events.

Each call is checked: if one fails, ``TM_TRY`` leaves the function once all pending operations have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import Expr, Param
from tiramisu_py.backends.c.copy_boxes import copied_box
from tiramisu_py.backends.c.event_arrays import event_array
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import NamedArray, OpenBlock, Scope
from tiramisu_py.backends.cuda.signature import unused_params
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Await,
    BeginArray,
    Copy,
    Events,
    KernelFunction,
    Launch,
    LoopFunction,
    MemoryBlock,
    Node,
    Record,
    Scalar,
)
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.ir.shared_memory import shared_memory
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

Text = Callable[[Expr], str]

#: The host's number where the runtime takes a device.
HOST = -1


class Devices:
    """Emits the GPU operations of one function; `statements` emits the statements inside them.

    `kernels` are the names in CUDA and the definitions of the kernels; `may_be_idle`: some calls may use no GPU.
    """

    def __init__(
        self, statements: Statements, kernels: Mapping[str, tuple[str, KernelFunction]], may_be_idle: bool
    ) -> None:
        self.statements = statements
        self.kernels = kernels
        self.may_be_idle = may_be_idle

    def emit(self, node: Node, scope: Scope) -> Lines:
        """A launch, a copy, or an operation on an event."""
        _require_one_thread(scope)
        match node:
            case Launch():
                return self._launch(node, scope)
            case Copy():
                return self._copy(node, scope)
            case Record():
                event = self._event(node.event, node.indices, scope)
                return [tried("tm_gpu_record", number_of(node.device), str(node.stream), event)]
            case Await():
                return self._await(node, scope)
        raise CompilerDefect(f"the C emitter does not know the statement {type(node).__name__}")

    # -- kernels

    def _launch(self, node: Launch, scope: Scope) -> Lines:
        name, kernel = self.kernels[node.kernel]
        text = Scalars(scope).text
        kinds = ["int64_t"] * len(kernel.params) + [scalar.dtype.c_name for scalar in kernel.scalars]
        unused = unused_params(kernel)
        given = zip([*kernel.params, *(scalar.name for scalar in kernel.scalars)], node.values, kinds, strict=True)
        values = [_address(value, kind, scope) for param, value, kind in given if param not in unused]
        arrays = [f"&{_on_device(scope.arrays[array])}" for array in node.arrays]
        passed = ", ".join([*values, *arrays])
        return [
            tried(
                "tm_gpu_launch", str(node.device), name, _numbers(map(text, node.grid)),
                _numbers(map(str, kernel.threads)), str(shared_memory(kernel).asked), str(node.stream),
                f"(void *[]){{{passed}}}" if passed else "NULL",
            )
        ]  # fmt: skip

    # -- copies

    def _copy(self, node: Copy, scope: Scope) -> Lines:
        copied = copied_box(node, scope)
        call = tried(
            "tm_gpu_copy", f'"{node.statement}"', copied.place_in(node.target, copied.into),
            number_of(node.target_device), copied.place_in(node.source, copied.first), number_of(node.source_device),
            f"&(tm_gpu_box){{{copied.members}}}", str(node.stream), "false" if node.asynchronous else "true",
        )  # fmt: skip
        return [copied.around(call)]

    # -- events

    def events(self, node: Node, scope: Scope) -> Lines:
        """An array of events, which exists as long as the call."""
        assert isinstance(node, Events)
        return self.statements.named(node.name, node, scope, self._events)

    def _events(self, node: Node, scope: Scope) -> Lines:
        assert isinstance(node, Events)
        _require_one_thread(scope)

        def made(count: str, address: str) -> cgen.Generable:
            return tried("tm_gpu_events", str(node.device), count, address)

        return event_array(self.statements, node, scope, "tm_gpu_event **", made)

    def _event(self, event: str, indices: tuple[Expr, ...], scope: Scope) -> str:
        return Scalars(scope).element(event, indices)

    def _await(self, node: Await, scope: Scope) -> Lines:
        event = self._event(node.event, node.indices, scope)
        if node.stream is None:
            return [tried("tm_gpu_wait_host", event)]
        return [tried("tm_gpu_wait_stream", str(node.device), str(node.stream), event)]

    # -- memory

    def allocate(self, node: Node, scope: Scope) -> Lines:
        """Device memory, or host memory that devices can reach, which exists during the body."""
        assert isinstance(node, Allocate)
        _require_one_thread(scope)
        name, kind = scope.names[node.buffer], node.dtype.c_name
        sizes = ", ".join(Scalars(scope).text(extent) for extent in node.extents) or "1"
        size = f"(size_t)TM_BYTES({kind}, {sizes})"
        device = str(node.device or 0)
        array = NamedArray(name, node.dtype, node.extents)
        lines: Lines = [cgen.Statement(f"{kind} *{name} = NULL")]
        match node.memory:
            case Memory.GPU:
                lines.append(tried("tm_gpu_allocate", device, f"(void **)&{name}", size))
                if node.zeroed is not None:
                    lines.append(tried("tm_gpu_zero", device, name, size, str(node.zeroed)))
                free = tried("tm_gpu_free", device, name)
            case Memory.PINNED:
                lines.append(tried("tm_gpu_allocate_host", device, f"(void **)&{name}", "NULL", size))
                lines += self._plain(name, kind, size, node.buffer)
                free = tried("tm_gpu_free_host", name)
            case Memory.HOST_MAPPED:
                array = NamedArray(name, node.dtype, node.extents, device_name=f"{name}_device")
                lines.append(cgen.Statement(f"void *{name}_device = NULL"))
                lines.append(tried("tm_gpu_allocate_host", device, f"(void **)&{name}", f"&{name}_device", size))
                lines += self._plain(name, kind, size, node.buffer)
                free = tried("tm_gpu_free_host", name)
            case _:
                raise CompilerDefect(f"buffer {node.buffer} is in {node.memory.value} memory, outside of kernels")
        scope.declare_array(node.buffer, array)
        return [*lines, *self.statements.emit(node.body, scope), free]

    def block(self, node: Node, scope: Scope) -> Lines:
        """Device memory that arrays have in turns during the body."""
        assert isinstance(node, MemoryBlock)
        _require_one_thread(scope)
        name, device = scope.names[node.name], number_of(node.device)
        scope.declared.add(node.name)
        scope.blocks[node.name] = OpenBlock(node, name)
        size = self.statements.temporaries.largest(node, scope)
        return [
            cgen.Statement(f"void *{name} = NULL"),
            tried("tm_gpu_allocate", device, f"&{name}", f"(size_t){size}"),
            *self.statements.emit(node.body, scope),
            tried("tm_gpu_free", device, name),
        ]

    def begin(self, node: Node, scope: Scope) -> Lines:
        """An array in the memory of a block: only kernels and copies use it."""
        assert isinstance(node, BeginArray)
        name = scope.names[node.buffer]
        scope.declare_array(node.buffer, NamedArray(name, node.dtype, node.extents))
        return [cgen.Statement(f"{node.dtype.c_name} *{name} = {scope.blocks[node.block].name}")]

    def _plain(self, name: str, kind: str, size: str, words: str) -> Lines:
        """The plain host memory that a call without a GPU uses instead."""
        if not self.may_be_idle:
            return []
        own = f"tm_plain_{name}"
        return [
            cgen.Statement(f"TM_TEMPORARY void *const {own} = gpu == NULL ? tm_allocate((int64_t)({size})) : NULL"),
            cgen.If(
                cgen.Line("gpu == NULL"),
                cgen.Block(
                    [
                        cgen.If(cgen.Line(f"{own} == NULL"), self.statements.temporaries.out_of_memory(words)),
                        cgen.Assign(name, own),
                    ]
                ),
            ),
        ]


def device_addresses(function: LoopFunction, scope: Scope) -> Lines:
    """The addresses of those arrays of the caller that GPUs address where they are; refuses ordinary memory."""
    lines: Lines = []
    for argument in function.arguments:
        if isinstance(argument, ArrayArgument) and argument.mapped:
            name, text = scope.names[argument.name], Scalars(scope).text
            sizes = ", ".join(map(text, argument.extents)) or "1"
            size = f"(size_t)TM_BYTES({argument.dtype.c_name}, {sizes})"
            lines.append(cgen.Statement(f"void *{name}_device = NULL"))
            given = ("0", f'"{argument.name}"', name, size, f"&{name}_device")
            lines += [tried("tm_gpu_mapped", *given), cgen.Statement(f"(void){name}_device")]
    return lines


def page_locks(function: LoopFunction, scope: Scope) -> Lines:
    """The calls that page-lock the caller's arrays that are copied to or from GPUs, if that is asked for."""
    copied = {name for node in walk(function.body) if isinstance(node, Copy) for name in _host_ends(node)}
    lines: Lines = []
    for argument in function.arguments if function.gpus.page_lock else ():
        if isinstance(argument, ArrayArgument) and argument.device is None and argument.name in copied:
            name, text = scope.names[argument.name], Scalars(scope).text
            sizes = ", ".join(map(text, argument.extents)) or "1"
            lines.append(tried("tm_gpu_lock_pages", name, f"(size_t)TM_BYTES({argument.dtype.c_name}, {sizes})"))
    return lines


def shared_memories(function: LoopFunction, kernels: Mapping[str, str]) -> Lines:
    """Calls that ask whether devices have the shared memory that launches will ask for; `kernels` are names in C."""
    found = {kernel.name: shared_memory(kernel) for kernel in function.gpus.kernels}
    launched = {(n.kernel, n.device): None for n in walk(function.body) if isinstance(n, Launch)}
    return [
        tried("tm_gpu_shared", str(device), kernels[name], str(found[name].bytes), f'"{found[name].words}"')
        for name, device in launched
        if found[name].asked
    ]


def _host_ends(node: Copy) -> Iterator[str]:
    if node.source_device is None:
        yield node.source
    if node.target_device is None:
        yield node.target


def tried(function: str, *arguments: str) -> cgen.Generable:
    """A call of the runtime, checked."""
    return cgen.Statement(f"TM_TRY({function}({', '.join(['gpu', *arguments])}))")


def number_of(device: int | None) -> str:
    """A device's number in the runtime."""
    return str(HOST if device is None else device)


def _require_one_thread(scope: Scope) -> None:
    """Raises if several threads are running: a call uses GPUs from one thread, since a runtime call may end it."""
    if scope.threaded:
        raise CompilerDefect("a GPU is used inside a parallel loop: leave out parallelize")


def _numbers(texts: Iterable[str]) -> str:
    return f"(const int64_t[3]){{{', '.join(texts)}}}"


def _on_device(array: NamedArray) -> str:
    return array.device_name or array.name


def _address(value: Expr, kind: str, scope: Scope) -> str:
    """The address of a kernel argument's value: the function's own parameter, or a compound literal."""
    text = Scalars(scope).text(value)
    plain = isinstance(value, Param | Scalar) and value.dtype.c_name == kind
    return f"&{text}" if plain else f"&({kind}){{{text}}}"
