"""Several programs in one C source: a run of the compiler for all of them, with every warning an error.

What the programs have in common is there once: the files of the runtime, and definitions for types of vectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import tiramisu_py as tm
from tests.backends.compiled import FALSE_ALARMS, STRICT
from tests.oracle.generators.script import Script
from tiramisu_py.backends import emit
from tiramisu_py.backends.c import Emitted
from tiramisu_py.errors import ToolchainError
from tiramisu_py.ir import LoopFunction
from tiramisu_py.toolchain.calls.arguments import Arguments
from tiramisu_py.toolchain.compilation import processor_for
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.flags import WARNINGS
from tiramisu_py.toolchain.compilers.library import LibraryRecipe, load, prepare
from tiramisu_py.toolchain.compilers.processor import Processor

AS_ERRORS = (*STRICT, *FALSE_ALARMS)
#: A definition that programs share: a macro of the runtime, called or as the first word of a function.
SHARED = re.compile(r"^TM_\w+(?:\([^\n]*\)| [^\n]*\{\n.*?^\})$", re.MULTILINE | re.DOTALL)


class StrictRecipe(LibraryRecipe):
    """A recipe whose compiler accepts no warning."""

    def _flags_for(self, processor: Processor) -> tuple[str, ...]:
        """Those of users, but for the warnings."""
        return (*(flag for flag in super()._flags_for(processor) if flag not in WARNINGS), *AS_ERRORS)


def kernels(programs: Mapping[str, Script]) -> dict[str, tm.Kernel | str]:
    """The kernels of proven programs, by the names that they get; or what the compiler says of one."""
    try:
        return {**_compiled(programs)}
    except ToolchainError as error:
        if len(programs) == 1:
            return dict.fromkeys(programs, str(error))
    found: dict[str, tm.Kernel | str] = {}
    for name, script in programs.items():
        found |= kernels({name: script})
    return found


def _compiled(programs: Mapping[str, Script]) -> dict[str, tm.Kernel]:
    vector_bytes = processor_for().vector_bytes
    named = {name: _named(script.function.show("lowered", vector_bytes), name) for name, script in programs.items()}
    cache = open_cache()
    prepared = prepare("together", _together([emit(function) for function in named.values()]), cache)
    recipe = StrictRecipe(**{each.name: getattr(prepared, each.name) for each in fields(prepared)})
    library = load(recipe, cache)
    return {
        name: tm.Kernel(function, recipe, Arguments(function, programs[name].function.algorithm), library)
        for name, function in named.items()
    }


def _named(function: LoopFunction, name: str) -> LoopFunction:
    """A function, and its versions, under another name."""
    versions = tuple(
        replace(v, function=_named(v.function, f"{name}_{v.function.name}")) for v in function.companions.versions
    )
    return replace(function, name=name, companions=replace(function.companions, versions=versions))


def _together(emitted: Sequence[Emitted]) -> Emitted:
    """One source that includes them all."""
    files = {name: text for each in emitted for name, text in each.items() if not name.endswith(".c")}
    known: set[str] = set()
    sources = [(name, text) for each in emitted for name, text in each.items() if name.endswith(".c")]
    included = {f"{name}.inc": _without(text, known) for name, text in sources}
    files |= included
    files["together.c"] = "".join(f'#include "{name}"\n' for name in included)
    libraries = tuple(dict.fromkeys(library for each in emitted for library in each.libraries))
    return Emitted(files, "", libraries)


def _without(text: str, known: set[str]) -> str:
    """A source without the definitions that are known, which are more from then on."""

    def first(match: re.Match[str]) -> str:
        again = match.group() in known
        known.add(match.group())
        return "" if again else match.group()

    return SHARED.sub(first, text)
