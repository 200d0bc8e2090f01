"""Dataclasses whose methods are made when they are first used.

`dataclasses.dataclass` writes the text of each method and compiles it: six for a frozen class, which would be half of
what an import of this package takes, and few of its classes are used in a process. Here a class has a placeholder for
each of its methods. The first call, or whoever looks at the method, makes it from a text like the standard library's,
and puts it in its place: it is as fast from then on. A class with these methods is a dataclass in all other respects;
its fields are collected by the standard library.
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_FIELDS, _PARAMS, _POST_INIT = "__dataclass_fields__", "__dataclass_params__", "__post_init__"
_Fields = dict[str, Field[Any]]
_Make = Callable[[type], Callable[..., Any]]


class _Placeholder:
    """A method of a class that is made when it is first looked at."""

    def __init__(self, cls: type, name: str, make: _Make) -> None:
        self.cls, self.name, self.make = cls, name, make

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method = self.make(self.cls)
        method.__name__, method.__qualname__ = self.name, f"{self.cls.__qualname__}.{self.name}"
        method.__module__ = self.cls.__module__
        if vars(self.cls).get(self.name) is self:
            setattr(self.cls, self.name, method)
        return method if instance is None else method.__get__(instance, owner)


class _Signature:
    """The docstring of a class without one, as `dataclasses` gives it."""

    def __get__(self, instance: object, owner: type) -> str:
        return f"{owner.__name__}{inspect.signature(owner)}".replace(" -> None", "")


class _Factory:
    """The default of an argument for a field with a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, frozen=False, kw_only=False):
        """The decorator `dataclasses.dataclass`, with these of its options."""

        def made(cls: type) -> type:
            methods = {"__init__": _init if init else None, "__repr__": _repr if repr else None}
            _add_fields(cls, init=init, repr=repr, eq=eq, frozen=frozen, kw_only=kw_only)
            _add_methods(cls, {**methods, "__eq__": _eq if eq else None}, eq and frozen)
            if frozen:
                _freeze(cls)
            if not cls.__doc__:
                cls.__doc__ = _Signature()
            abc.update_abstractmethods(cls)
            return cls

        return made if cls is None else made(cls)


def _add_fields(cls: Any, *, kw_only: bool, **options: bool) -> None:
    """The fields of a class: those of its bases, and its own as the standard library collects them.

    It does so in a class without the bases and the methods, for which it makes no methods.
    """
    own, inherited = vars(cls), dict[str, Field[Any]]()
    frozen = {getattr(base, _PARAMS).frozen for base in cls.__mro__[1:] if _FIELDS in vars(base)}
    if frozen and options["frozen"] not in frozen:
        of, by = ("non-frozen", "frozen") if options["frozen"] else ("frozen", "non-frozen")
        raise TypeError(f"cannot inherit {by} dataclass from a {of} one")
    for base in cls.__mro__[:0:-1]:
        inherited |= vars(base).get(_FIELDS, {})
    annotations = inspect.get_annotations(cls)
    defaults = {name: getattr(cls, name) for name in annotations if hasattr(cls, name)}
    strays = {name: value for name, value in own.items() if isinstance(value, Field)}
    bare = type(cls.__name__, (), {"__doc__": ".", "__module__": cls.__module__, **strays, **defaults})
    bare.__annotations__ = annotations
    bare = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(bare)
    fields: _Fields = getattr(bare, _FIELDS)
    for name in strays:
        if fields[name].default is MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, fields[name].default)
    params = getattr(bare, _PARAMS)
    for name, value in options.items():
        setattr(params, name, value)
    setattr(cls, _PARAMS, params)
    setattr(cls, _FIELDS, inherited | fields)
    if "__match_args__" not in own:
        cls.__match_args__ = tuple(one.name for one in _arguments(cls) if not one.kw_only)  # type: ignore[misc]
    if "__replace__" in vars(bare):  # since Python 3.13
        cls.__replace__ = vars(bare)["__replace__"]
    if options["init"]:
        _check_order(cls)


def _check_order(cls: Any) -> None:
    seen = ""
    for one in _arguments(cls):
        if one.kw_only:
            continue
        if not _is_required(one):
            seen = one.name
        elif seen:
            raise TypeError(f"non-default argument {one.name!r} follows default argument {seen!r}")


def _add_methods(cls: Any, methods: dict[str, _Make | None], hashed: bool) -> None:
    """Placeholders for the methods that the class does not define; `hashed` says whether equal values hash alike."""
    own = dict(vars(cls))
    for name, make in methods.items():
        if make is not None and name not in own:
            setattr(cls, name, _Placeholder(cls, name, make))
    if methods["__eq__"] is not None and own.get("__hash__") is None and ("__hash__" not in own or "__eq__" in own):
        cls.__hash__ = _Placeholder(cls, "__hash__", _hash) if hashed else None


def _freeze(cls: Any) -> None:
    names = frozenset(one.name for one in _real(cls))

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    for method in (__setattr__, __delattr__):
        if method.__name__ in vars(cls):
            raise TypeError(f"Cannot overwrite attribute {method.__name__} in class {cls.__name__}")
        method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
        setattr(cls, method.__name__, method)


# -- the texts of methods


def _real(cls: Any) -> tuple[Field[Any], ...]:
    """The fields of which values are kept."""
    return dataclasses.fields(cls)


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _is_passed_on(one: Field[Any]) -> bool:
    """Whether a field is an argument for `__post_init__` alone."""
    return one._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]


def _arguments(cls: type) -> list[Field[Any]]:
    """The fields that are arguments."""
    real = {one.name for one in _real(cls)}
    fields: _Fields = getattr(cls, _FIELDS)
    return [one for one in fields.values() if one.init and (one.name in real or _is_passed_on(one))]


def _init(cls: type) -> Callable[..., Any]:
    arguments = _arguments(cls)
    fields = [one for one in _real(cls) if one.init or one.default_factory is not MISSING]
    known = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    known |= {f"_type_{one.name}": one.type for one in arguments}
    known |= {f"_default_{one.name}": one.default for one in arguments if one.default is not MISSING}
    known |= {f"_make_{one.name}": one.default_factory for one in fields if one.default_factory is not MISSING}
    this = "_self" if any(one.name == "self" for one in arguments) else "self"
    put = f"_set({this}, {{0!r}}, {{1}})" if getattr(cls, _PARAMS).frozen else f"{this}.{{0}} = {{1}}"
    body = [put.format(one.name, _value(one)) for one in fields]
    if hasattr(cls, _POST_INIT):
        body.append(f"{this}.{_POST_INIT}({', '.join(one.name for one in arguments if _is_passed_on(one))})")
    by_name = [_argument(one) for one in arguments if one.kw_only]
    listed = [this, *(_argument(one) for one in arguments if not one.kw_only), *(["*", *by_name] if by_name else [])]
    return _function("__init__", listed, body or ["pass"], known, " -> None")


def _argument(one: Field[Any]) -> str:
    default = "" if _is_required(one) else " = _FACTORY" if one.default is MISSING else f" = _default_{one.name}"
    return f"{one.name}: _type_{one.name}{default}"


def _value(one: Field[Any]) -> str:
    if one.default_factory is MISSING:
        return one.name
    return f"_make_{one.name}() if {one.name} is _FACTORY else {one.name}" if one.init else f"_make_{one.name}()"


def _repr(cls: type) -> Callable[..., Any]:
    shown = ", ".join(f"{one.name}={{self.{one.name}!r}}" for one in _real(cls) if one.repr)
    return recursive_repr()(_function("__repr__", ["self"], [f'return f"{{self.__class__.__qualname__}}({shown})"']))


def _eq(cls: type) -> Callable[..., Any]:
    names = [one.name for one in _real(cls) if one.compare]
    same = f"return {_tuple('self', names)} == {_tuple('other', names)}"
    body = ["if other.__class__ is self.__class__:", f" {same}", "return NotImplemented"]
    return _function("__eq__", ["self", "other"], body)


def _hash(cls: type) -> Callable[..., Any]:
    fields = _real(cls)
    names = [one.name for one in fields if (one.compare if one.hash is None else one.hash)]
    return _function("__hash__", ["self"], [f"return hash({_tuple('self', names)})"])


def _tuple(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{name},' for name in names)})"


def _function(
    name: str, arguments: Iterable[str], body: Iterable[str], known: dict[str, Any] | None = None, result: str = ""
) -> Callable[..., Any]:
    """A function from its text, with the names that it knows."""
    lines = [f"def make({', '.join(known or ())}):", f" def {name}({', '.join(arguments)}){result}:"]
    text = "\n".join([*lines, *(f"  {line}" for line in body), f" return {name}"])
    made = dict[str, Any]()
    exec(compile(text, "<record>", "exec", dont_inherit=True), made)
    function: Callable[..., Any] = made["make"](**(known or {}))
    return function
