"""CUDA's part of a host function: the numbers of its kernels, and the calls of tm_gpu.h around its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c.definitions import Definition
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.part import Agreement, HostPart, HostParts, Lines, Printer
from tiramisu_py.backends.c.runtime_files import RuntimeFile
from tiramisu_py.backends.cuda.devices import Devices, device_addresses, page_locks, shared_memories, tried
from tiramisu_py.backends.cuda.kernel_text import device_sources, kernel_names, uses_gpu
from tiramisu_py.backends.cuda.simulated import RUNTIME_LIBRARIES
from tiramisu_py.ir import (
    ArrayArgument,
    Await,
    BeginArray,
    Copy,
    Events,
    Launch,
    LoopFunction,
    MemoryBlock,
    Ramp,
    Record,
)
from tiramisu_py.ir.rewriting import all_expressions
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Statements
    from tiramisu_py.backends.c.trace_calls import Log

RUNTIME = "tm_gpu.h"


class GpusPart(HostPart):
    """The GPUs of a function; a call holds them from its beginning to its end."""

    libraries = RUNTIME_LIBRARIES
    one_body = True
    uses_gpu = True
    error_bytes = 1024

    def __init__(self, function: LoopFunction, names: Mapping[str, str], parts: HostParts, log: Log) -> None:
        super().__init__(function, names, parts, log)
        self.kernels = kernel_names(function)

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """Whether the function uses a GPU."""
        return uses_gpu(function)

    @classmethod
    def own_names(cls, function: LoopFunction, inside: Sequence[str]) -> list[str]:
        """The call's state, the kernels, and the device addresses of arrays."""
        parts = ("_end", "_program", "_use_device", "_first_device", "_memory")
        own = ["gpu", *kernel_names(function).values(), *(function.name + part for part in parts)]
        return own + [f"{array}_device" for array in inside]

    # -- files, and the header

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The kernels, and the runtime of the kernels and of the host."""
        sources = device_sources(self.function)
        return tuple(RuntimeFile(name, text, included=name == RUNTIME) for name, text in sources.items())

    def documentation(self) -> list[str]:
        """The error codes of GPUs."""
        return ["GPUs: 101 no driver, 102 no device, 103 no kernels for it, 104 no memory, 105 launch, 106 fault."]

    def places(self) -> list[str]:
        """The arguments in device memory."""
        arrays = [a for a in self.function.arguments if isinstance(a, ArrayArgument)]
        there = [
            f"{self.names[a.name]} is an address in the memory of GPU {a.device}."
            for a in arrays
            if a.device is not None
        ]
        mapped = [f"{self.names[a.name]} is in page-locked memory that GPUs address." for a in arrays if a.mapped]
        return [*there, *mapped]

    def declarations(self) -> Lines:
        """The functions that choose devices."""
        words = ["From now on, calls in this thread run on GPUs `first`, `first` + 1, ... instead of 0, 1, ..."]
        if self.function.gpu_by_rank:
            words = [
                "From now on, calls in this thread run on GPUs `first`, `first` + 1, ...; with -1, as without this:",
                "on those of the rank's number among the ranks of its machine, which go round the GPUs there.",
            ]
        choice = cgen.Statement(f"void {self.name}_use_device(int first)")
        return [*map(cgen.LineComment, words), choice, cgen.Line()]

    # -- the source around the body

    def definitions(self) -> Lines:
        """The numbers of the kernels, the functions that choose devices, and the check of runtime calls."""
        name = self.name
        enum = f"enum {{ {', '.join(self.kernels.values())} }}"
        first = " = -1" if self.function.gpu_by_rank else ""
        end = [
            cgen.Statement("const int ended = tm_gpu_end(gpu, code)"),
            cgen.If(cgen.Line("ended < TM_GPU_NO_DRIVER"), cgen.Statement("return ended")),
            cgen.Statement("const char *const said = tm_gpu_error()"),
            cgen.Statement(f'const bool named = strncmp(said, "{name}: ", {len(name) + 2}) == 0'),
            cgen.Statement(f'return {name}_fail(ended, named ? "%s" : "{name}: %s", said)'),
        ]
        failed = self.parts.abandon(self.parts.leaving("tm_code"))
        return [
            *([cgen.LineComment(f"the kernels, in {name}.cu"), cgen.Statement(enum)] if self.kernels else []),
            cgen.Statement(f"extern const tm_gpu_program {name}_program"),
            cgen.Statement(f"static _Thread_local int {name}_first_device{first}"),
            cgen.Line(),
            Definition(
                f"void {name}_use_device(int first)", cgen.Block([cgen.Assign(f"{name}_first_device", "first")])
            ),
            cgen.Line(),
            cgen.LineComment("Ends the work on GPUs, and releases what the call holds there; the code to return."),
            Definition(f"static int {name}_end(tm_gpu_call *gpu, int code)", cgen.Block(end)),
            cgen.Line(f"#define TM_TRY(...) do {{ const int tm_code = {self._where_begun('(__VA_ARGS__)')}; "
                      f"if (tm_code != 0) {failed}; }} while (0)"),
            cgen.Line(),
        ]  # fmt: skip

    def _where_begun(self, call: str) -> str:
        """A call of the runtime, made only if this call uses GPUs."""
        return call if self.function.gpus.where is None else f"gpu == NULL ? 0 : {call}"

    def array_faults(self, array: ArrayArgument) -> list[tuple[str, str]]:
        """The caller's arrays that a device addresses must be aligned if kernels load several elements at once."""
        if (array.device is None and not array.mapped) or not uses_vectors(self.function):
            return []
        widest = self.function.gpus.kind.widest
        words = f"must begin at a multiple of {widest} bytes, as whole arrays of a GPU do"
        return [(f"(uintptr_t){self.names[array.name]} % {widest} != 0", words)]

    def begin(self) -> Lines:
        """Begins the work on GPUs, if this call has any."""
        agreement = self.parts.agreement
        begun = self._alone() if agreement is None else self._agreeing(agreement)
        return [cgen.Statement("tm_gpu_call *gpu = NULL"), *begun]

    def _alone(self) -> Lines:
        where = self.function.gpus.where
        begin = f"tm_gpu_begin(&gpu, &{self.name}_program, {self.name}_first_device)"
        if where is None:
            return [cgen.Statement(f"TM_TRY({begin})")]
        failed = cgen.If(cgen.Line("tm_began != 0"), cgen.Statement(f"return {self.name}_end(gpu, tm_began)"))
        begun = cgen.Block([cgen.Statement(f"const int tm_began = {begin}"), failed])
        return [cgen.If(cgen.Line(Scalars(self.scope).text(where)), begun)]

    def _agreeing(self, agreement: Agreement) -> Lines:
        """Begins the work where the callers agree on errors; a device that fails to begin is such an error."""
        name, where = self.name, self.function.gpus.where
        choice = f"&{name}_program, {name}_first_device, local, {max(self.function.gpus.devices, 1)}, &tm_first"
        failed = f"{agreement.wrong} = {name}_end(gpu, tm_began), gpu = NULL"
        here = "" if where is None else f" && ({Scalars(self.scope).text(where)})"
        begun: Lines = [
            cgen.Statement("int tm_first = 0"),
            cgen.Statement(f"int tm_began = tm_gpu_choose({choice})"),
            cgen.If(
                cgen.Line("tm_began == 0"), cgen.Assign("tm_began", f"tm_gpu_begin(&gpu, &{name}_program, tm_first)")
            ),
            cgen.If(cgen.Line("tm_began != 0"), cgen.Statement(failed)),
        ]
        return [
            cgen.Statement(f"const int local = {agreement.neighbour}"),
            cgen.If(cgen.Line(f"{agreement.here}{here}"), cgen.Block(begun)),
        ]

    def logged(self) -> Lines:
        """Tells the log of the streams."""
        return [cgen.Statement(f"tm_gpu_trace(gpu, {self.log.place})")]

    def prepare(self) -> Lines:
        """Asks for graphs and shared memory, finds the caller's arrays that GPUs address, and page-locks others."""
        graphs: Lines = [tried("tm_gpu_graphs")] if self.function.gpus.graphs else []
        return [
            *graphs,
            *shared_memories(self.function, self.kernels),
            *device_addresses(self.function, self.scope),
            *page_locks(self.function, self.scope),
        ]

    def give_back(self) -> Lines:
        """Releases the device, if it has begun."""
        agreement = self.parts.agreement
        assert agreement is not None
        return [cgen.If(cgen.Line(f"{agreement.wrong} && gpu != NULL"), cgen.Statement("tm_gpu_end(gpu, 0)"))]

    def leaving(self, code: str) -> str:
        """Ends the work on GPUs before the function returns."""
        return f"{self.name}_end(gpu, {code})"

    # -- statements

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """Launches, copies, events, and the memory of devices."""
        kernels = {kernel.name: (self.kernels[kernel.name], kernel) for kernel in self.function.gpus.kernels}
        devices = Devices(statements, kernels, may_be_idle=self.function.gpus.where is not None)
        found: dict[type | Memory, Printer] = dict.fromkeys((Launch, Copy, Record, Await), devices.emit)
        found |= {Events: devices.events, MemoryBlock: devices.block, BeginArray: devices.begin}
        return found | {memory: devices.allocate for memory in Memory if memory is not Memory.HOST}


def uses_vectors(function: LoopFunction) -> bool:
    """Whether a kernel may load or store several elements at once, which must be aligned."""
    return any(isinstance(e, Ramp) for kernel in function.gpus.kernels for e in all_expressions(kernel.body))
