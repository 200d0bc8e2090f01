"""External C functions that a compiler or the loader refuses: explained in terms of `tm.extern`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import cgen

from tiramisu_py.algorithm.words.stages import ForeignFunction
from tiramisu_py.backends.c.definitions import declarer, given, prototype, signature_check
from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain.compilers.library import LibraryRecipe
from tiramisu_py.toolchain.compilers.tools import run

_POINTER = re.compile(r"['‘]([^'’]*\(\*\)\([^'’]*\))['’]")
_ERROR = re.compile(r"(?:^|: )(?:fatal )?error: (.*)$", re.MULTILINE)
_TWICE = re.compile(r"multiple definition of [`'‘](\w+)|duplicate symbol '?_?(\w+)")
_MISSING = re.compile(r"undefined (?:symbol|reference)[: to`']*\s*`?(\w+)")


def refusal(error: ToolchainError, recipe: LibraryRecipe, externs: Sequence[ForeignFunction]) -> ToolchainError:
    """The error of an external function, if that prevents the build of a library; else the original error."""
    missing = set(_MISSING.findall(str(error)))
    twice = {name for pair in _TWICE.findall(str(error)) for name in pair}
    for extern in externs:
        if extern.name in twice:
            return ToolchainError(
                f"the external function {extern.name} is defined by its source= once in each version for a processor: "
                "make it static"
            )
        if extern.name in missing:
            return ToolchainError(
                f"the external function {extern.name} is not defined: neither its source= nor a loaded library "
                "defines it"
            )
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-") as folder:
        for name, text in recipe.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        for count, extern in enumerate(externs, start=1):
            said = _obstacle(Path(folder), recipe, externs[:count], extern)
            if said:
                return ToolchainError(said)
    return error


def _obstacle(folder: Path, recipe: LibraryRecipe, before: Sequence[ForeignFunction], extern: ForeignFunction) -> str:
    """The compiler's objection to an external function, compiled after those `before` it; empty if there is none."""
    own = "header" if extern.header and not extern.source else "source"
    said = _said(folder, recipe, before, "")
    if said:
        return f"the {own} of the external function {extern.name} is refused by the compiler: {said[0]}"
    if _is_undeclared(folder, recipe, before, extern):
        return f"the {own} of the external function {extern.name} does not define {extern.name}"
    wrong = _said(folder, recipe, before, "", checked=extern)
    if not wrong:
        return ""
    pointer = next(iter(_POINTER.findall("\n".join(_pointer(folder, recipe, before, extern)))), "")
    is_what = " ".join(pointer.replace("(*)", extern.name).split()) if pointer else "something else"
    return (
        f"the external function {extern.name} is declared as {prototype(extern)}, but its {own} has {is_what}: give "
        f"{declarer(extern)} the types that it has"
    )


def _is_undeclared(
    folder: Path, recipe: LibraryRecipe, before: Sequence[ForeignFunction], extern: ForeignFunction
) -> bool:
    named = f"#ifndef {extern.name}\nint tm_any = sizeof(&{extern.name});\n#endif"
    return any("undeclared" in line for line in _said(folder, recipe, before, named))


def _pointer(
    folder: Path, recipe: LibraryRecipe, before: Sequence[ForeignFunction], extern: ForeignFunction
) -> list[str]:
    """The compiler's message if a function's address is assigned to a wrong type: it contains the function's type."""
    line = f"struct tm_any; static struct tm_any *const tm_any = &{extern.name};"
    return _said(folder, recipe, before, line, flags=("-Werror=incompatible-pointer-types", "-Wno-unused-variable"))


def _said(
    folder: Path,
    recipe: LibraryRecipe,
    externs: Sequence[ForeignFunction],
    more: str,
    checked: ForeignFunction | None = None,
    flags: Sequence[str] = (),
) -> list[str]:
    """The errors of a compiler for a source that has only these functions."""
    lines: list[cgen.Generable] = [
        cgen.Include(f"{recipe.name}.h", system=False),
        cgen.Include("tm_runtime.h", system=False),
    ]
    lines += [line for extern in externs for line in given(extern)]
    lines += signature_check(checked) if checked else []
    Path(folder, "tm_externs.c").write_text(f"{cgen.Module(lines)}\n{more}\n", encoding="utf-8")
    quiet = [flag for flag in recipe.flags if flag != "-w"]
    answer = run([*recipe.toolchain.command, *quiet, *flags, "-fsyntax-only", "tm_externs.c"], folder)
    if answer.returncode == 0:
        return []
    return _ERROR.findall(answer.stderr) or [answer.stderr.strip()[:200]]
