"""The scheduled functions of a user's script."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, get_args, get_origin

from tiramisu_py.errors import TiramisuError
from tiramisu_py.function import Function, load

#: The name of a script's module while the command line runs it: what is under ``if __name__ == "__main__"`` is not run.
MODULE = "__tiramisu__"
_SAYS_FUNCTION = re.compile(r"(tuple\[)?((tm|tiramisu_py)\.)?Function(, .*\])?")
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ScriptError(Exception):
    """A script that cannot be used, and what to do."""


def functions(script: str, name: str | None, arguments: Sequence[str] = ()) -> list[Function]:
    """The functions of a script, or of a file that `Function.save` wrote.

    Those are its global variables that are a `tm.Function`; if there are none, what its own functions return that take
    no arguments and are annotated ``-> tm.Function``, or ``-> tuple[tm.Function, ...]``, whose first element it is.
    With a `name`, that variable or function alone. Raises `ScriptError`, and what the script raises.
    """
    return list(told_apart(script, name, arguments).values())


def told_apart(script: str, name: str | None, arguments: Sequence[str] = ()) -> dict[str, Function]:
    """The functions, as in `functions`, each under a name that no other one has.

    Those are their own names; where several functions have one name, those that ``--function`` takes.
    """
    found = _once(_functions(script, name, arguments))
    own = {f.name: f for f in found.values()}
    return own if len(own) == len(found) else found


def _once(found: dict[str, Function]) -> dict[str, Function]:
    """Each function under the first of its names."""
    first = {id(f): key for key, f in reversed(found.items())}
    return {key: f for key, f in found.items() if first[id(f)] == key}


def _functions(script: str, name: str | None, arguments: Sequence[str] = ()) -> dict[str, Function]:
    """The functions, by the names that ``--function`` takes."""
    path = Path(script)
    if not path.is_file():
        raise ScriptError(f"there is no file {script}")
    if path.suffix == ".json":
        loaded = load(path)
        return {loaded.name: loaded}
    found = _globals(path, arguments)
    if name is not None:
        return {name: _named(path, found, name)}
    values = {key: value for key, value in found.items() if isinstance(value, Function)}
    if not values:
        values = {key: _called(path, key, make) for key, make in found.items() if _makes_function(path, make)}
    if not values:
        kernels = [key for key, value in found.items() if _is_kernel(value) and value.__module__ == MODULE]
        launched = f"; launch {', '.join(kernels)} in it: {kernels[0]}[grid](...), on its handles" if kernels else ""
        raise ScriptError(
            f"{script} has no scheduled function: let a global variable hold a tm.Function, or let a function without "
            f"arguments return one and be annotated -> tm.Function{launched}"
        )
    return values


def one_function(given: Namespace) -> Function:
    """The only function of a script, or the one that is named; raises `ScriptError` if there are several."""
    found = _once(_functions(given.script, given.function))
    if len(found) > 1:
        raise ScriptError(f"{given.script} has {len(found)} functions: choose one with --function {', '.join(found)}")
    return next(iter(found.values()))


def named_sizes(f: Function, given: Sequence[str], *, needs_all: bool = True) -> dict[str, int]:
    """The values of parameters, from ``NAME=NUMBER``; raises `ScriptError`, also for one that is missing."""
    sizes: dict[str, int] = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not equals or not number.isdecimal() or name not in f.algorithm.params:
            known = ", ".join(f"{param}=1000" for param in f.algorithm.params) or "none"
            raise ScriptError(f"{text!r} is no size of {f.name}: give {known}")
        sizes[name] = int(number)
    missing = [name for name in f.algorithm.params if needs_all and name not in sizes]
    if missing:
        raise ScriptError(f"{f.name} needs sizes: add {' '.join(f'{name}=1000' for name in missing)}")
    return sizes


def _globals(path: Path, arguments: Sequence[str]) -> dict[str, Any]:
    with _as_program(path, arguments):
        try:
            with redirect_stdout(sys.stderr):  # what the script prints is no part of the answer
                return runpy.run_path(str(path), run_name=MODULE)
        except SyntaxError as error:
            raise ScriptError(f"{path} is no Python script: {error}") from None
        except TiramisuError:
            raise
        except SystemExit as error:
            raise ScriptError(f"{path} ended itself (exit {error.code}) before its functions could be read") from None


@contextmanager
def _as_program(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Give a script what it finds when Python runs it: its own arguments, and its folder among those of modules."""
    given = list(sys.argv)
    sys.argv[:] = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv[:] = given
        sys.path.pop(0)


def _named(path: Path, found: dict[str, Any], name: str) -> Function:
    by_name = _once({key: value for key, value in found.items() if isinstance(value, Function) and value.name == name})
    if name not in found and len(by_name) > 1:
        raise ScriptError(f"{path} has {len(by_name)} functions {name}: choose one of {', '.join(by_name)}")
    value = found[name] if name in found else next(iter(by_name.values()), None)
    if value is None:
        own = [key for key, each in found.items() if isinstance(each, Function) or _makes_function(path, each)]
        raise ScriptError(f"{path} has no {name!r}; it has {', '.join(own) or 'no scheduled function'}")
    return value if isinstance(value, Function) else _called(path, name, value)


def _called(path: Path, name: str, make: Any) -> Function:
    if _is_kernel(make):
        raise ScriptError(
            f"{name} of {path} is a kernel: name a function that launches it, {name}[grid](...), on its handles"
        )
    if not callable(make):
        raise ScriptError(f"{name} of {path} is {make!r:.60}: name a tm.Function, or a function that returns one")
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise ScriptError(f"{name} of {path} cannot be called without arguments: {error}") from None
    made = make()
    value = made[0] if isinstance(made, tuple) and made else made
    if not isinstance(value, Function):
        raise ScriptError(f"{name} of {path} returned {made!r:.60}, and no tm.Function")
    return value


def _is_kernel(value: Any) -> bool:
    """Whether it is a ``@tm.jit``; the language is loaded by scripts that have kernels."""
    return hasattr(type(value), "__tiramisu_source__")


def _makes_function(path: Path, value: Any) -> bool:
    """Whether it is a function of the script itself that says that it returns a scheduled function."""
    if not inspect.isfunction(value) or value.__module__ != MODULE:
        return False
    signature = inspect.signature(value)
    needs = any(p.default is p.empty and p.kind not in _MANY for p in signature.parameters.values())
    said = signature.return_annotation
    text = said if isinstance(said, str) else str(said)
    first = said if get_origin(said) is not tuple else get_args(said)[0]
    return not needs and (first is Function or _SAYS_FUNCTION.fullmatch(text) is not None)
