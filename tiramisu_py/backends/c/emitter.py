"""From the loop IR to a C source, its header and the runtime that they need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import cgen

from tiramisu_py.algorithm.reserved import obstacle_outside
from tiramisu_py.backends.c import checks
from tiramisu_py.backends.c import first_touch_calls as pages
from tiramisu_py.backends.c import streaming_stores as streams
from tiramisu_py.backends.c import trace_calls as traces
from tiramisu_py.backends.c import version_files as versions
from tiramisu_py.backends.c.definitions import Definition, linked, of_user
from tiramisu_py.backends.c.emitted import Emitted
from tiramisu_py.backends.c.expressions.c_names import c_names
from tiramisu_py.backends.c.expressions.scalar_types import SCALAR_TYPES
from tiramisu_py.backends.c.expressions.scope import Scope, of_function
from tiramisu_py.backends.c.layout import text
from tiramisu_py.backends.c.long_functions import FunctionParts, divided
from tiramisu_py.backends.c.part import HostPart, HostParts
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.backends.c.statements import Statements
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import ArrayArgument, LoopFunction, ScalarArgument
from tiramisu_py.ir.rewriting import names

Lines = list[cgen.Generable]
RUNTIME = "tm_runtime.h"


def emit(function: LoopFunction, kinds: Sequence[type[HostPart]]) -> Emitted:
    """The text of each file: ``<name>.c``, ``<name>.h`` and ``tm_runtime.h``, with the headers of vectors, pages and
    traces that the function needs, and the additions of each part in `kinds` that concerns it.

    Loops must no longer be tagged Vector or Unroll (see `passes.optimise`). Raises `UnsupportedError` for a name that C
    does not allow, or a node that neither the emitter nor a part can print.
    """
    name = function.name
    if obstacle_outside(name) or not name.isidentifier() or not name.isascii():
        raise UnsupportedError(f"a C function cannot be called {name!r}: give the Function another name")
    source = Source(function, kinds)
    own = {f"{name}.c": source.source(), f"{name}.h": source.header(), **source.versions.files}
    files = {**own, **{file.name: file.text for file in source.runtime}}
    libraries = (*chain.from_iterable(part.libraries for part in source.host_parts), *linked(function.externs))
    return Emitted(files, source.prototype(), libraries, any(part.uses_gpu for part in source.host_parts))


class Source:
    """The source and the header of one function; `reserved` are further names that its source defines."""

    def __init__(self, function: LoopFunction, kinds: Sequence[type[HostPart]], reserved: Sequence[str] = ()) -> None:
        self.function = function
        self.name = function.name
        arguments = [argument.name for argument in function.arguments]
        coordinates = function.grid.coordinates if function.grid else ()
        bodies = [function.body, *(version.function.body for version in function.companions.versions)]
        found = {name for body in bodies for name in names(body)}
        inside = sorted({*found, *coordinates} - {*function.params, *arguments})
        self.log = traces.log_of(function)
        concerned = [kind for kind in kinds if kind.concerns(function)]
        own = [name for kind in concerned for name in kind.own_names(function, [*arguments, *inside])]
        own += [*self.log.names, *versions.own_names(function), *(extern.name for extern in function.externs)]
        self.names = c_names([*function.params, *arguments, *inside], self.name, [*own, *reserved])
        self.host_parts = HostParts.of(function, concerned, self.names, self.log)
        self.types = VectorTypes()
        self.versions = versions.Versions(self, function)

    @cached_property
    def runtime(self) -> list[RuntimeFile]:
        """The files that go with the source, in include order; only known after the body is printed."""
        function, parts = self.function, (file for part in self.host_parts for file in part.runtime())
        own = [*packaged("c", RUNTIME), *self.types.runtime(), *traces.runtime(function)]
        return [*own, *parts, *pages.runtime(function), *streams.runtime(function)]

    # -- the header

    def header(self, further: Sequence[cgen.Generable] = ()) -> str:
        """The declarations that a caller includes, with some `further` ones."""
        guard = f"{self.name.upper()}_H"
        lines: Lines = [cgen.Line(f"#ifndef {guard}"), cgen.Line(f"#define {guard}"), cgen.Line()]
        included = [*(header for part in self.host_parts for header in part.headers), "stdbool.h", "stdint.h"]
        lines += [*map(cgen.Include, included), cgen.Line()]
        own = [f"{pack.name}.h" for pack in self.function.companions.packs]
        lines += [*(cgen.Include(file, system=False) for file in own), *([cgen.Line()] if own else [])]
        lines += self._half_types()
        lines += [cgen.Line("#ifdef __cplusplus"), cgen.Line('extern "C" {'), cgen.Line("#endif"), cgen.Line()]
        lines += [cgen.LineComment(line) for line in self._documentation()]
        lines += [cgen.Line(self.prototype()), cgen.Line()]
        lines += [cgen.LineComment("What the last call in this thread that did not return 0 found wrong.")]
        lines += [cgen.Statement(f"const char *{self.name}_last_error(void)"), cgen.Line()]
        lines += [*further, *self.host_parts.lines(lambda part: part.declarations()), *self.log.declared()]
        lines += checks.declared_sizes(self.function, of_function(self.function, self.names))
        lines += [cgen.Line("#ifdef __cplusplus"), cgen.Line("}"), cgen.Line("#endif"), cgen.Line("#endif")]
        return text(cgen.Module(lines))

    def prototype(self) -> str:
        """The declaration of the function."""
        return f"int {self.name}({self.parameters(restrict=False)});"

    def _half_types(self) -> Lines:
        if not any(SCALAR_TYPES[argument.dtype].stored for argument in self.function.arguments):
            return []
        stored = {dtype.c_name: known.stored for dtype, known in SCALAR_TYPES.items() if known.stored}
        return [
            cgen.Line("#ifndef TM_FLOAT16_TYPES"),
            cgen.Line("#define TM_FLOAT16_TYPES"),
            *(cgen.Statement(f"typedef {kind} {name}") for name, kind in stored.items()),
            cgen.Line("#endif"),
            cgen.Line(),
        ]

    def _documentation(self) -> list[str]:
        given = [" ".join(line.split()) for line in self.function.labels.documentation]
        result = "Returns 0, or not: 1 a size or condition, 2 too large, 3 a null pointer, 4 overlap, 5 no memory."
        codes = [line for part in self.host_parts for line in part.documentation()]
        return [*given, result, *codes, *(line for part in self.host_parts for line in part.places())]

    def parameters(self, restrict: bool) -> str:
        """The parameters in C; with `restrict`, as in a definition."""
        declared = [parameter for part in self.host_parts for parameter in part.parameters()]
        declared += [f"int64_t {self.names[param]}" for param in self.function.params]
        declared += [self._argument(argument, restrict) for argument in self.function.arguments]
        return ", ".join(declared) or "void"

    def _argument(self, argument: ArrayArgument | ScalarArgument, restrict: bool) -> str:
        name, kind = self.names[argument.name], argument.dtype.c_name
        if isinstance(argument, ScalarArgument):
            return f"{kind} {name}"
        const = "" if argument.is_output else "const "
        followed = restrict and argument.device is None and not argument.mapped
        return f"{const}{kind} *{'restrict ' if followed else ''}{name}"

    # -- the source

    def source(self) -> str:
        """The definitions."""
        main = self._main()  # first: printing it collects the vector types
        lines: Lines = [
            cgen.LineComment(line) for line in self._documentation()[: len(self.function.labels.documentation)]
        ]
        included = [f"{self.name}.h", *(file.name for file in self.runtime if file.included)]
        lines += [*(cgen.Include(file, system=False) for file in included), cgen.Line()]
        for extern in self.function.externs:
            lines += of_user(extern)
        types = self.types.declarations()
        lines += [cgen.Line(declaration) for declaration in types] + ([cgen.Line()] if types else [])
        lines += [*self._errors(), cgen.Line(), *self.log.defined()]
        lines += [*self.host_parts.lines(lambda part: part.definitions()), *self._check(), cgen.Line()]
        lines += checks.defined_sizes(self.function, of_function(self.function, self.names))
        lines += [*self.versions.definitions, *main]
        return text(cgen.Module(lines))

    def _errors(self) -> Lines:
        """The thread's last error, and the function that sets it."""
        fail = [
            cgen.Statement("va_list values"),
            cgen.Statement("va_start(values, format)"),
            cgen.Statement(f"vsnprintf({self.name}_error, sizeof {self.name}_error, format, values)"),
            cgen.Statement("va_end(values)"),
            cgen.Statement("return code"),
        ]
        last = cgen.Block([cgen.Statement(f"return {self.name}_error")])
        return [
            cgen.Statement(f"static _Thread_local char {self.name}_error[{self.host_parts.error_bytes}]"),
            cgen.Line(),
            Definition(f"const char *{self.name}_last_error(void)", last),
            cgen.Line(),
            cgen.Line("__attribute__((format(printf, 2, 3), cold))"),
            Definition(f"static int {self.name}_fail(int code, const char *format, ...)", cgen.Block(fail)),
        ]

    def _check(self) -> Lines:
        entry = checks.Checks(self.function, self.name, of_function(self.function, self.names), self.host_parts)
        given = ", ".join(declared for declared, _ in self._checked()) or "void"
        return [Definition(f"static int {self.name}_check({given})", cgen.Block(entry.lines()))]

    def _checked(self) -> list[tuple[str, str]]:
        """The parameters of the check: each declaration, and the argument that the function passes for it."""
        found = [parameter for part in self.host_parts for parameter in part.check_parameters()]
        found += [(f"int64_t {self.names[param]}", self.names[param]) for param in self.function.params]
        arrays = [self.names[a.name] for a in self.function.arguments if isinstance(a, ArrayArgument)]
        return found + [(f"const void *{array}", array) for array in arrays]

    def _main(self) -> Lines:
        function, parts = self.function, self.host_parts
        scope = of_function(function, self.names)
        statements = Statements(self.name, self.types, parts, self.log, function.title)
        body = [*self.log.started(), *self._begin()]
        if parts.one_body:
            body += versions.with_variable(function, self, statements)
            body += self._body(statements, scope)
        else:
            statements.division = self.division(function)
            body += self.versions.special()
            body += self.versions.general() or self._body(statements, scope)
        outside = statements.division.definitions if statements.division else []
        return [*outside, Definition(f"int {self.name}({self.parameters(restrict=True)})", cgen.Block(body))]

    def _begin(self) -> Lines:
        """Everything before the body: the check, and the first lines of each part."""
        function, parts, used = self.function, self.host_parts, names(self.function.body)
        unused = [a.name for a in function.arguments if a.name not in used and not isinstance(a, ArrayArgument)]
        given = ", ".join(value for _, value in self._checked())
        return [
            *parts.check(f"{self.name}_check({given})", used),
            *parts.lines(lambda part: part.checked()),
            *parts.lines(lambda part: part.begin()),
            *(parts.lines(lambda part: part.logged()) if self.log.kept else ()),
            *parts.lines(lambda part: part.prepare()),
            *(cgen.Statement(f"(void){self.names[name]}") for name in unused),
        ]

    def _body(self, statements: Statements, scope: Scope) -> Lines:
        ended = cgen.Statement(f"return {self.host_parts.leaving('0')}")
        return [*statements.emit(self.function.body, scope), *self.host_parts.lines(lambda part: part.end()), ended]

    def division(self, function: LoopFunction) -> FunctionParts | None:
        """The functions into which a long host function, or a version of it, is divided."""
        return None if self.log.names else divided(function)

    def passed(self) -> str:
        """The arguments in C, as one version of the function passes them on to another."""
        given = [*self.function.params, *(argument.name for argument in self.function.arguments)]
        return ", ".join(self.names[name] for name in given)
