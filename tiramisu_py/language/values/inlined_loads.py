"""Loads that are done where their values are used: of indices and conditions, which are no blocks of their own.

Such a value is read for the elements that need it alone. The kernel says that it is read for the whole block: that no
lane is outside of the array is proven beside the stores of the same programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, LoadSite, Stored
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.ir.scalars import shape_of
from tiramisu_py.language.values.programs import Programs
from tiramisu_py.language.values.stores import executed_at, points_within


def with_loads(algorithm: Algorithm, programs: Programs, stored: Sequence[ProgramValue]) -> list[ProgramValue]:
    """What programs store, the first of it with the loads that have to be inside of their arrays."""
    loads = tuple(_loads(algorithm, programs))
    if not loads or not stored:
        return list(stored)
    own = stored[0].stored or Stored((), partial=True)
    return [replace(stored[0], stored=replace(own, loads=loads)), *stored[1:]]


def _loads(algorithm: Algorithm, programs: Programs) -> Iterator[LoadSite]:
    """The loads whose elements are forms of the numbers of programs; where values decide, their uses are proven."""
    for site in programs.loads:
        array, (bounds, count, axes) = programs.bound[site.array], executed_at(programs, site)
        space = algorithm.frame(f"{array.name}_load", [each.name for each in bounds])
        reader = Affine(space)
        try:
            points = points_within(algorithm, space, bounds, reader)
            mask = True if site.mask is True else programs.meaning(site.mask)(axes if shape_of(site.mask) else ())
            for condition in conjuncts(mask) if isinstance(mask, Expr) else ():
                points = points.intersect(reader.condition(condition))
            indices = [programs.meaning(each)(axes if shape_of(each) else ()) for each in site.indices]
            forms = [reader.single(index) for index in indices]
        except NotAffine:
            continue
        elements = sets.graph(sets.function(space, array.name, forms)).intersect_domain(points)
        yield LoadSite(array.name, elements, count, site.origin)
