"""Compaction: values that depend on some keys of a position alone, once for each distinct combination of the keys.

::

    msg[r, p] = e(src[p], r)        -->     msg[r, u] = e(pair_src[u], r)       u: the combinations with key r
    .. msg[r, p] ..                         .. msg[run of pairs[p], pairs[p]] ..

``pair_src[pairs[p]] == src[p]``, and the run of combination ``pairs[p]`` is that of p: so each read finds a value of
the same expression of the same operands. Source: Wu, Code generation and runtime techniques for enabling data-efficient
deep learning training on GPUs, 3.4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation, DistinctOf, Input
from tiramisu_py.algorithm.declare.run_numbers import known_numbers
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.runs import runs_of_values
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, mentions, rewrite
from tiramisu_py.errors import CommandError
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of values: an input that is read at the `position`, or the `row` of the run that the position is in.

    `sources` are the inputs, in the order of the keys; that of a row says where runs begin.
    """

    position: str
    row: str
    sources: tuple[str, ...]


def keys_of(algorithm: Algorithm, whole: Computation, given: Sequence[Expr], *, of_terms: bool = False) -> Keys:
    """The keys that are given for the values of a computation, or for its terms; raises `CommandError` for others."""
    if not of_terms and any(
        each.distinct and whole.sources & {*each.distinct.columns} for each in algorithm.inputs.values()
    ):
        raise CommandError(f"{whole.name} is compact already")
    if not given:
        what = "is summed by keys: give those of its terms, dst[p], type[p]"
        if not of_terms:
            what = "is compact by keys: give those that its values depend on, compact(src[p], r)"
        raise CommandError(f"{whole.name} {what}")
    runs = {dim: (position, start) for dim, position, start in _rows(algorithm, whole)}
    sources: list[str] = []
    positions: list[str] = []
    row = ""
    for number, key in enumerate(given):
        index = narrowest(key.indices[0]) if isinstance(key, Access) and len(key.indices) == 1 else None
        if isinstance(key, Access) and key.source in algorithm.inputs and isinstance(index, Iter):
            sources.append(key.source)
            positions.append(index.name)
        elif isinstance(key, Iter) and key.name in runs:
            if number < len(given) - 1:
                raise CommandError(f"{key} is the run of a position: give it as the last key, after {given[-1]}")
            row, (position, start) = key.name, runs[key.name]
            positions.append(position)
            sources.append(start)
        else:
            raise CommandError(
                f"{key} is no key of {whole.name}: a key is an input that is read at a position, src[p], or the run "
                "that the position is in, r of {r: R, p: types[r]}"
            )
    if len(set(positions)) > 1 or positions[0] not in (whole.over if of_terms else whole.iterators):
        what = "terms" if of_terms else "values"
        raise CommandError(
            f"the keys of {whole.name} are of one position, an iterator of its {what}, not of {positions}"
        )
    for dim, (position, _) in runs.items():
        if position == positions[0] and dim != row:
            raise CommandError(
                f"{whole.name} lies in runs of {position}: give their number {dim}, too, as the last key"
            )
    return Keys(positions[0], row, tuple(sources))


def _rows(algorithm: Algorithm, whole: Computation) -> list[tuple[str, str, str]]:
    """The iterators of values that are rows of runs, each with that of the position and where the runs begin."""
    found: list[tuple[str, str, str]] = []
    space = whole.domain.get_space()
    dims = dict(zip(whole.iterators, sets.variables(space), strict=True))
    for run in runs_of_values(algorithm, whole):
        for row, form in dims.items():
            for position, other in dims.items():
                if form.plain_is_equal(run.row) and other.plain_is_equal(run.position):
                    found.append((row, position, run.start))
    return found


def compacted(
    algorithm: Algorithm, whole: Computation, given: Sequence[Expr], of: Input
) -> tuple[Algorithm, Callable[[Expr], Expr | None]]:
    """The algorithm with a value for each distinct combination of keys, and how it is read; raises `CommandError`.

    `of` is the input with the number of each position's combination.
    """
    about, values = of.distinct, of.values
    assert about is not None and values is not None
    _check_plain(algorithm, whole)
    keys = keys_of(algorithm, whole, given)
    if keys.sources != about.keys:
        raise CommandError(f"{about.name} are distinct {', '.join(about.keys)}, not {', '.join(keys.sources)}")
    axis, extents = whole.iterators.index(keys.position), (of.shape[0], values[1])
    changed = replace(
        _by_combination(algorithm, whole, keys, about),
        domain=_positions(whole.domain, whole, axis, extents),
        points=_positions(whole.points, whole, axis, extents),
    )
    read = _Read(algorithm, whole, keys, about, of)
    made = algorithm.with_rewritten(lambda c: changed if c.name == whole.name else read.rewritten_in(c), ())
    return made, read.at_keys


def _check_plain(algorithm: Algorithm, whole: Computation) -> None:
    """Refuse values that cannot be kept by their keys."""
    if whole.name in algorithm.outputs:
        raise CommandError(f"{whole.name} is an output, with a value for each position: let another computation be it")
    if whole.stage is not None or whole.group or whole.shape is not None or whole.run_of:
        what = "a call over whole arrays" if whole.stage is not None else "declared in a group, or with shape="
        raise CommandError(f"{whole.name} is {what}, and is not compact")
    if whole.name in whole.sources:
        raise CommandError(f"{whole.name} reads values of its own, which are those of other positions")


def _by_combination(algorithm: Algorithm, whole: Computation, keys: Keys, about: DistinctOf) -> Computation:
    """The computation with a value for each combination, its domain left as it is."""
    at = Iter(keys.position)
    columns = dict(zip(keys.sources, about.columns, strict=True))

    def column(e: Expr) -> Expr | None:
        if not isinstance(e, Access) or e.source not in columns or algorithm.inputs[e.source].covers is not None:
            return None
        index = narrowest(e.indices[0])
        is_key = isinstance(index, Iter) and index.name == keys.position
        return Access(columns[e.source], (at,), e.dtype, e.owner) if is_key else None

    kept: list[Expr] = []
    for guard in whole.guards:
        for condition in conjuncts(guard):
            if not (keys.row and _bounds_run(condition, keys)):
                _check_reads(whole, condition, keys, column)
                kept.append(rewrite(condition, column))
    _check_reads(whole, whole.expr, keys, column)
    bounds: list[Expr] = []
    if keys.row:
        declared, row = algorithm.inputs[about.columns[-1]], Iter(keys.row)
        first, last = (Access(declared.name, (i,), declared.dtype, algorithm.owner) for i in (row, row + 1))
        bounds = [typed(first <= at), typed(at < last)]
    return replace(whole, expr=rewrite(whole.expr, column), guards=(*bounds, *kept))


def _bounds_run(condition: Expr, keys: Keys) -> bool:
    """Whether a condition bounds the position by where its run begins or ends."""
    read = accesses(condition)
    return len(read) == 1 and read[0].source == keys.sources[-1] and mentions(condition, [keys.position])


def _check_reads(whole: Computation, e: Expr, keys: Keys, column: object) -> None:
    """Refuse what depends on the position, but by the keys."""
    assert callable(column)
    bare = rewrite(e, lambda node: Const(0, node.dtype) if column(node) is not None else None)
    if not mentions(bare, [keys.position]):
        return
    other = next((str(a) for a in accesses(bare) if mentions(a, [keys.position])), keys.position)
    given = ", ".join([*keys.sources[: len(keys.sources) - bool(keys.row)], *([keys.row] if keys.row else [])])
    raise CommandError(
        f"{whole.name} depends on {other}, which is none of the keys {given}: two positions with the same keys have "
        "different values; add it to the keys, or compute what depends on it apart"
    )


def _positions(points: isl.Set, whole: Computation, axis: int, extents: tuple[Expr, Expr]) -> isl.Set:
    """The points with a position below another extent; raises `CommandError` where they are not at all positions."""
    position = Iter(whole.iterators[axis])
    space = points.get_space()
    reader = Affine(space, {position.name: sets.variables(space)[axis]})
    old, new = (reader.condition((position >= 0) & (position < extent)) for extent in extents)
    free = sets.freed(points, axis)
    if not free.intersect(old).is_equal(points):
        raise CommandError(
            f"{whole.name} has values at some of the positions {position} only, and combinations are those of all: "
            "leave others out by a neutral element, tm.select(.., .., 0)"
        )
    return free.gist_params(sets.freed(old, axis).params()).intersect(new)


@dataclass(frozen=True, eq=False)
class _Read:
    """How values are read where they are kept by their keys."""

    algorithm: Algorithm
    whole: Computation
    keys: Keys
    about: DistinctOf
    of: Input

    def rewritten_in(self, c: Computation) -> Computation:
        """A computation that reads the values by their keys; itself, if it reads none."""
        if self.whole.name not in c.sources:
            return c
        guards = tuple(rewrite(guard, self.at_keys) for guard in c.guards)
        return replace(c, expr=rewrite(c.expr, self.at_keys), guards=guards)

    def at_keys(self, e: Expr) -> Expr | None:
        """A read at the number of its position's combination; None for anything else."""
        if not isinstance(e, Access) or e.source != self.whole.name:
            return None
        indices = [rewrite(index, self.at_keys) for index in e.indices]
        dims, owner = self.whole.iterators, self.algorithm.owner
        axis = dims.index(self.keys.position)
        number = Access(self.of.name, (indices[axis],), self.of.dtype, owner)
        indices[axis] = number
        if self.keys.row:
            start = self.about.columns[-1]
            run_of = known_numbers(self.algorithm, start)
            assert run_of is not None
            indices[dims.index(self.keys.row)] = Access(run_of.name, (number,), run_of.dtype, owner)
        return replace(e, indices=tuple(indices))
