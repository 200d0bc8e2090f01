"""Files that hold an algorithm and the commands of its schedule: JSON, with the number of the format in front."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import islpy as isl

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.words.stages import ForeignFunction
from tiramisu_py.errors import SavedError, TiramisuError
from tiramisu_py.function.saving.algorithms import plain_algorithm, read_algorithm
from tiramisu_py.function.saving.plain import plain
from tiramisu_py.program.command import Command
from tiramisu_py.sets import IslTextError

#: The format number: increased when files hold what they held before in another form. A command that a version does not
#: know needs no number: reading it says so.
FORMAT = 5
_WHAT = "tiramisu_py function"
#: The errors that reading a damaged file may raise.
_DAMAGED = (
    KeyError, TypeError, ValueError, AttributeError, IndexError, TiramisuError, IslTextError, isl.Error,
)  # fmt: skip


def written(path: str | os.PathLike[str], algorithm: Algorithm, commands: Iterable[Command]) -> None:
    """Write an algorithm and its commands to a file, whole or not at all; raises `SavedError`."""
    target = _file(path)
    data = {
        "what": _WHAT,
        "format": FORMAT,
        "algorithm": plain_algorithm(algorithm),
        "commands": [{"text": command.text, "command": plain(command)} for command in commands],
    }
    _write_whole(target, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_certificate(path: str | os.PathLike[str], found: dict[str, Any]) -> None:
    """Write a certificate to a file, whole or not at all; raises `SavedError`."""
    _write_whole(_file(path), json.dumps(found, indent=1))


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page of HTML to a file, whole or not at all; raises `SavedError`."""
    _write_whole(_file(path, "blur.html"), text)


def _write_whole(target: Path, text: str) -> None:
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise SavedError(f"{target} cannot be written: {_why_not_written(target, error)}") from error


def _why_not_written(target: Path, error: OSError) -> str:
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}; create it first, or choose another one"
    return f"{error.strerror or error}"


def _why_not_read(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file; give the path that Function.save was given"
    return f"{error.strerror or error}"


def read(path: str | os.PathLike[str], externs: Iterable[ForeignFunction]) -> tuple[Algorithm, list[Command]]:
    """The algorithm and the commands of a file; raises `SavedError`, with the file's name."""
    file, known = _file(path), _externs(externs)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SavedError(f"{file} cannot be read: {_why_not_read(error)}") from error
    except ValueError as error:
        raise SavedError(f"{file} is damaged, or no file of Function.save: {error}") from None
    _check_format(file, data)
    try:
        algorithm, reader = read_algorithm(data["algorithm"], known)
        commands = [reader.value(entry["command"]) for entry in _list(data, "commands")]
    except SavedError as error:
        raise SavedError(f"{file}: {error}") from None
    except _DAMAGED as error:
        raise damaged(file, error) from None
    for command in commands:
        if not isinstance(command, Command):
            raise SavedError(f"{file} is damaged: {command!r} is not a command")
    return algorithm, commands


def damaged(path: str | os.PathLike[str], error: Exception) -> SavedError:
    """The error for a file that makes reading it, or applying its commands, fail in this way."""
    match error:
        case KeyError():
            said = f"a part of it has no {error}"
        case TiramisuError() | IslTextError() | isl.Error():
            said = str(error)
        case _:
            said = f"a part of it is not as Function.save writes it ({type(error).__name__}: {error})"
    return SavedError(f"{path} is damaged: {said}")


def _file(given: object, such: str = "blur.json") -> Path:
    """The path of a file; raises `SavedError` for anything else."""
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str) or not os.fspath(given):
        raise SavedError(f"{given!r} is not the path of a file: give a text, such as {such!r}, or a pathlib.Path")
    path = Path(given)
    if path.is_dir():
        raise SavedError(f"{path} is a folder: give the path of a file, such as {str(path / such)!r}")
    return path


def _externs(given: object) -> list[ForeignFunction]:
    """The external functions; raises `SavedError` for anything else."""
    listed: list[object] = list(given) if isinstance(given, list | tuple | set | frozenset) else [None]
    found = [one for one in listed if isinstance(one, ForeignFunction)]
    if len(found) < len(listed):
        raise SavedError(
            f"externs={given!r}: give a list of functions that tm.extern or tm.extern_stage has declared, "
            "externs=[twice]"
        )
    return found


def _check_format(file: Path, data: object) -> None:
    if not isinstance(data, dict) or data.get("what") != _WHAT:
        raise SavedError(f"{file} is damaged, or no file of Function.save: it does not say what it holds")
    number = data.get("format")
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise SavedError(f"{file} is damaged: its format is {number!r}, not a number from 1 to {FORMAT}")
    if number > FORMAT:
        raise SavedError(
            f"{file} has format {number}, of a newer version of tiramisu_py: this one reads formats up to {FORMAT}"
        )


def _list(data: dict[str, Any], name: str) -> list[Any]:
    found = data[name]
    if not isinstance(found, list):
        raise SavedError(f"it is damaged: {name} is not a list")
    return found
