"""From kernels in loop IR to a CUDA C++ source: `<name>.cu`, which nvcc, NVRTC and the simulator all accept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import cgen

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.reserved import CUDA_WORDS
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.backends.c.expressions.c_names import c_names
from tiramisu_py.backends.c.layout import text
from tiramisu_py.backends.c.trace_calls import LOG_HEADER
from tiramisu_py.backends.cuda.kernel_scalars import builtin
from tiramisu_py.backends.cuda.kernel_scope import KernelScope, given, of_kernel
from tiramisu_py.backends.cuda.kernel_statements import KernelStatements
from tiramisu_py.backends.cuda.signature import KernelParameter, KernelSignature, unused_params, used_by
from tiramisu_py.backends.cuda.simulated import RUNTIME_HEADERS, RUNTIME_SOURCES, TRACE_HEADERS
from tiramisu_py.backends.cuda.tree_calls import definitions
from tiramisu_py.ir import (
    Allocate,
    Barrier,
    Copy,
    Deferred,
    Events,
    GpuIndex,
    KernelFunction,
    LastBlock,
    Launch,
    Let,
    Locked,
    LoopFunction,
    Node,
    TreeReduce,
)
from tiramisu_py.ir.rewriting import expressions, names, walk
from tiramisu_py.program.statement import is_gpu
from tiramisu_py.program.storage import Memory

#: The first lines of the runtime in a library with a trace.
_LOGGING = f'#define _GNU_SOURCE\n#include "{LOG_HEADER}"\n'


def uses_gpu(function: LoopFunction) -> bool:
    """Whether a function uses a GPU."""
    return bool(function.gpus.kernels) or any(map(_is_of_gpu, walk(function.body)))


def _is_of_gpu(node: Node) -> bool:
    if isinstance(node, Allocate):
        return node.memory in (Memory.GPU, Memory.PINNED, Memory.HOST_MAPPED)
    return isinstance(node, Launch) or (isinstance(node, Copy | Events) and is_gpu(node.device))


def device_sources(function: LoopFunction) -> dict[str, str]:
    """The files of a function that uses GPUs, besides those of its host part."""
    files = (function.gpus.kind.header_file, *RUNTIME_HEADERS, *RUNTIME_SOURCES)
    runtime = {path.name: path.read_text(encoding="utf-8") for path in files}
    if function.options.traced:
        runtime |= {path.name: path.read_text(encoding="utf-8") for path in TRACE_HEADERS}
        runtime |= {path.name: f"{_LOGGING}{runtime[path.name]}" for path in RUNTIME_SOURCES}
    kernels = {f"{function.name}.cu": emit_kernels(function)} if function.gpus.kernels else {}
    return {**kernels, **runtime}


def kernel_names(function: LoopFunction) -> Mapping[str, str]:
    """The CUDA name of each kernel: its own name, prefixed with the function's name unless it already is."""
    prefix = f"{function.name}_"
    whole = [k.name for k in function.gpus.kernels if k.name.startswith(prefix)]
    short = {name for name in whole if name.removeprefix(prefix) not in {k.name for k in function.gpus.kernels}}
    wanted = {k.name: k.name if k.name in short else prefix + k.name for k in function.gpus.kernels}
    taken = [f"{function.name}{part}" for part in ("_end", "_program", "_use_device", "_first_device", "_images")]
    found = c_names(wanted.values(), function.name, [*taken, *CUDA_WORDS])
    return {name: found[c_name] for name, c_name in wanted.items()}


def emit_kernels(function: LoopFunction) -> str:
    """The text of ``<name>.cu``."""
    header = PurePath(function.gpus.kind.header).name
    lines = [cgen.LineComment(f"The kernels of {function.name}."), cgen.Include(header, system=False)]
    for kernel in function.gpus.kernels:
        lines += [cgen.Line(), *KernelSource(function, kernel).lines()]
    return text(cgen.Module(lines))


def signatures(function: LoopFunction) -> tuple[KernelSignature, ...]:
    """The signatures of the kernels, in the order of their numbers."""
    return tuple(KernelSource(function, kernel).signature() for kernel in function.gpus.kernels)


class KernelSource:
    """The source of one kernel."""

    def __init__(self, function: LoopFunction, kernel: KernelFunction) -> None:
        self.function = function
        self.kernel = kernel
        self.name = kernel_names(function)[kernel.name]
        own = given(kernel)
        inside = sorted(names(kernel.body) - set(own))
        self.names = c_names([*own, *inside], self.name, [*CUDA_WORDS, *kernel_names(function).values()])

    def signature(self) -> KernelSignature:
        """The kernel's signature, for its launcher and the simulator."""
        kernel = self.kernel
        unused = unused_params(kernel)
        plain = [KernelParameter(self.names[name], "int64_t") for name in kernel.params if name not in unused]
        plain += [KernelParameter(self.names[scalar.name], scalar.dtype.c_name) for scalar in kernel.scalars]
        arrays = [KernelParameter(self.names[a.name], a.dtype.c_name, True, a.is_constant) for a in kernel.arrays]
        return KernelSignature(self.name, (*plain, *arrays), kernel.threads, _cooperates(kernel))

    def lines(self) -> list[cgen.Generable]:
        """The definition, after its documentation."""
        scope = of_kernel(self.function, self.kernel, self.names)
        statements, drawn = KernelStatements(self.name, self.kernel), self.kernel.drawn
        body = [*self._unused(), *definitions(self.kernel), *statements.emit(self.kernel.body, scope)]
        draws = [] if drawn is None else statements.drawn(drawn, scope)
        signature = self.signature()
        bounds = ", ".join(str(n) for n in (signature.threads, self.kernel.minimum_blocks) if n is not None)
        parameters = ", ".join(map(declared, signature.parameters))
        head = f"TM_KERNEL void TM_LAUNCH_BOUNDS({bounds}) {self.name}({parameters})"
        documentation = [cgen.LineComment(" ".join(line.split())) for line in self.kernel.documentation]
        return [*documentation, cgen.Line(head), cgen.Block([*self._numbers(scope, draws), *body])]

    def _numbers(self, scope: KernelScope, draws: list[cgen.Generable]) -> list[cgen.Generable]:
        """The definitions of the block and thread numbers that the kernel uses directly; that which a block `draws`."""
        drawn = None if self.kernel.drawn is None else ("block", self.kernel.drawn.axis)
        elsewhere = (n for n in walk(self.kernel.body) if not (isinstance(n, Let) and self._is_plain(n.value)))
        roots = [root for n in elsewhere for root in expressions(n)]
        roots += [] if self.kernel.drawn is None else [self.kernel.drawn.index]
        used = {(e.unit, e.axis) for root in roots for e in parts(root) if isinstance(e, GpuIndex)}
        found = {key: f"const int64_t {scope.number(*key)} = " for key in sorted(used | ({drawn} if drawn else set()))}
        plain = [cgen.Statement(text + builtin(*key)) for key, text in found.items() if key != drawn]
        return [*plain, *draws, *(cgen.Statement(f"{found[key]}tm_number[0]") for key in found if key == drawn)]

    def _is_plain(self, e: Expr) -> bool:
        """Whether a value is a number of the block or the thread that CUDA has a name for."""
        drawn = self.kernel.drawn
        return isinstance(e, GpuIndex) and (drawn is None or (e.unit, e.axis) != ("block", drawn.axis))

    def _unused(self) -> list[cgen.Generable]:
        """A cast to void for each unused scalar and array, so that compilers do not warn."""
        used = used_by(self.kernel)
        passed = [*(s.name for s in self.kernel.scalars), *(a.name for a in self.kernel.arrays)]
        return [cgen.Statement(f"(void){self.names[name]}") for name in passed if name not in used]


def _cooperates(kernel: KernelFunction) -> bool:
    """Whether threads of a block wait for each other, or share memory."""

    def together(node: Node) -> bool:
        shared = isinstance(node, Allocate) and node.memory is Memory.SHARED
        return shared or isinstance(node, Barrier | Deferred | TreeReduce | LastBlock | Locked)

    return kernel.drawn is not None or any(map(together, walk(kernel.body)))


def declared(parameter: KernelParameter) -> str:
    """The declaration of a parameter."""
    if not parameter.is_pointer:
        return f"const {parameter.c_type} {parameter.name}"
    return f"{'const ' if parameter.is_constant else ''}{parameter.c_type} *TM_RESTRICT {parameter.name}"
