"""Commands that read a schedule: check, show and emit."""

from __future__ import annotations

import itertools
from argparse import Namespace
from pathlib import Path
from typing import Any

from tiramisu_py import backends, build
from tiramisu_py.console.scripts import ScriptError, functions, named_sizes, one_function
from tiramisu_py.errors import SavedError
from tiramisu_py.function import Function
from tiramisu_py.styles import takes_colours

#: The text of a command, its plain data, and whether all is well.
Found = tuple[str, Any, bool]


def check(given: Namespace) -> Found:
    """The reports of all functions."""
    reports = [f.check() for f in functions(given.script, given.function)]
    texts = [r.styled() if takes_colours() else str(r) for r in reports]
    return "\n".join(texts), [r.as_dict() for r in reports], all(r.ok for r in reports)


def show(given: Namespace) -> Found:
    """The pseudocode of all functions, their commands, the history of one computation, or a picture of one function."""
    if given.output is not None:
        return _picture(one_function(given), given)
    if given.beside is not None and not given.explain and not given.commands:
        return _two(one_function(given), _other(given))
    if given.sizes:
        raise ScriptError(f"{' '.join(given.sizes)}: sizes are for a picture: add -o FILE.html, or leave them out")
    texts = {}
    for f in _explained(given) if given.explain else functions(given.script, given.function):
        if given.explain:
            texts[f.name] = str(f.explain(given.explain))
        elif given.commands:
            texts[f.name] = "\n".join(map(str, f.commands))
        else:
            texts[f.name] = f.pseudocode()
    return "\n".join(texts.values()), texts, True


def _other(given: Namespace) -> Function:
    """The schedule to set beside: that of another script, or another function of the same one."""
    if Path(given.beside).suffix in (".py", ".json"):
        return one_function(Namespace(script=given.beside, function=None))
    return functions(given.script, given.beside)[0]


def _two(f: Function, g: Function) -> Found:
    """The pseudocode of two schedules in two columns."""
    texts = [each.pseudocode() for each in (f, g)]
    left, right = (text.splitlines() for text in texts)
    width = max(map(len, left))
    rows = itertools.zip_longest(left, right, fillvalue="")
    return "\n".join(f"{a:<{width}}  |  {b}".rstrip() for a, b in rows), texts, True


def _explained(given: Namespace) -> list[Function]:
    """The functions that have the computation to explain; raises `ScriptError` if none has it."""
    found = functions(given.script, given.function)
    having = [f for f in found if given.explain in f.algorithm.computations]
    if not having:
        known = "; ".join(f"{f.name} has {', '.join(f.algorithm.computations) or 'none'}" for f in found)
        raise ScriptError(f"{given.script} has no computation {given.explain!r} to explain: {known}")
    return having


def _picture(f: Function, given: Namespace) -> Found:
    """The picture of a function, as an HTML file."""
    sizes: dict[str, Any] = named_sizes(f, given.sizes, needs_all=False)
    try:
        f.picture(given.output, beside=None if given.beside is None else _other(given), **sizes)
    except SavedError as error:
        raise ScriptError(str(error)) from error
    return given.output, {"picture": given.output}, True


def emit_text(given: Namespace) -> Found:
    """The files of the generated source text, printed one after another or written to a folder."""
    processor = build.processor_for(given.target)
    made = {
        f.name: dict(backends.emit(f.lowered(processor.vector_bytes))) for f in functions(given.script, given.function)
    }
    files = {name: text for each in made.values() for name, text in each.items()}
    taken = f"for {processor.name}, with vectors of {processor.vector_bytes} bytes"
    if given.output is None:
        texts = [f"/* {taken} */\n", *(f"/* ---- {name} ---- */\n{text}\n" for name, text in files.items())]
        return "".join(texts), made, True
    folder = Path(given.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"{given.output} cannot be written: {error}") from error
    paths = [str(folder / name) for name in files]
    return "\n".join([*paths, taken]), paths, True
