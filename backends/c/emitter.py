"""From the loop IR to a C source, its header and the runtime that they need."""

from __future__ import annotations

from importlib import resources

import cgen

from tiramisu_py.algorithm.reserved import obstacle_outside
from tiramisu_py.backends.c import pages, streams, versions
from tiramisu_py.backends.c.checks import Checks
from tiramisu_py.backends.c.definitions import Definition, of_user
from tiramisu_py.backends.c.devices import page_locks
from tiramisu_py.backends.c.expressions.names import c_names
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope, of_function
from tiramisu_py.backends.c.layout import text
from tiramisu_py.backends.c.long_functions import Parts, divided
from tiramisu_py.backends.c.statements import Statements
from tiramisu_py.backends.c.traces import LOG_HEADER, log_of
from tiramisu_py.backends.c.traces import runtime as log_runtime
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes
from tiramisu_py.backends.cuda.kernels import device_sources, kernel_names, uses_gpu
from tiramisu_py.backends.mpi import collectives, reductions
from tiramisu_py.backends.mpi import entry as mpi
from tiramisu_py.backends.openmp import pinning
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import ArrayArgument, LoopFunction, ScalarArgument
from tiramisu_py.ir.rewriting import names

Lines = list[cgen.Generable]
RUNTIME = "tm_runtime.h"


def emit(function: LoopFunction) -> dict[str, str]:
    """The text of each file: ``<name>.c``, ``<name>.h`` and ``tm_runtime.h``; of a function with explicit vectors also
    ``tm_vectors.h``; of one that uses GPUs its kernels, ``<name>.cu``, and the runtime that these and the host need; of
    a distributed one ``tm_mpi.h``.

    Loops must no longer be tagged Vector or Unroll (see `lower.passes.optimise`). Raises `UnsupportedError` for a name
    that C does not allow, or a node that the emitter does not know.
    """
    name = function.name
    if obstacle_outside(name) or not name.isidentifier() or not name.isascii():
        raise UnsupportedError(f"a C function cannot be called {name!r}: give the Function another name")
    source = Source(function)
    own = {f"{name}.c": source.source(), f"{name}.h": source.header(), **log_runtime(function)}
    own |= {**source.versions.files, **streams.runtime(function)}
    folder = resources.files("tiramisu_py.backends.c")
    for file in (RUNTIME, *source.types.runtime()):
        own[file] = folder.joinpath(file).read_text(encoding="utf-8")
    more = device_sources(function) if source.on_gpu else {}
    if source.distributed:
        more = {**more, **mpi.runtime(), **reductions.runtime(function), **collectives.runtime(function)}
    return {**own, **more, **pages.runtime(function), **pinning.runtime(function)}


class Source:
    """The source and the header of one function."""

    def __init__(self, function: LoopFunction) -> None:
        self.function = function
        self.name = function.name
        arguments = [argument.name for argument in function.arguments]
        coordinates = function.grid.coordinates if function.grid else ()
        bodies = [function.body, *(version.function.body for version in function.versions)]
        found = {name for body in bodies for name in names(body)}
        inside = sorted({*found, *coordinates} - {*function.params, *arguments})
        self.on_gpu = uses_gpu(function)
        self.distributed = function.grid is not None
        self.kernels = kernel_names(function)
        self.log = log_of(function)
        own = [*(self._own_names([*arguments, *inside]) if self.on_gpu else ()), *(mpi.OWN if function.grid else ())]
        own += [*self.log.names, *versions.own_names(function), *(extern.name for extern in function.externs)]
        self.names = c_names([*function.params, *arguments, *inside], self.name, own)
        self.types = VectorTypes()
        self.versions = versions.Versions(self, function)

    def _own_names(self, arrays: list[str]) -> list[str]:
        """What the source of a function that uses GPUs calls its own."""
        parts = ("_end", "_program", "_use_device", "_first_device", "_memory")
        own = ["gpu", *self.kernels.values(), *(self.name + part for part in parts)]
        return own + [f"{array}_device" for array in arrays]

    # -- the header

    def header(self) -> str:
        """The declarations that a caller includes."""
        guard = f"{self.name.upper()}_H"
        lines: Lines = [cgen.Line(f"#ifndef {guard}"), cgen.Line(f"#define {guard}"), cgen.Line()]
        included = [*(["mpi.h"] if self.distributed else []), "stdbool.h", "stdint.h"]
        lines += [*map(cgen.Include, included), cgen.Line()]
        lines += self._half_types()
        lines += [cgen.Line("#ifdef __cplusplus"), cgen.Line('extern "C" {'), cgen.Line("#endif"), cgen.Line()]
        lines += [cgen.LineComment(line) for line in self._documentation()]
        lines += [cgen.Statement(f"int {self.name}({self.parameters(restrict=False)})"), cgen.Line()]
        lines += [cgen.LineComment("What the last call in this thread that did not return 0 found wrong.")]
        lines += [cgen.Statement(f"const char *{self.name}_last_error(void)"), cgen.Line()]
        lines += [*self._device_choice(), *self.log.declared()]
        lines += [cgen.Line("#ifdef __cplusplus"), cgen.Line("}"), cgen.Line("#endif"), cgen.Line("#endif")]
        return text(cgen.Module(lines))

    def _half_types(self) -> Lines:
        if not any(argument.dtype.is_float and argument.dtype.bits == 16 for argument in self.function.arguments):
            return []
        return [
            cgen.Line("#ifndef TM_FLOAT16_TYPES"),
            cgen.Line("#define TM_FLOAT16_TYPES"),
            cgen.Statement("typedef uint16_t tm_float16"),
            cgen.Statement("typedef uint16_t tm_bfloat16"),
            cgen.Line("#endif"),
            cgen.Line(),
        ]

    def _device_choice(self) -> Lines:
        if not self.on_gpu:
            return []
        words = ["From now on, calls in this thread run on GPUs `first`, `first` + 1, ... instead of 0, 1, ..."]
        if self.function.gpu_by_rank:
            words = [
                "From now on, calls in this thread run on GPUs `first`, `first` + 1, ...; with -1, as without this:",
                "on those of the rank's number among the ranks of its machine, which go round the GPUs there.",
            ]
        return [
            *map(cgen.LineComment, words),
            cgen.Statement(f"void {self.name}_use_device(int first)"),
            cgen.Line(),
        ]

    def _documentation(self) -> list[str]:
        given = [" ".join(line.split()) for line in self.function.documentation]
        result = "Returns 0, or not: 1 a size or condition, 2 too large, 3 a null pointer, 4 overlap, 5 no memory."
        on_gpu = "GPUs: 101 no driver, 102 no device, 103 no kernels for it, 104 no memory, 105 launch, 106 fault."
        arrays = (a for a in self.function.arguments if isinstance(a, ArrayArgument) and a.device is not None)
        places = [f"{self.names[a.name]} is an address in the memory of GPU {a.device}." for a in arrays]
        on_ranks = [mpi.CODES, "Every rank of comm calls it."] if self.distributed else []
        return [*given, result, *([on_gpu] if self.on_gpu else []), *on_ranks, *places]

    def parameters(self, restrict: bool) -> str:
        """The parameters in C; `restrict`: those of a definition."""
        declared = ["MPI_Comm comm"] if self.distributed else []
        declared += [f"int64_t {self.names[param]}" for param in self.function.params]
        declared += [self._argument(argument, restrict) for argument in self.function.arguments]
        return ", ".join(declared) or "void"

    def _argument(self, argument: ArrayArgument | ScalarArgument, restrict: bool) -> str:
        name, kind = self.names[argument.name], argument.dtype.c_name
        if isinstance(argument, ScalarArgument):
            return f"{kind} {name}"
        const = "" if argument.is_output else "const "
        followed = restrict and argument.device is None
        return f"{const}{kind} *{'restrict ' if followed else ''}{name}"

    # -- the source

    def source(self) -> str:
        """The definitions."""
        main = self._main()  # first: it says which vector types there are
        lines: Lines = [cgen.LineComment(line) for line in self._documentation()[: len(self.function.documentation)]]
        included = [f"{self.name}.h", RUNTIME, *self.types.headers(), *([LOG_HEADER] if self.function.traced else [])]
        included += ["tm_gpu.h"] if self.on_gpu else []
        included += [mpi.RUNTIME] if self.distributed else []
        included += [*reductions.runtime(self.function), *collectives.runtime(self.function)]
        included += [*pages.runtime(self.function), *pinning.runtime(self.function), *streams.runtime(self.function)]
        lines += [*(cgen.Include(file, system=False) for file in included), cgen.Line()]
        for extern in self.function.externs:
            lines += of_user(extern)
        types = self.types.declarations()
        lines += [cgen.Line(declaration) for declaration in types] + ([cgen.Line()] if types else [])
        lines += [*self._errors(), cgen.Line(), *self.log.defined()]
        lines += [*self._devices(), *self._check(), cgen.Line(), *self.versions.definitions, *main]
        return text(cgen.Module(lines))

    def _errors(self) -> Lines:
        """The thread's last error, and what sets it."""
        fail = [
            cgen.Statement("va_list values"),
            cgen.Statement("va_start(values, format)"),
            cgen.Statement(f"vsnprintf({self.name}_error, sizeof {self.name}_error, format, values)"),
            cgen.Statement("va_end(values)"),
            cgen.Statement("return code"),
        ]
        last = cgen.Block([cgen.Statement(f"return {self.name}_error")])
        room = 1024 if self.on_gpu or self.distributed else 256
        return [
            cgen.Statement(f"static _Thread_local char {self.name}_error[{room}]"),
            cgen.Line(),
            Definition(f"const char *{self.name}_last_error(void)", last),
            cgen.Line(),
            cgen.Line("__attribute__((format(printf, 2, 3), cold))"),
            Definition(f"static int {self.name}_fail(int code, const char *format, ...)", cgen.Block(fail)),
        ]

    def _devices(self) -> Lines:
        """What a function that uses GPUs has beside the function itself."""
        if not self.on_gpu:
            return []
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
                      f"if (tm_code != 0) {self._gpu_failure()}; }} while (0)"),
            cgen.Line(),
        ]  # fmt: skip

    def _where_begun(self, call: str) -> str:
        """A call of the runtime, where GPUs are used."""
        return call if self.function.gpu_where is None else f"gpu == NULL ? 0 : {call}"

    def _gpu_failure(self) -> str:
        """What a failure of a GPU leads to: the other ranks of a distributed function wait for this one's messages."""
        ended = f"{self.name}_end(gpu, tm_code)"
        return f'{ended}, tm_mpi_give_up(&mpi, "%s", {self.name}_error)' if self.distributed else f"return {ended}"

    def _entry(self) -> mpi.Entry | None:
        function, scope = self.function, of_function(self.function, self.names)
        return mpi.Entry(function, function.grid, self.names, scope, self.on_gpu) if function.grid else None

    def _check(self) -> Lines:
        checks = Checks(self.function, self.name, of_function(self.function, self.names), self._entry())
        arrays = self._declared_for_check()
        return [Definition(f"static int {self.name}_check({arrays})", cgen.Block(checks.lines()))]

    def _declared_for_check(self) -> str:
        declared = ["const tm_mpi *mpi"] if self.distributed else []
        declared += [f"int64_t {self.names[param]}" for param in self.function.params]
        arrays = [a for a in self.function.arguments if isinstance(a, ArrayArgument)]
        return ", ".join([*declared, *(f"const void *{self.names[a.name]}" for a in arrays)]) or "void"

    def _main(self) -> Lines:
        function = self.function
        scope = of_function(function, self.names)
        arrays = [a.name for a in function.arguments if isinstance(a, ArrayArgument)]
        given = [self.names[name] for name in [*function.params, *arrays]]
        entry = self._entry()
        statements = Statements(self.name, self.types, self.on_gpu, entry, self.log)
        statements.devices.kernels = {k.name: (self.kernels[k.name], k) for k in function.kernels}
        statements.devices.may_be_idle = function.gpu_where is not None
        used = names(function.body)
        unused = [self.names[a.name] for a in function.arguments if a.name not in used and a.name not in arrays]
        if entry:
            body = [*entry.begin(", ".join(["&mpi", *given]), used), *pinning.pinned(function, self.name)]
            body += entry.begin_gpu() if self.on_gpu else []
        else:
            body = self._begin(", ".join(given), scope)
        body = [*self.log.started(), *body, *self.log.begun(self.on_gpu)]
        body += page_locks(function, scope)
        body += [cgen.Statement(f"(void){name}") for name in unused]
        if entry:
            entry.prepared = statements.messages.prepared(function, scope)
        if entry or self.on_gpu:
            body += versions.with_variable(function, self, statements)
            body += self._body(statements, entry, scope)
        else:
            statements.parts = self.parts(function)
            body += self.versions.special()
            body += self.versions.general() or self._body(statements, entry, scope)
        outside = statements.parts.definitions if statements.parts else []
        return [*outside, Definition(f"int {self.name}({self.parameters(restrict=True)})", cgen.Block(body))]

    def _body(self, statements: Statements, entry: mpi.Entry | None, scope: Scope) -> Lines:
        ended = cgen.Statement(f"return {self.name}_end(gpu, 0)" if self.on_gpu else "return 0")
        return [*statements.emit(self.function.body, scope), *(entry.end() if entry else []), ended]

    def parts(self, function: LoopFunction) -> Parts | None:
        """The functions that the body of a long function of the host, or of a version of it, is divided into."""
        return None if self.log.names else divided(function)

    def passed(self) -> str:
        """The arguments in C, as one version of the function passes them on to another."""
        given = [*self.function.params, *(argument.name for argument in self.function.arguments)]
        return ", ".join(self.names[name] for name in given)

    def _begin(self, given: str, scope: Scope) -> Lines:
        body: Lines = [cgen.Statement(f"const int wrong = {self.name}_check({given})")]
        body += [cgen.If(cgen.Line("wrong"), cgen.Statement("return wrong"))]
        body += pinning.pinned(self.function, self.name)
        return [*body, *self._begin_gpu(scope)] if self.on_gpu else body

    def _begin_gpu(self, scope: Scope) -> Lines:
        where, call = self.function.gpu_where, cgen.Statement("tm_gpu_call *gpu = NULL")
        begin = f"tm_gpu_begin(&gpu, &{self.name}_program, {self.name}_first_device)"
        if where is None:
            return [call, cgen.Statement(f"TM_TRY({begin})")]
        failed = cgen.If(cgen.Line("tm_began != 0"), cgen.Statement(f"return {self.name}_end(gpu, tm_began)"))
        begun = cgen.Block([cgen.Statement(f"const int tm_began = {begin}"), failed])
        return [call, cgen.If(cgen.Line(Scalars(scope).text(where)), begun)]
