"""The box of the iterations of some loops, whose sides are forms of the parameters."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Sides:
    """The box of some loops: for each of them its first and its last iteration, forms of the parameters alone."""

    lows: tuple[isl.Aff, ...]
    highs: tuple[isl.Aff, ...]

    @property
    def extents(self) -> list[isl.Aff]:
        """The number of iterations of each loop, where it has any."""
        return [sets.plus(high.sub(low), 1) for low, high in zip(self.lows, self.highs, strict=True)]

    def box(self, space: isl.Space) -> isl.Set:
        """All iterations in the box, as a set whose last dimensions are those of the loops."""
        found = sets.universe(space)
        inner = sets.variables(space)[-len(self.lows) :]
        for variable, low, high in zip(inner, self.lows, self.highs, strict=True):
            form = variable.to_pw_aff()
            found = found.intersect(sets.as_set(form.ge_set(sets.on_frame(low, space).to_pw_aff())))
            found = found.intersect(sets.as_set(form.le_set(sets.on_frame(high, space).to_pw_aff())))
        return found


def sides_of(executed: isl.Set, count: int) -> Sides | None:
    """The sides of the smallest box around the last `count` dimensions; None where one is no single affine form."""
    outer = sets.size(executed) - count
    lows, highs = list[isl.Aff](), list[isl.Aff]()
    for axis in range(outer, outer + count):
        along = isl.Map.from_range(sets.component_of(executed, axis))
        low, high = _lowest(along), _lowest(along.neg())
        if low is None or high is None:
            return None
        lows.append(low)
        highs.append(high.neg())
    return Sides(tuple(lows), tuple(highs))


def _lowest(along: isl.Map) -> isl.Aff | None:
    found = [low for low in sets.lower_bounds(along) if sets.never_below(along, low)]
    return found[0] if found else None
