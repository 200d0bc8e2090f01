"""Commands that read a schedule: check, show and emit."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tiramisu_py import backends, toolchain
from tiramisu_py.console.scripts import ScriptError, functions, named_sizes, one_function, told_apart
from tiramisu_py.errors import SavedError
from tiramisu_py.function import Function
from tiramisu_py.styles import takes_colours

#: The text of a command, its plain data, and whether all is well.
Found = tuple[str, Any, bool]


def check(given: Namespace) -> Found:
    """The reports of all functions."""
    found = told_apart(given.script, given.function)
    reports = [f.check() for f in found.values()]
    texts = [r.styled() if takes_colours() else str(r) for r in reports]
    data = [{"function": name, **r.as_dict()} for name, r in zip(found, reports, strict=True)]
    return _headed(found, texts), data, all(r.ok for r in reports)


def _headed(found: dict[str, Function], texts: Iterable[str]) -> str:
    """The texts of functions one after another, headed by what tells them apart where that is not their names."""
    heads = [f"---- {name} ----\n" if _share_names(found) else "" for name in found]
    return "\n".join(f"{head}{text}" for head, text in zip(heads, texts, strict=True))


def _share_names(found: dict[str, Function]) -> bool:
    return len({f.name for f in found.values()}) < len(found)


def show(given: Namespace) -> Found:
    """The pseudocode of all functions, their commands, the history of one computation, or a picture of one function."""
    if given.output is not None:
        return _picture(one_function(given), given)
    if given.beside is not None and not given.explain and not given.commands:
        return _two(one_function(given), _other(given))
    if given.sizes:
        raise ScriptError(f"{' '.join(given.sizes)}: sizes are for a picture: add -o FILE.html, or leave them out")
    found = _explained(given) if given.explain else told_apart(given.script, given.function)
    texts = {name: _shown(f, given) for name, f in found.items()}
    return _headed(found, texts.values()), texts, True


def _shown(f: Function, given: Namespace) -> str:
    """The history of one computation, the commands, or the pseudocode."""
    if given.explain:
        return str(f.show("history", given.explain))
    return "\n".join(map(str, f.commands)) if given.commands else f.show("pseudocode")


def _other(given: Namespace) -> Function:
    """The schedule to set beside: that of another script, or another function of the same one."""
    if Path(given.beside).suffix in (".py", ".json"):
        return one_function(Namespace(script=given.beside, function=None))
    return functions(given.script, given.beside)[0]


def _two(f: Function, g: Function) -> Found:
    """The pseudocode of two schedules in two columns."""
    texts = [each.show("pseudocode") for each in (f, g)]
    left, right = (text.splitlines() for text in texts)
    width = max(map(len, left))
    rows = itertools.zip_longest(left, right, fillvalue="")
    return "\n".join(f"{a:<{width}}  |  {b}".rstrip() for a, b in rows), texts, True


def _explained(given: Namespace) -> dict[str, Function]:
    """The functions that have the computation to explain; raises `ScriptError` if none has it."""
    found = told_apart(given.script, given.function)
    having = {name: f for name, f in found.items() if given.explain in f.algorithm.computations}
    if not having:
        known = "; ".join(f"{name} has {', '.join(f.algorithm.computations) or 'none'}" for name, f in found.items())
        raise ScriptError(f"{given.script} has no computation {given.explain!r} to explain: {known}")
    return having


def _picture(f: Function, given: Namespace) -> Found:
    """The picture of a function, as an HTML file."""
    sizes: dict[str, Any] = named_sizes(f, given.sizes, needs_all=False)
    try:
        f.show("picture", given.output, beside=None if given.beside is None else _other(given), **sizes)
    except SavedError as error:
        raise ScriptError(str(error)) from error
    return given.output, {"picture": given.output}, True


def emit_text(given: Namespace) -> Found:
    """The files of the generated source text, printed one after another or written to a folder.

    Functions of one name have files of the same names: those of each are in a folder of their own.
    """
    processor = toolchain.processor_for(given.target)
    found = told_apart(given.script, given.function)
    made = {name: dict(backends.emit(f.show("lowered", processor.vector_bytes))) for name, f in found.items()}
    files = {
        f"{own}/{name}" if _share_names(found) else name: text
        for own, each in made.items()
        for name, text in each.items()
    }
    taken = f"for {processor.name}, with vectors of {processor.vector_bytes} bytes"
    if given.output is None:
        texts = [f"/* {taken} */\n", *(f"/* ---- {name} ---- */\n{text}\n" for name, text in files.items())]
        return "".join(texts), made, True
    folder = Path(given.output)
    try:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"{given.output} cannot be written: {error}") from error
    paths = [str(folder / name) for name in files]
    return "\n".join([*paths, taken]), paths, True
