"""Several computations scheduled by one call: ``f.schedule(p, q, r).tile(i, j, 32, 32, i0, j0, i1, j1)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.handles.bands import apply_skew_for
from tiramisu_py.function.handles.computations import Selection
from tiramisu_py.program.loops import Loop
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_arguments import loop_name
from tiramisu_py.schedule.loops.bands import Band, permutable_band
from tiramisu_py.schedule.loops.wavefronts import Goal

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled

    _Commands = Selection  # so that editors complete them
else:
    _Commands = object

#: What is not a command: it belongs to one computation.
_OF_ONE = ("name", "init", "update", "get_update", "statement_names", "then", "dtype")


class Several(_Commands):
    """Computations, or parts of them, that take every command together: all do, or none does.

    ::

        f.schedule(p, q).tile(i, j, 32, 32, i0, j0, i1, j1)    -->    p.tile(i, j, 32, 32, i0, j0, i1, j1)
                                                                      q.tile(i, j, 32, 32, i0, j0, i1, j1)

    Each command is applied to each computation, in this order, and the log has one entry for each. A computation whose
    loops a command for an earlier one has changed, since they are shared, is left out. If one of them refuses the
    command, the program stays as it was. Commands that return handles, such as `separate_at`, return a tuple of them.
    """

    def __init__(self, function: Scheduled, handles: Sequence[Selection]) -> None:
        self._function = function
        self._handles = tuple(handles)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            command = None if name.startswith("_") else getattr(Selection, name, None)
            if not callable(command) or name in _OF_ONE:
                raise AttributeError(f"{self!r} has no command {name!r}: commands are those of a computation")

            def applied(*arguments: Any, **named: Any) -> Any:
                return self._each(name, arguments, named)

            applied.__name__, applied.__doc__ = name, command.__doc__
            return applied

    def skew_for(self, goal: Goal, *loops: Iter, tiles: Mapping[Iter, int] | None = None) -> Band:
        """`skew_for` of one nest of all: they are fused and shifted as far as needed."""
        names = [name for handle in self._handles for name in handle.statement_names()]
        return apply_skew_for(self._function, names, goal, loops, tiles)

    def band(self, *loops: Iter) -> Band:
        """The band that `skew_for(tm.LOCALITY, ...)` would make, without a change of the program."""
        names = [name for handle in self._handles for name in handle.statement_names()]
        return permutable_band(self._function.program, names, [loop_name(loop) for loop in loops] or None)

    def __dir__(self) -> list[str]:
        return [name for name in dir(Selection) if not name.startswith("_") and name not in _OF_ONE]

    def _each(self, name: str, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """Apply a command to each handle whose loops it has not changed yet; if one refuses, nothing is changed."""
        before = self._function.program
        found: list[Any] = []
        with self._function.all_or_nothing():
            for handle in self._handles:
                if not self._is_changed(before, handle):
                    found.append(getattr(handle, name)(*arguments, **named))
        results = [one for one in found if one not in self._handles]
        return tuple(results) if results else self

    def _is_changed(self, before: Program, handle: Selection) -> bool:
        """Whether every statement of a handle is in other loops than before."""
        now = self._function.program
        if now is before:
            return False
        names = [name for name in handle.statement_names() if name in before.statements]
        return all(_loops(before, name) != _loops(now, name) for name in names)

    def __repr__(self) -> str:
        return f"{self._function.name}.schedule({', '.join(map(repr, self._handles))})"


def _loops(program: Program, name: str) -> tuple[list[Loop], str]:
    """A statement's loops, with their tags, and when it runs in them."""
    statement = program.statements[name]
    return [program.loops[loop] for loop in statement.loops], str(statement.coords)


def chosen(function: Scheduled, handles: Sequence[object]) -> Several:
    """The handles, each once and of this function; raises `CommandError`."""
    if not handles:
        raise CommandError(f"{function.name}.schedule needs computations: {function.name}.schedule(p, q).tile(...)")
    for handle in handles:
        function._check_own(handle, Selection)
    own = [handle for handle in handles if isinstance(handle, Selection)]
    names = [name for handle in own for name in handle.statement_names()]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CommandError(f"{function.name}.schedule names {twice} twice")
    return Several(function, own)
