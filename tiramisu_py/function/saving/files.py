"""Files that hold an algorithm and the commands of its schedule: JSON, with the number of the format in front."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import islpy as isl

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.expressions import ExternFunction
from tiramisu_py.errors import SavedError, TiramisuError
from tiramisu_py.function.saving.algorithms import plain_algorithm, read_algorithm
from tiramisu_py.function.saving.plain import plain
from tiramisu_py.program.command import Command
from tiramisu_py.sets import IslTextError

#: The format number: increased whenever a file may contain something that the previous version cannot read.
FORMAT = 2
_WHAT = "tiramisu_py function"
#: The errors that reading a damaged file may raise.
_DAMAGED = (
    KeyError, TypeError, ValueError, AttributeError, IndexError, TiramisuError, IslTextError, isl.Error,
)  # fmt: skip


def written(path: str | os.PathLike[str], algorithm: Algorithm, commands: Iterable[Command]) -> None:
    """Write an algorithm and its commands to a file, whole or not at all; raises `SavedError`."""
    data = {
        "what": _WHAT,
        "format": FORMAT,
        "algorithm": plain_algorithm(algorithm),
        "commands": [{"text": command.text, "command": plain(command)} for command in commands],
    }
    target = Path(path)
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        beside.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise SavedError(f"{target} cannot be written: {_why_not_written(target, error)}") from error


def _why_not_written(target: Path, error: OSError) -> str:
    if target.is_dir():
        return "it is a folder; give the path of a file"
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}; create it first, or choose another one"
    return f"{error.strerror or error}"


def _why_not_read(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file; give the path that Function.save was given"
        case IsADirectoryError():
            return "it is a folder; give the path of a file that Function.save has written"
    return f"{error.strerror or error}"


def read(path: str | os.PathLike[str], externs: Iterable[ExternFunction]) -> tuple[Algorithm, list[Command]]:
    """The algorithm and the commands of a file; raises `SavedError`, with the file's name."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SavedError(f"{path} cannot be read: {_why_not_read(error)}") from error
    except ValueError as error:
        raise SavedError(f"{path} is damaged, or no file of Function.save: {error}") from None
    if not isinstance(data, dict) or data.get("what") != _WHAT or not isinstance(data.get("format"), int):
        raise SavedError(f"{path} is damaged, or no file of Function.save: it does not say what it holds")
    if data["format"] > FORMAT:
        raise SavedError(
            f"{path} has format {data['format']}, of a newer version of tiramisu_py: this one reads formats up to "
            f"{FORMAT}"
        )
    try:
        algorithm, reader = read_algorithm(data["algorithm"], externs)
        commands = [reader.value(entry["command"]) for entry in data["commands"]]
    except SavedError as error:
        raise SavedError(f"{path}: {error}") from None
    except _DAMAGED as error:
        raise SavedError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    for command in commands:
        if not isinstance(command, Command):
            raise SavedError(f"{path} is damaged: {command!r} is not a command")
    return algorithm, commands
