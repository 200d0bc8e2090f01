"""Stores turned around: for each element of an array, the program that stores it, and what it stores there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.declarations import Algorithm, Stored, StoreSite
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter, as_typed, select
from tiramisu_py.algorithm.traversal import accesses, substitute
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.ir.nodes import BlockValue
from tiramisu_py.language.ir.scalars import shape_of
from tiramisu_py.language.values.forms import ZERO
from tiramisu_py.language.values.programs import Programs, Site
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.isl_expressions import condition_of, indices_of
from tiramisu_py.rewriting.read_inverses import Preimage, preimages


@dataclass(frozen=True, eq=False)
class Filled:
    """An array as programs fill it: its name, its type, its extents, and whether some elements may be left out."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    partial: bool


@dataclass(frozen=True, eq=False)
class StoreInstances:
    """The executions of a store: dimensions with their bounds, the place of each, and what is stored.

    The first `programs` dimensions are axes of the grid. The index of an element that `by_value` names is a value.
    """

    site: Site
    bounds: Mapping[Iter, Any]
    programs: int
    elements: isl.Map
    places: tuple[Expr, ...]
    value: Expr
    by_value: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.bounds)


def filled(algorithm: Algorithm, array: Filled, instances: Sequence[StoreInstances]) -> ProgramValue:
    """The values of an array that these sites store to.

    Where several programs store to one element, it has the value of the first, and `check` refuses it. Raises
    `DeclarationError` for places that are no forms of the numbers of programs.
    """
    names = [unused(f"i{axis}", algorithm.params) for axis in range(len(array.extents))]
    space = algorithm.frame(array.name, names)
    whole = box(space, array.extents).intersect_params(algorithm.context.params())
    sites = [each.site for each in instances]
    kinds = {each.op for each in sites}
    if len(kinds) > 1 or (kinds == {"accumulate"} and len(sites) > 1):
        raise DeclarationError(f"{array.name} is accumulated to, and stored to elsewhere: {sites[1].origin}")
    stored = Stored(
        tuple(StoreSite(each.elements, each.programs, each.site.origin) for each in instances),
        array.partial, kinds == {"accumulate"},
    )  # fmt: skip
    domain = {Iter(name): extent for name, extent in zip(names, array.extents, strict=True)}
    if stored.accumulate:
        return _accumulated(array, instances[0], whole, names, domain, stored)
    value, covered = chosen(array, instances, whole, names)
    where = condition_of(covered, whole, names) if array.partial else None
    return ProgramValue(
        array.name, domain, value, array.dtype, sites[0].origin, where=where, stored=stored, shape=array.extents
    )


def unused(wanted: str, params: Sequence[str]) -> str:
    """A name for an iterator that is no parameter."""
    return f"{wanted}_" if wanted in params else wanted


@dataclass(frozen=True, eq=False)
class Executions:
    """The executions of a store: dimensions with their bounds, the place of each, the mask and the value as written.

    The first `programs` dimensions are axes of the grid.
    """

    bounds: Mapping[Iter, Any]
    programs: int
    space: isl.Space
    places: tuple[Expr, ...]
    mask: Expr | bool
    value: Expr
    owner: object

    def points(self, algorithm: Algorithm, reader: Affine) -> isl.Set:
        """The executions whatever the mask is; raises `NotAffine`."""
        return points_within(algorithm, self.space, self.bounds, reader)


def executed_at(programs: Programs, site: Site) -> tuple[dict[Iter, Any], int, Sequence[Iter]]:
    """The dimensions of the executions of a store or a load with their bounds; how many are axes of the grid; and those
    of the block.
    """
    axes_names = programs.axes
    bounds: dict[Iter, Any] = {
        Iter(axes_names.program(axis)): programs.grid[axis] for axis in range(3) if not programs.is_one(axis)
    }
    count = len(bounds)
    bounds |= {Iter(axes_names.loop(each)): programs.count(each) for each in site.loops}
    axes = axes_names.of(site.pointers, [each.name for each in bounds])
    bounds |= dict(zip(axes, site.pointers.type.shape, strict=True))
    return bounds, count, axes


def points_within(algorithm: Algorithm, space: isl.Space, bounds: Mapping[Iter, Any], reader: Affine) -> isl.Set:
    """The points whose iterators are between 0 and their bounds; raises `NotAffine`."""
    points = sets.universe(space).intersect_params(algorithm.context.params())
    for iterator, extent in bounds.items():
        given = Const(extent, ZERO.dtype) if isinstance(extent, int) else extent
        points = points.intersect(reader.condition((iterator >= 0) & (iterator < given)))
    return points


def executions(algorithm: Algorithm, programs: Programs, array: Filled, site: Site) -> Executions:
    """The executions of a store over programs, loops and axes."""
    bounds, count, axes = executed_at(programs, site)
    space = algorithm.frame(f"{array.name}_store", [each.name for each in bounds])
    places = [programs.meaning(each)(axes if shape_of(each) else ()) for each in site.indices]
    mask = True if site.mask is True else programs.meaning(site.mask)(axes)
    value = as_typed(programs.meaning(site.value)(axes), array.dtype)
    return Executions(bounds, count, space, tuple(places), mask, value, programs.owner)


def instances_of(array: Filled, site: Site, whole: Executions, algorithm: Algorithm) -> StoreInstances:
    """The executions of a store where its mask holds, at places that are forms of the numbers of programs."""
    reader = Affine(whole.space)
    try:
        points = whole.points(algorithm, reader)
        if isinstance(whole.mask, Expr):
            points = points.intersect(reader.condition(whole.mask))
        forms = [reader.single(place) for place in whole.places]
    except NotAffine as error:
        for loop in site.loops:
            if isinstance(loop.step, BlockValue):
                raise DeclarationError(
                    f"{site.origin}: a store to {array.name} in the loop of line {loop.line}, whose step is no "
                    "constant: give it one, as in tl.range(tl.program_id(0), blocks, PROGRAMS) with PROGRAMS: "
                    "tl.constexpr, and launch so many programs"
                ) from None
        if not isinstance(error.part, Expr) or not accesses(error.part):
            raise DeclarationError(
                f"{site.origin}: a store to {array.name} at a place, or under a mask, that is no form of the numbers "
                f"of programs, because of {error.part}: launch a grid of an axis for each index, as "
                "kernel[tl.cdiv(M, TM), tl.cdiv(N, TN)], whose programs tl.swizzle2d(...) numbers in groups of rows"
            ) from None
        named = error.part.source if isinstance(error.part, Access) else ""
        if named in algorithm.inputs and algorithm.inputs[named].scalar:
            raise DeclarationError(
                f"{site.origin}: a store to {array.name} at a place, or under a mask, that follows from {named}, a "
                "number that the proof does not compare with sizes: make it one, a parameter of the function "
                f"(tm.params({named!r})), or compare with a size, as {array.name}.shape"
            ) from None
        if named in algorithm.inputs and any(
            each.source == named for place in whole.places for each in accesses(place)
        ):
            table = named
            raise DeclarationError(
                f"{site.origin}: programs store to {array.name} through {table}, at {error.part}, and two programs may "
                f"store one element: if no two elements of {table} are equal, declare it so, distinct=True, and store "
                f"at its elements, or a constant from each; runs of a monotone table are stored to at {table}[r] + "
                f"offset where that is below {table}[r + 1]"
            ) from None
        raise DeclarationError(
            f"{site.origin}: a store to {array.name} at a place, or under a mask, that is no form of the numbers of "
            f"programs, because of {error.part}: let the programs that fill an element follow from its index, or store "
            "to runs of a monotone table, at start[r] + offset where that is below start[r + 1]"
        ) from None
    elements = sets.graph(sets.function(whole.space, array.name, forms)).intersect_domain(points)
    return StoreInstances(site, whole.bounds, whole.programs, elements, whole.places, whole.value)


def chosen(
    array: Filled, instances: Sequence[StoreInstances], whole: isl.Set, names: Sequence[str]
) -> tuple[Expr, isl.Set]:
    """The value of each element, and the elements that have one."""
    pieces: list[tuple[isl.Set, Expr]] = []
    covered = sets.empty(whole.get_space())
    for each in instances:
        back = sets.as_map(each.elements.reverse().intersect_domain(whole.subtract(covered)).coalesce())
        first = back if back.is_single_valued() else back.lexmin()
        for points, forms in sets.pieces_of_function(first):
            at = dict(zip(each.names, indices_of(forms, names), strict=True))
            pieces.append((points, substitute(each.value, at)))
        covered = covered.union(sets.with_dims(sets.named(sets.as_set(first.domain()), array.name), names)).coalesce()
    value: Expr | None = as_typed(ZERO, array.dtype)  # of an element that no program stores
    known = whole.intersect(covered) if array.partial else whole
    if not pieces or known.is_subset(covered):
        value = None
    for points, own in reversed(pieces):
        value = own if value is None else _either(condition_of(points, known, names), own, value)
    return (as_typed(ZERO, array.dtype) if value is None else value), covered


def _either(condition: Expr | None, yes: Expr, no: Expr) -> Expr:
    return yes if condition is None else select(condition, yes, no)


def _accumulated(
    array: Filled,
    instances: StoreInstances,
    whole: isl.Set,
    names: Sequence[str],
    domain: Mapping[Iter, Any],
    stored: Stored,
) -> ProgramValue:
    """The sums of what several programs store to each element."""
    every = range(len(instances.bounds))  # so that no iterator is taken one by one
    found = preimages(instances.elements.intersect_range(whole), every)
    if len(found) != 1:
        raise DeclarationError(
            f"{instances.site.origin}: the programs that add to an element of {array.name} are no box: "
            f"{len(found)} parts; let the element follow from some axes of the grid, and the terms from the others"
        )
    (part,) = found
    summed = [each for k, each in enumerate(instances.bounds) if k in part.summed]
    points = sets.with_dims(part.points, [*names, *(each.name for each in summed)])
    at = _forms(part, instances, names, summed)
    term = substitute(instances.value, {name: form for name, form in at.items() if form is not None})
    over = {each: _bound(instances.bounds[each], at) for each in summed}
    if not over:
        where = condition_of(points, whole, names)
        if not array.partial:  # what no program stores reads nothing
            term, where = _either(where, term, as_typed(ZERO, array.dtype)), None
        return ProgramValue(
            array.name, domain, term, array.dtype, instances.site.origin, where=where, stored=stored,
            shape=array.extents,
        )  # fmt: skip
    dims = [*names, *(each.name for each in summed)]
    known = sets.universe(points.get_space()).intersect_params(whole.params())
    reader = Affine(points.get_space(), dict(zip(dims, sets.variables(points.get_space()), strict=True)))
    for each, extent in {**domain, **over}.items():
        given = Const(extent, ZERO.dtype) if isinstance(extent, int) else extent
        known = known.intersect(reader.condition((each >= 0) & (each < given)))
    return ProgramValue(
        array.name, domain, term, array.dtype, instances.site.origin, over=over, op=operators.sum_,
        where=condition_of(points, known, dims), ordered=instances.site.combine == "ordered", stored=stored,
        shape=array.extents,
    )  # fmt: skip


def _forms(part: Preimage, instances: StoreInstances, names: Sequence[str], summed: Sequence[Iter]) -> dict[str, Expr]:
    """The number of a program, iteration and lane from an element and what is summed over."""
    dims = [*names, *(each.name for each in summed)]
    return dict(zip(instances.names, indices_of(part.forms, dims), strict=True))


def _bound(extent: Any, at: Mapping[str, Expr]) -> Any:
    return substitute(extent, at) if isinstance(extent, Expr) else extent
