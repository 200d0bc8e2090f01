"""Vector loops inside loops to be unrolled: vectorised once, before unrolling copies them.

Before: ``for r in 0 .. 6: for c in 0 .. 32: y[r, c] = x[c] + z[r]``, r unrolled and c a vector. After: ``for r in 0 ..
6: y[r, 0 : 16] = x[0 : 16] + z[r]; y[r, 16 : 32] = x[16 : 32] + z[r]``. So the work depends on the number of loops in
the schedule, not on the number of their copies, and the copies share the expressions in which r does not occur.

The result is that of vectorising each copy: r only displaces elements, ``a*r + b`` in an index, so that all copies
have the same lanes, bounds and conditions, and the value of r may as well be put in afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.stacks import deep, deep_nest
from tiramisu_py.algorithm.traversal import mentions
from tiramisu_py.ir import Block, Comment, For, If, Let, Load, Mask, Node, Prefetch, Store
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.arithmetic.linear import difference, linear
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.rewriting import Names, children, contents, expressions, walk, with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.unroll import stays_a_loop, unroll
from tiramisu_py.passes.vectors.align import may_be_cut
from tiramisu_py.passes.vectors.narrow import NARROWED, narrowed
from tiramisu_py.passes.vectors.vectorize import vectorize
from tiramisu_py.program.loops import Combine, Unroll, Vector
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class VectorizeRows(NestPass):
    """Turn vector loops inside loops to be unrolled into vectors, where the unrolled variable only displaces elements.

    ::

        for r in 0 .. 6:  unroll         -->   for r in 0 .. 6:  unroll
            for c in 0 .. 16:  vector(16)          y[r, 0 : 16] = x[0 : 16]
                y[r, c] = x[c]

    `Vectorize` turns the others into vectors, after unrolling.
    """

    def apply(self, what: Node, about: About) -> Node:
        return _Around(about.taken, about.facts, about.register, {}).vectorized(what)


@dataclass(frozen=True, eq=False)
class Known:
    """The vectors of a loop, and the names that they define."""

    body: Node
    vectors: Node
    names: frozenset[str]


@dataclass(frozen=True, eq=False)
class _Around:
    """Surroundings of a statement: names, loops and guards, the variables to be unrolled, and the buffers with atomic
    updates.
    """

    taken: Names
    outermost: Facts
    register: int
    known: dict[Hashable, Known]
    enclosing: tuple[_Around, Node] | None = None
    unrolled: frozenset[str] = frozenset()
    atomic: frozenset[str] = frozenset()

    @cached_property
    def facts(self) -> Facts:
        """The facts that hold inside the loops, definitions and guards (not: their alternatives)."""
        if self.enclosing is None:
            return self.outermost
        around, node = self.enclosing
        return around.facts.behind(node) if isinstance(node, If) else around.facts.inside(node)

    @deep_nest
    def vectorized(self, node: Node) -> Node:
        """The statement with such vector loops turned into vectors."""
        if Vector not in contents(node):
            return node
        match node:
            case For() if isinstance(node.tag, Vector):
                return self._vectors(node) if self.unrolled else node
            case For():
                changed = with_children(node, self._inside(node).vectorized)
                return node if isinstance(changed, For) and _is_longer(changed) else changed
            case If():
                inside = replace(self, taken=self.taken.inside(node), enclosing=(self, node))
                changed = replace(node, then=inside.vectorized(node.then))
                if node.otherwise is None:
                    return changed
                inside = replace(self, taken=self.taken.inside(node))
                return replace(changed, otherwise=inside.vectorized(node.otherwise))
            case Let():
                return with_children(node, replace(self, enclosing=(self, node)).vectorized)
        return with_children(node, self.vectorized)

    def _inside(self, loop: For) -> _Around:
        atomic = {private.buffer for private in loop.reductions if private.combine is Combine.ATOMIC}
        inside = replace(self, enclosing=(self, loop), atomic=self.atomic | atomic)
        if isinstance(loop.tag, Unroll) and _copies(loop) is not None:
            return replace(inside, unrolled=self.unrolled | {loop.variable})
        return replace(inside, taken=self.taken.inside(loop), unrolled=self.unrolled - {loop.variable})

    def _vectors(self, loop: For) -> Node:
        """A vector loop as vectors; itself if that has to wait until its copies differ only by constants."""
        assert isinstance(loop.tag, Vector)
        if loop.reductions or loop.tag.combine is not None or may_be_cut(loop):
            return loop
        narrow = loop if contents(loop.body).isdisjoint(NARROWED) else narrowed(loop, self.facts)
        if isinstance(narrow, For) and narrow is not loop:  # by the facts that hold here
            own = self._own_vectors(narrow)
            return loop if own is narrow else own
        bounds = loop.lower.key(), loop.upper.key()
        key = (id(loop.body), loop.variable, *bounds, loop.tag, self.unrolled, self.atomic)
        same = self.known.get(key)
        if same is not None and same.names.isdisjoint(self.taken.taken):
            self.taken.taken |= same.names
            return same.vectors
        before = frozenset(self.taken.taken)
        vectors = self._own_vectors(loop)
        made = self.taken.taken - before
        if made <= {f"{loop.variable}_left"}:
            self.known[key] = Known(loop.body, vectors, frozenset(made))
        return vectors

    def _own_vectors(self, loop: For) -> Node:
        whole = simplify(unroll(loop, self.taken))
        if not isinstance(whole, For) or not _is_plain(whole.body) or not self._displaces(whole):
            return loop
        vectors = vectorize(whole, self.taken, self.register, self.atomic, facts=self.outermost)
        return vectors if _defines_nothing(vectors) else loop

    def _displaces(self, node: Node) -> bool:
        """Whether the variables to be unrolled only displace the elements that a statement loads and stores."""
        places = node.indices if isinstance(node, Store | Prefetch) else ()
        values = expressions(node)[len(places) :]
        return (
            all(map(self._is_displaced, places))
            and all(map(self._has_displaced_loads, values))
            and all(map(self._displaces, children(node)))
        )

    def _is_displaced(self, index: Expr) -> bool:
        """Whether an index is a sum of multiples of the variables, and of what does not depend on them."""
        if not mentions(index, self.unrolled):
            return True
        atoms = (atom for atom, _ in linear(index).terms.values())
        return all(isinstance(atom, Iter) or not mentions(atom, self.unrolled) for atom in atoms)

    @deep
    def _has_displaced_loads(self, e: Expr) -> bool:
        if not mentions(e, self.unrolled):
            return True
        if isinstance(e, Load):
            return all(map(self._is_displaced, e.indices))
        return bool(e.children()) and all(map(self._has_displaced_loads, e.children()))


def _copies(loop: For) -> int | None:
    """The number of copies of a loop's body that unrolling makes; None if there is no such number."""
    assert isinstance(loop.tag, Unroll)
    return difference(loop.upper, loop.lower) if loop.tag.factor is None else loop.tag.factor


def _is_longer(loop: For) -> bool:
    """Whether a loop to be unrolled is too long once all inside is unrolled."""
    return isinstance(loop.tag, Unroll) and stays_a_loop(loop, _copies(loop))


def _is_plain(node: Node) -> bool:
    """Whether a loop's body is a sequence of stores, which needs no names of its own."""
    return all(isinstance(inner, Block | Comment | Prefetch | Store) for inner in walk(node))


def _defines_nothing(node: Node) -> bool:
    """Whether a statement defines names only in blocks of their own, so that it can be copied as it is."""
    if isinstance(node, Block | Mask):
        return all(map(_defines_nothing, children(node)))
    return isinstance(node, Comment | Prefetch | Store | If | For) and not isinstance(node, Let)
