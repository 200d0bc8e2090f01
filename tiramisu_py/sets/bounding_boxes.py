"""The limits of forms of parameters: how large they become, and affine forms that are never far from them."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets


def greatest(form: isl.PwAff) -> int | None:
    """The largest value of a form of the parameters; None where it has no bound."""
    return sets.largest_value(sets.on_line(sets.at_any_point(form, sets.sized_frame(form.get_space(), None, 0))), 0)


def nearest_bounds(of: isl.PwAff, sign: int) -> list[isl.Aff]:
    """Affine forms that are never above (sign 1) or never below (sign -1) a form, and near to it in places."""
    found = []
    for piece in sets.pieces(of):
        gap = of.sub(piece.to_pw_aff()) if sign < 0 else piece.to_pw_aff().sub(of)
        most = greatest(gap)
        if most is not None:
            found.append(sets.plus(piece, -sign * max(most, 0)))
    return found
