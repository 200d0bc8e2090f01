"""Fronts of rooms that load a module when one of its names is first asked for.

A front imports its names for type checkers alone, and says where they are for the others::

    if TYPE_CHECKING:
        from tiramisu_py.lower.lowering import lower

    front(__name__, {"tiramisu_py.lower.lowering": "lower"})

    __all__ = ["lower"]

Who imports the front, ``from tiramisu_py import lower``, loads nothing else; ``lower.lower(program)`` loads the module.
This is PEP 562 by its other way, a class for the module: a type checker that saw a function `__getattr__` would accept
any name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any


class _Front(ModuleType):
    """A module whose names are loaded from other modules when they are first asked for."""

    #: The module of each name, and what it is called there.
    _places: dict[str, tuple[str, str]]
    #: The name of now, by that of older versions.
    _former: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        places = vars(self).get("_places", {})
        if (now := vars(self).get("_former", {}).get(name)) is not None:
            say = import_module("tiramisu_py.former_words").warn_of_old_word
            say(f"{self.__name__}.{name} is an old word: write {self.__name__}.{now}")
            return getattr(self, now)
        if name not in places:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        module, path = places[name]
        loaded = import_module(module)
        value = attrgetter(path)(loaded) if path else loaded
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, but let no module of the room, when it is loaded, hide the name of what it defines."""
        if not (isinstance(value, ModuleType) and vars(self)["_places"].get(name, ("", ""))[1]):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        own = {name for name in vars(self) if name.startswith("__")}
        return sorted(own | set(vars(self)["_places"]))


def front(room: str, names: Mapping[str, str], modules: str = "", former: Mapping[str, str] | None = None) -> None:
    """Make a room's package a front: `names` are those of each module, as an import of them would list them.

    ``{"tiramisu_py.algorithm.types": "DType, bool_ as bool"}``; a name may have dots, as in ``"Goal, Goal.PARALLEL as
    PARALLEL"``. `modules` are rooms or modules of the room which are themselves names of the front. `former` has
    names of older versions, which warn, and the name of now for each.
    """
    places = {name: (f"{room}.{name}", "") for name in modules.split()}
    for module, listed in names.items():
        for each in listed.split(", "):
            called, _, shown = each.partition(" as ")
            places[shown or called] = (module, called)
    package = sys.modules[room]
    vars(package)["_places"] = places
    vars(package)["_former"] = dict(former or {})
    package.__class__ = _Front


def names_of(package: ModuleType) -> list[str]:
    """The names of a front, without modules, in the order in which it lists them."""
    return [name for name, (_, path) in vars(package)["_places"].items() if path]
