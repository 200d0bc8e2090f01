"""Values as plain data that JSON can hold, and back: the field ``is`` of a record gives its kind.

::

    Split(of=bx, loop=r, ...)    <-->    {"is": "split", "of": {"is": "whole", ...}, "loop": {"is": "iter", ...}, ...}

A dataclass is saved by its fields that differ from their defaults. The operands of an expression are the numbers of
other nodes, so that a shared node is saved once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from tiramisu_py.algorithm import expressions as ex
from tiramisu_py.algorithm.declarations import Location
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType, TupleType, named_type, tuple_type
from tiramisu_py.algorithm.words.stages import ArrayParameter, ExternStage, ForeignFunction, StageCall, StrideParameter
from tiramisu_py.errors import SavedError
from tiramisu_py.program.command import Command, every_command
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.machine.gpu_target import GpuTarget
from tiramisu_py.program.machine.pages import Policy
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.program.targets import Cores, GpuThreads, Shares
from tiramisu_py.schedule import command_fields as named
from tiramisu_py.schedule.devices.transfers import Direction, Mode
from tiramisu_py.schedule.locality.copy_values import CopyValues
from tiramisu_py.schedule.loops.order import Root, root
from tiramisu_py.schedule.ranks.exchange_half import Property
from tiramisu_py.schedule.ranks.rank_numbers import RankNumber
from tiramisu_py.schedule.ranks.uneven_distribution import Cut

#: What JSON holds.
Plain = Any

_NODES = (
    ex.Const, ex.Iter, ex.Param, ex.Access, ex.Unary, ex.Binary, ex.Select, ex.Cast, ex.Stopped, ex.Call, ex.TupleValue,
    ex.Component, StageCall, RankNumber,
)  # fmt: skip
_RECORDS = (
    *_NODES, named.NamedInput, named.Whole, named.NamedParts, named.Single, named.Both,
    ex.ExternFunction, ExternStage, ArrayParameter, StrideParameter, Location, Buffer, Shares, Cores, GpuThreads,
    GpuTarget, Cut,
)  # fmt: skip
_CHOICES = (Combine, Memory, Policy, Direction, Mode, Property)
#: Fields left out of a file: the owner follows from the file, and Python functions cannot be saved.
_LEFT_OUT = ("owner", "python", "derivative", "adjoint")


def kind_of(of: type) -> str:
    """The name of a class in a file: ``UnrollAndJam`` is ``unroll_and_jam``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", of.__name__).lower()


_BY_KIND = {kind_of(of): of for of in (*_RECORDS, *_CHOICES)}


# -- writing


def plain(value: object) -> Plain:
    """A value as plain data; raises `SavedError` for a value that no file can hold."""
    match value:
        case None | bool() | str():
            return value
        case Expr() if type(value) in _NODES:
            return _expression(value)
        case Enum() if isinstance(value, _CHOICES):
            return {"is": kind_of(type(value)), "name": value.name}
        case np.bool_():
            return bool(value)
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(value) if math.isfinite(value) else {"is": "float", "value": str(float(value))}
        case list():
            return [plain(item) for item in value]
        case tuple():
            return {"is": "tuple", "items": [plain(item) for item in value]}
        case Mapping():
            return {"is": "dict", "items": [[plain(key), plain(one)] for key, one in value.items()]}
        case TupleType():
            return {"is": "tuple_type", "fields": plain(value.fields)}
        case DType():
            return {"is": "type", "name": value.name}
        case Root():
            return {"is": "root"}
        case range():
            return {"is": "range", "start": value.start, "stop": value.stop}
        case Fraction():
            return {"is": "fraction", "terms": [value.numerator, value.denominator]}
    if type(value) in _RECORDS or type(value) in every_command():
        return _record(value, {})
    raise SavedError(f"{value!r} cannot be saved: it is a {type(value).__name__}")


def _expression(e: Expr) -> Plain:
    """An expression: a leaf by itself, or its nodes, operands first."""
    if not e.children():
        return _record(e, {})
    numbers: dict[int, int] = {}
    nodes = []
    for node in _operands_first(e):
        nodes.append(_record(node, numbers))
        numbers[id(node)] = len(numbers)
    return {"is": "expression", "nodes": nodes}


def _operands_first(e: Expr) -> list[Expr]:
    """All nodes, each once, after its operands."""
    found: dict[int, Expr] = {}
    waiting = [e]
    while waiting:
        node = waiting[-1]
        missing = [child for child in node.children() if id(child) not in found]
        if missing:
            waiting += reversed(missing)
        else:
            found.setdefault(id(waiting.pop()), node)
    return list(found.values())


def _record(value: Any, numbers: Mapping[int, int]) -> Plain:
    """The fields of a dataclass that differ from their defaults."""
    found: dict[str, Plain] = {"is": kind_of(type(value))}
    for one in fields(value):
        given = getattr(value, one.name)
        if one.name not in _LEFT_OUT and not (one.default is not MISSING and given is one.default):
            found[one.name] = _operand(given, numbers)
    return found


def _operand(given: object, numbers: Mapping[int, int]) -> Plain:
    if isinstance(given, Expr) and id(given) in numbers:
        return {"is": "node", "number": numbers[id(given)]}
    if isinstance(given, tuple) and given and all(id(item) in numbers for item in given):
        return {"is": "nodes", "numbers": [numbers[id(item)] for item in given]}
    return plain(given)


# -- reading


class Reader:
    """Reads values for one function: the accesses of its values have its `owner`.

    `externs` are functions in C by name; one that is not among them cannot be called by `evaluate`.
    """

    def __init__(self, owner: object, externs: Mapping[str, ForeignFunction]) -> None:
        self.owner = owner
        self.externs = externs

    def value(self, data: Plain, nodes: Sequence[Expr] = ()) -> Any:
        """The value that plain data describes; raises `SavedError` for an unknown kind."""
        if isinstance(data, list):
            return [self.value(item, nodes) for item in data]
        if not isinstance(data, dict):
            return data
        match kind := data["is"]:
            case "tuple":
                return tuple(self.value(item, nodes) for item in data["items"])
            case "dict":
                return {self.value(key, nodes): self.value(one, nodes) for key, one in data["items"]}
            case "expression":
                return self._expression(data["nodes"])
            case "node":
                return nodes[data["number"]]
            case "nodes":
                return tuple(nodes[number] for number in data["numbers"])
            case "float":
                return float(data["value"])
            case "type":
                return named_type(data["name"])
            case "tuple_type":
                return tuple_type(self.value(data["fields"]))
            case "root":
                return root
            case "range":
                return range(data["start"], data["stop"])
            case "fraction":
                return Fraction(*data["terms"])
        if kind in OLDER:
            return OLDER[kind](**{name: self.value(one, nodes) for name, one in data.items() if name != "is"})
        found: Any = _BY_KIND.get(kind) or next((each for each in every_command() if kind_of(each) == kind), None)
        if found is None:
            raise SavedError(f"there is a {kind!r}, which this version does not know")
        return found[data["name"]] if issubclass(found, Enum) else self._record(found, data, nodes)

    def _expression(self, data: Sequence[Plain]) -> Expr:
        nodes: list[Expr] = []
        for node in data:
            nodes.append(self.value(node, nodes))
        return nodes[-1]

    def _record(self, of: Any, data: Mapping[str, Plain], nodes: Sequence[Expr]) -> Any:
        former = dict(of.former) if issubclass(of, Command) else {}
        given = {former.get(name, name): self.value(one, nodes) for name, one in data.items() if name != "is"}
        known = {one.name: one for one in fields(of)}
        unknown = [name for name in given if name not in known or name in _LEFT_OUT]
        if unknown:
            raise SavedError(f"{kind_of(of)} has {unknown[0]}=, which this version does not know")
        if of in (ex.ExternFunction, ExternStage):
            return self._extern(of, given)
        if "owner" in known:
            given["owner"] = self.owner
        missing = [one.name for one in known.values() if one.default is MISSING and one.name not in given]
        if missing:
            raise SavedError(f"{kind_of(of)} has no {missing[0]}")
        return of(**given)

    def _extern(self, of: Any, given: Mapping[str, Any]) -> ForeignFunction:
        name = given["name"]
        made: ForeignFunction = of(**given, python=_undeclared(name))
        if name not in self.externs:
            return made
        own = self.externs[name]
        written = {one.name: getattr(made, one.name) for one in fields(of) if one.name in _LEFT_OUT}
        if type(own) is not of or replace(own, **written) != made:
            raise SavedError(f"the external function {name} is another one than that which was saved")
        return own


def _undeclared(name: str) -> Any:
    def refused(*_: object) -> Any:
        raise SavedError(
            f"the external function {name} was loaded without its equivalent in Python: give tm.load externs=[{name}]"
        )

    return refused


# -- commands as files of older versions hold them: by other names, and with other arguments


def _cache(of: Any, copied: Any, level: Any, iterators: Any, **options: Any) -> Command:
    into, name = options.pop("memory", Memory.HOST), options.pop("name", None)
    called = name if options.get("layout") is None else name or f"{copied.source}_cache"
    return CopyValues(of, copied, iterators, at=level, into=into, name=called, **options)


def _pack(of: Any, copied: Any, iterators: Any, layout: Any, **options: Any) -> Command:
    at = {"at": options.pop("level")} if "level" in options else {}
    return CopyValues(of, copied, iterators, layout=layout, **at, **options)


def _shared(of: Any, copied: Any, level: Any, iterators: Any, **options: Any) -> Command:
    return CopyValues(of, copied, iterators, at=level, into=Memory.SHARED, **options)


def _local(of: Any, copied: Any, level: Any, iterators: Any, **options: Any) -> Command:
    return CopyValues(of, copied, iterators, at=level, into=Memory.REGISTER, **options)


#: What makes the command, or the place of a part, of now, by the name that it has in older files.
OLDER: Mapping[str, Callable[..., Command | GpuThreads]] = {
    "gpu": GpuThreads,
    "cache_at": _cache,
    "pack": _pack,
    "cache_shared": _shared,
    "cache_local": _local,
}
