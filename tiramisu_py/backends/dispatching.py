"""The function that runs one of its versions for processors: of those that this processor can run, the best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cgen

from tiramisu_py.backends.c.definitions import Definition
from tiramisu_py.backends.c.emitted import Emitted
from tiramisu_py.backends.c.emitter import Source
from tiramisu_py.backends.c.layout import text
from tiramisu_py.backends.c.runtime_files import packaged
from tiramisu_py.backends.emitting import HOST_PARTS, emit
from tiramisu_py.ir import LoopFunction
from tiramisu_py.records import dataclass

Lines = list[cgen.Generable]
RUNTIME = "tm_processor.h"


@dataclass(frozen=True, eq=False)
class ProcessorVersion:
    """A version of a function: its C function, the name of the processor that it is for, and the instruction sets that
    it needs, by the names of compilers' macros.
    """

    function: LoopFunction
    processor: str
    needs: tuple[str, ...]


def emit_versions(name: str, versions: Sequence[ProcessorVersion]) -> Emitted:
    """The files of a function of several versions, the best one first: ``<name>.c`` and ``<name>.h``, those of each
    version, and the runtime. The versions have the same parameters and arguments. Raises `UnsupportedError`.
    """
    own = [each.function.name for each in versions]
    general = replace(versions[-1].function, name=name, labels=replace(versions[-1].function.labels, known_as=""))
    source = Source(general, HOST_PARTS, own)
    made = [emit(each.function) for each in versions]
    files = {f"{name}.c": _source(name, source, versions), f"{name}.h": _header(name, source, versions)}
    for each in made:
        files |= each
    files |= {file.name: file.text for file in packaged("c", RUNTIME)}
    libraries = dict.fromkeys(flag for each in made for flag in each.libraries)
    return Emitted(files, source.prototype(), tuple(libraries))


def _header(name: str, source: Source, versions: Sequence[ProcessorVersion]) -> str:
    listed = ", ".join(each.processor for each in versions)
    return source.header([
        cgen.LineComment(f"The version that runs here, of those for {listed}: the first that the processor can run."),
        cgen.LineComment("The environment variable TIRAMISU_VERSION names one of them: those before it are left out."),
        cgen.LineComment("NULL if the processor can run none; each call then returns 1."),
        cgen.Statement(f"const char *{name}_version(void)"),
        cgen.Line(),
    ])  # fmt: skip


def _source(name: str, source: Source, versions: Sequence[ProcessorVersion]) -> str:
    included = [f"{name}.h", *(f"{each.function.name}.h" for each in versions), RUNTIME]
    unable = f'"{name}: this processor can run none of its versions, which are for {_listed(versions)}"'
    calls = [f"{each.function.name}({source.passed()})" for each in versions]
    errors = [f"{each.function.name}_last_error()" for each in versions]
    lines: Lines = [
        cgen.LineComment(f"{name} in versions for several processors, of which a process runs one."),
        *(cgen.Include(file, system=False) for file in included),
        cgen.Line(),
        *_table(name, versions),
        *_number(name),
        Definition(
            f"const char *{name}_version(void)",
            cgen.Block([
                cgen.Statement(f"const int number = {name}_number()"),
                cgen.Statement(f"return number < 0 ? NULL : {name}_versions[number].name"),
            ]),
        ),
        cgen.Line(),
        Definition(f"const char *{name}_last_error(void)", _switch(name, errors, unable)),
        cgen.Line(),
        Definition(f"int {name}({source.parameters(restrict=False)})", _switch(name, calls, "1")),
    ]  # fmt: skip
    return text(cgen.Module(lines))


def _table(name: str, versions: Sequence[ProcessorVersion]) -> Lines:
    """The versions and what they need."""
    lines: Lines = [cgen.Line(f"static const tm_version {name}_versions[] = {{")]
    for each in versions:
        sets = " | ".join(f"TM_SET({needed})" for needed in each.needs) or "0"
        lines.append(cgen.Line(f'    {{"{each.processor}", {sets}}},'))
    return [*lines, cgen.Line("};"), cgen.Line()]


def _number(name: str) -> Lines:
    """The number of the version that runs, found by the first call; other threads may find it at the same time."""
    count = f"(int)(sizeof {name}_versions / sizeof {name}_versions[0])"
    choice = cgen.Statement(f"chosen = number = tm_choice({name}_versions, {count})")
    chosen = cgen.Block([
        cgen.Statement("static _Atomic int chosen = TM_NOT_CHOSEN"),
        cgen.Statement("int number = chosen"),
        cgen.If(cgen.Line("number == TM_NOT_CHOSEN"), choice),
        cgen.Statement("return number"),
    ])  # fmt: skip
    return [Definition(f"static int {name}_number(void)", chosen), cgen.Line()]


def _switch(name: str, values: Sequence[str], otherwise: str) -> cgen.Block:
    """The values that are returned for each version, and if none can run."""
    lines: Lines = [cgen.Line(f"switch ({name}_number()) {{")]
    lines += [cgen.Line(f"case {number}: return {value};") for number, value in enumerate(values)]
    return cgen.Block([*lines, cgen.Line(f"default: return {otherwise};"), cgen.Line("}")])


def _listed(versions: Sequence[ProcessorVersion]) -> str:
    return ", ".join(each.processor for each in versions)
