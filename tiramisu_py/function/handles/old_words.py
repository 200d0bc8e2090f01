"""Methods of older versions, which say what to write now, and are left out in the next version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.former_words import warn_of_old_word
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.function.applying.own_calls import formerly
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.command_fields import Handle, StatementsHandle
from tiramisu_py.schedule.loops.order import Root, root

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Selection
    from tiramisu_py.function.handles.operations import Loops

#: The words of older versions, and what to write.
OLD_WORDS = {
    "cache": "copy(source, [y, x], at=r0)",
    "pack": "copy(source, [k, x], layout=[x, k])",
    "cache_shared": "copy(source, [y, x], at=c0, into=tm.SHARED)",
    "cache_local": "copy(source, [x], at=k, into=tm.REGISTER)",
    "distribute": "distribute_array([r, c], rank=r // B)",
    "then": "b.after(a, i) for a.then(b, i), or f.order(a, b, c, at=i) for a chain of them",
    "between": "s.after(p, i).before(q, j) for s.between(p, i, q, j)",
}


#: Calls of older versions, and what to write.
FORMER_CALLS = {"create_xfer with send=": "create_exchange(bx[r, c], send=..., to=..., recv=..., source=...)"}

#: Views of functions by the words of older versions, and what to write.
FORMER_LOOKS = {
    "loop_nests": 'show("loops")',
    "pseudocode": 'show("pseudocode")',
    "lowered": 'show("lowered")',
    "picture": 'show("picture", "blur.html"), or show("messages", C=201) for those of ranks',
    "explain": 'show("history", "down")',
    "remarks": 'show("remarks")',
    "symbolic_cost": 'cost("symbolic")',
    "communication": 'cost("communication", C=201)',
    "memory": 'cost("memory", N=4096)',
    "facts": 'cost("kernels")',
}


class OldLooks:
    """Views of a function by the words that they had in older versions."""

    def loop_nests(self) -> Any:
        """An old word for ``show("loops")``."""
        return self._looked("loop_nests", "show", "loops")

    def pseudocode(self) -> Any:
        """An old word for ``show("pseudocode")``."""
        return self._looked("pseudocode", "show", "pseudocode")

    def lowered(self, vector_bytes: int = 64, *, until: str | None = None) -> Any:
        """An old word for ``show("lowered")``."""
        return self._looked("lowered", "show", "lowered", vector_bytes, until=until)

    def picture(self, path: Any = None, /, **named: Any) -> Any:
        """An old word for ``show("picture", path)``, and, without a path, for ``show("messages")``."""
        if path is None and named.keys().isdisjoint(("beside", "inputs")):
            return self._looked("picture", "show", "messages", **named)
        return self._looked("picture", "show", "picture", path, **named)

    def explain(self, computation: Any) -> Any:
        """An old word for ``show("history", computation)``."""
        return self._looked("explain", "show", "history", computation)

    @property
    def remarks(self) -> Any:
        """An old word for ``show("remarks")``."""
        return self._looked("remarks", "show", "remarks")

    def symbolic_cost(self, **named: Any) -> Any:
        """An old word for ``cost("symbolic")``."""
        return self._looked("symbolic_cost", "cost", "symbolic", **named)

    def communication(self, **params: int) -> Any:
        """An old word for ``cost("communication")``."""
        return self._looked("communication", "cost", "communication", **params)

    def memory(self, **named: Any) -> Any:
        """An old word for ``cost("memory")``."""
        return self._looked("memory", "cost", "memory", **named)

    def facts(self, kernel: Any = None) -> Any:
        """An old word for ``cost("kernels")``."""
        return self._looked("facts", "cost", "kernels", kernel)

    def _looked(self, old: str, method: str, what: str, *arguments: Any, **named: Any) -> Any:
        warn_of_old_word(f"{old} of a function is an old word: write {FORMER_LOOKS[old]}")
        return getattr(self, method)(what, *arguments, **named)


class OldArrays(Handle):
    """Commands on arrays by the names that they had in older versions."""

    def distribute(self, *arguments: Any, **named: Any) -> Any:
        """An old word for `distribute_array`."""
        _warn("distribute")
        handle: Any = self
        return handle.distribute_array(*arguments, **named)


class OldOrders(AppliedStatements):
    """Orders of statements by the words that they had in older versions."""

    @formerly(level="at")
    def then(self, other: Loops, at: Iter | Root = root) -> Loops:
        """An old word for `after`, the other way round: `other` follows, and is returned."""
        _warn("then")
        other.after(self, at)
        return other

    def between(
        self, first: StatementsHandle, first_level: Iter | Root, second: StatementsHandle, second_level: Iter | Root
    ) -> Self:
        """An old word for `after` at one level and `before` at another."""
        _warn("between")
        handle: Any = self
        with self._function.all_or_nothing():
            handle.after(first, first_level).before(second, second_level)
        return self


class OldWords(AppliedStatements):
    """Commands by the names that they had in older versions."""

    def cache(
        self,
        source: Handle,
        level: Iter | Root,
        iterators: Sequence[Iter],
        *,
        name: str | None = None,
        memory: Memory | str = Memory.HOST,
        layout: Sequence[Expr | int] | None = None,
    ) -> Selection:
        """An old word for `copy`, with `at` for the level and `into` for the memory."""
        _warn("cache")
        called = name if layout is None else name or f"{source._named.source}_cache"
        return self._copied(source, iterators, at=level, into=memory, layout=layout, name=called)

    def pack(
        self,
        source: Handle,
        iterators: Sequence[Iter],
        layout: Sequence[Expr | int],
        *,
        level: Iter | Root = root,
        name: str | None = None,
    ) -> Selection:
        """An old word for `copy` with a layout, at a level or once for the whole call."""
        _warn("pack")
        return self._copied(source, iterators, at=level, layout=layout, name=name)

    def cache_shared(
        self,
        source: Handle,
        level: Iter,
        iterators: Sequence[Iter],
        *,
        threads: Sequence[Iter] | None = None,
        pad: int = 0,
        deferred: bool = False,
        buffers: int = 1,
        vector: int = 1,
        layout: Sequence[Expr] | None = None,
        name: str | None = None,
    ) -> Selection:
        """An old word for `copy` into shared memory."""
        _warn("cache_shared")
        return self._copied(
            source, iterators, at=level, into=Memory.SHARED, layout=layout, threads=threads, pad=pad, deferred=deferred,
            buffers=buffers, vector=vector, name=name,
        )  # fmt: skip

    def cache_local(
        self, source: Handle, level: Iter, iterators: Sequence[Iter], *, name: str | None = None
    ) -> Selection:
        """An old word for `copy` into the registers of a thread."""
        _warn("cache_local")
        return self._copied(source, iterators, at=level, into=Memory.REGISTER, name=name)

    def _copied(self, source: Handle, iterators: Sequence[Iter], **options: object) -> Selection:
        made: Selection = self.copy(source, iterators, **options)  # type: ignore[attr-defined]
        return made


def _warn(old: str) -> None:
    warn_of_old_word(f"{old} is an old word: write {OLD_WORDS[old]}")
