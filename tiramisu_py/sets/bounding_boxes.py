"""The smallest box around a parametric set, dimension by dimension, of constant extent where there is one.

::

    { [i] -> [x] : 4i - 1 <= x <= 4i + 2, 0 <= x < N }   -->   4 numbers from 4i - 1 on

A box may be larger than what is inside: at a border, the part of it that is outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import islpy as isl

from tiramisu_py.records import dataclass
from tiramisu_py.sets.affine_functions import at_any_point
from tiramisu_py.sets.domains import largest_value
from tiramisu_py.sets.forms import constant_of, is_constant, pieces, plus
from tiramisu_py.sets.frames import sized_frame
from tiramisu_py.sets.relations import lower_bounds, on_line, span_above


@dataclass(frozen=True, eq=False)
class AxisInterval:
    """The `extent` numbers from an affine form on."""

    low: isl.Aff
    extent: int


def interval_around(of: isl.Map, lows: Iterable[isl.Aff] | None = None) -> AxisInterval | None:
    """The smallest interval of constant extent around the images of a one-dimensional map, for each of its inputs.

    It begins at one of the affine forms `lows` of the input that is above no image; these are the map's `lower_bounds`
    unless given. None where no constant bounds how far the images are above such a form.
    """
    found: AxisInterval | None = None
    for low in lower_bounds(of) if lows is None else lows:
        span = span_above(of, low)
        if span is not None and span[0] >= 0 and (found is None or span[1] + 1 < found.extent):
            found = AxisInterval(low, span[1] + 1)
    return found


def interval_between(lows: Sequence[isl.Aff], highs: Sequence[isl.Aff]) -> AxisInterval | None:
    """The smallest interval from a lower to an upper bound that a constant is between; None where none is."""
    apart = [(high.sub(low), low) for low in lows for high in highs]
    found = [AxisInterval(low, constant_of(gap) + 1) for gap, low in apart if is_constant(gap)]
    return min(found, key=lambda interval: interval.extent, default=None)


def greatest(form: isl.PwAff) -> int | None:
    """The largest value of a form of the parameters; None where it has no bound."""
    return largest_value(on_line(at_any_point(form, sized_frame(form.get_space(), None, 0))), 0)


def nearest_bounds(of: isl.PwAff, sign: int) -> list[isl.Aff]:
    """Affine lower bounds (sign 1) or upper bounds (sign -1) of a form, each close to it somewhere."""
    found = []
    for piece in pieces(of):
        gap = of.sub(piece.to_pw_aff()) if sign < 0 else piece.to_pw_aff().sub(of)
        most = greatest(gap)
        if most is not None:
            found.append(plus(piece, -sign * max(most, 0)))
    return found
