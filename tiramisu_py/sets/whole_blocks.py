"""Sets extended to whole blocks along their last dimension."""

from __future__ import annotations

from functools import reduce

import islpy as isl

from tiramisu_py.sets.affine_functions import function
from tiramisu_py.sets.forms import greatest, pieces, raised, variables
from tiramisu_py.sets.relations import without_gaps


def in_whole_blocks(of: isl.Set, width: int) -> isl.Set:
    """A set with its last coordinates extended to whole blocks of `width`.

    For each choice of the coordinates before, consecutive blocks start at the least last coordinate and cover the
    greatest.
    """
    if of.is_empty():
        return of
    of = without_gaps(of).coalesce()
    space = of.get_space()
    dims = variables(space)
    before = function(space, None, dims[:-1])
    lasts = isl.Map.from_multi_aff(before).intersect_domain(of).reverse()
    lasts = lasts.apply_range(isl.Map.from_multi_aff(function(space, None, dims[-1:])))
    low, high = lasts.min_multi_pw_aff().get_at(0), lasts.max_multi_pw_aff().get_at(0)
    last, least = dims[-1].to_pw_aff(), low.pullback_multi_aff(before)
    inside = _set(last.ge_set(least))
    ends = _ends(low, high, width)
    return reduce(
        isl.Set.intersect, (_set(last.lt_set(end.pullback_multi_aff(before))) for end in ends), inside
    ).coalesce()


def _ends(low: isl.PwAff, high: isl.PwAff, width: int) -> list[isl.PwAff]:
    """Forms whose minimum is the end of the last block."""
    longest = greatest(high.sub(low))
    if longest is not None and longest < width:
        return [raised(low, width)]
    lows = pieces(low)
    bounds = [aff.to_pw_aff() for aff in pieces(high)]
    bounds = [bound.intersect_domain(high.domain()) for bound in bounds]
    if len(lows) > 1 or not all(high.domain().is_subset(_set(bound.ge_set(high))) for bound in bounds):
        bounds = [high]
    return [_end(low, bound, width) for bound in bounds]


def _end(low: isl.PwAff, high: isl.PwAff, width: int) -> isl.PwAff:
    """``low + width * floor((high - low) / width) + width``."""
    size = isl.Val(width, low.get_ctx())
    whole = high.sub(low).scale_down_val(size).floor().scale_val(size)
    return raised(low.add(whole), width)


def _set(of: isl.Set | isl.BasicSet) -> isl.Set:
    return of.to_set() if isinstance(of, isl.BasicSet) else of
