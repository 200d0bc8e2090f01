"""Functions between frames: lists of affine expressions."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py.sets.forms import has_floors, variables, with_small_floors
from tiramisu_py.sets.frames import carrying, sized_frame

_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


def function(space: isl.Space, name: str | None, outputs: Sequence[isl.Aff]) -> isl.MultiAff:
    """The function from the frame `space` to ``name[outputs]``."""
    context = space.get_ctx()
    listed = isl.AffList.alloc(context, len(outputs))
    for aff in outputs:
        listed = listed.add(aff)
    target = space.map_from_domain_and_range(sized_frame(space, name, len(outputs)))
    return isl.MultiAff.from_aff_list(target, listed)


def outputs(of: isl.MultiAff) -> list[isl.Aff]:
    """The components of a function."""
    return [of.get_at(i) for i in range(of.dim(_OUT))]


def identity(space: isl.Space) -> isl.MultiAff:
    """The function that maps each element of a frame to itself."""
    return isl.MultiAff.identity_on_domain_space(space)


def compose(inner: isl.MultiAff, outer: isl.MultiAff) -> isl.MultiAff:
    """``x -> outer(inner(x))``; tuple names in between need not match."""
    domain = outer.get_space().domain()
    return outer.pullback_multi_aff(_retargeted(inner, domain))


def _retargeted(of: isl.MultiAff, domain: isl.Space) -> isl.MultiAff:
    if domain.has_tuple_name(_SET):
        return of.set_tuple_name(_OUT, domain.get_tuple_name(_SET))
    return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of


def renamed(of: isl.MultiAff, name: str | None) -> isl.MultiAff:
    """The function into the tuple `name`."""
    if name is None:
        return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of
    return of.set_tuple_name(_OUT, name)


def from_frame(of: isl.MultiAff, space: isl.Space) -> isl.MultiAff:
    """The function on another frame of the same dimension (a renamed tuple)."""
    return of.pullback_multi_aff(_retargeted(identity(space), of.get_space().domain()))


def prefix(of: isl.MultiAff, count: int) -> isl.MultiAff:
    """The first `count` components of a function (its tuple loses its name)."""
    return renamed(of.drop_dims(_OUT, count, of.dim(_OUT) - count), None)


def joined(*functions: isl.MultiAff) -> isl.MultiAff:
    """The components of several functions on one frame, one after another."""
    space = functions[0].get_space().domain()
    return function(space, None, [aff for f in functions for aff in outputs(f)])


def graph(of: isl.MultiAff, domain: isl.Set | None = None) -> isl.Map:
    """A function as a map, on `domain` only if one is given."""
    relation = isl.Map.from_multi_aff(of)
    return relation if domain is None else relation.intersect_domain(domain)


def relating(first: isl.MultiAff, second: isl.MultiAff, points: isl.Set) -> isl.Map:
    """``first(x) -> second(x)`` for the points x of a set, whose pieces are not paired with each other."""
    return graph(first, points).reverse().apply_range(graph(second))


def as_single_function(of: isl.Map) -> isl.MultiAff | None:
    """A single-valued map as one quasi-affine function; None if it needs several pieces."""
    pieces = isl.PwMultiAff.from_map(of).coalesce()
    found: list[isl.MultiAff] = []
    pieces.foreach_piece(carrying(lambda domain, f: found.append(f)))
    return found[0] if len(found) == 1 else None


def without_dim_names(of: isl.MultiAff) -> isl.MultiAff:
    """The function on a frame of unnamed dimensions."""
    return from_frame(of, sized_frame(of.get_space(), None, of.dim(_IN)))


def is_identity(of: isl.MultiAff) -> bool:
    """Whether the k-th component of a function is the k-th dimension, for all components."""
    dims = variables(of.get_space().domain())
    found = outputs(of)
    return len(found) <= len(dims) and all(a.plain_is_equal(b) for a, b in zip(found, dims, strict=False))


def is_square(of: isl.MultiAff) -> bool:
    """Whether a function has as many components as dimensions."""
    return int(of.dim(_IN)) == int(of.dim(_OUT))


def rearranged(of: isl.Set, order: Sequence[int]) -> isl.Set:
    """A set with its dimensions in another order, without names: dimension d is ``order[d]`` of the set."""
    space = of.get_space()
    dims = variables(space)
    return of.apply(isl.Map.from_multi_aff(function(space, None, [dims[axis] for axis in order])))


def preimage(of: isl.Set, function: isl.MultiAff) -> isl.Set:
    """The elements that a function maps into a set."""
    return of.preimage_multi_aff(function)


def pulled(form: isl.PwAff, by: isl.MultiAff) -> isl.PwAff:
    """``x -> form(by(x))``, for a form that may be piecewise; tuple names in between need not match."""
    return form.pullback_multi_aff(_retargeted(by, form.get_domain_space()))


def piecewise(of: isl.Map) -> isl.PwMultiAff:
    """A single-valued map as a piecewise function."""
    return isl.PwMultiAff.from_map(of).coalesce()


def in_small_floors(of: isl.PwMultiAff) -> isl.PwMultiAff:
    """The function with small factors under its floors (see `with_small_floors`)."""
    pieces: list[tuple[isl.Set, isl.MultiAff]] = []
    of.foreach_piece(carrying(lambda domain, own: pieces.append((domain, own))))
    if not any(has_floors(form) for _, own in pieces for form in outputs(own)):
        return of
    found: isl.PwMultiAff | None = None
    for domain, own in pieces:
        changed = own
        for position, form in enumerate(outputs(own)):
            changed = changed.set_at(position, with_small_floors(form))
        piece = isl.PwMultiAff.from_multi_aff(changed).intersect_domain(domain)
        found = piece if found is None else found.union_add(piece)
    assert found is not None
    return found


def without_floors(of: isl.Aff, domain: isl.Set) -> isl.Aff:
    """A form without floors that is equal on a domain, if equations tell it; else the form itself.

    ``floor((2*i + j) / 2)`` is ``i`` where j is 0 or 1.
    """
    if not has_floors(of):
        return of
    hull = isl.Map.from_aff(of).intersect_domain(domain).affine_hull().to_map()
    found: list[isl.Aff] = []
    if hull.is_single_valued():
        isl.PwMultiAff.from_map(hull).foreach_piece(carrying(lambda _, own: found.append(own.get_at(0))))
    return found[0] if len(found) == 1 and not has_floors(found[0]) else of


def identity_on(of: isl.Set) -> isl.PwMultiAff:
    """The identity on a set."""
    return isl.PwMultiAff.from_multi_aff(renamed(identity(of.get_space()), None)).intersect_domain(of)


def nothing_on(of: isl.Set) -> isl.PwMultiAff:
    """The function without components on a set."""
    return isl.PwMultiAff.from_multi_aff(function(of.get_space(), None, [])).intersect_domain(of)


def graph_of(of: isl.PwMultiAff) -> isl.Map:
    """A piecewise function as a map."""
    return isl.Map.from_pw_multi_aff(of)


def at_any_point(form: isl.PwAff, space: isl.Space) -> isl.PwAff:
    """A form of the parameters alone, on the frame `space`."""
    return form.insert_domain(space)


def with_params_of(of: isl.MultiAff, space: isl.Space) -> isl.MultiAff:
    """The function with the parameters of a space added."""
    return of.align_params(space.params())


def function_pieces(of: isl.Map) -> list[isl.Map]:
    """A single-valued map as maps of which each is one quasi-affine function."""
    found: list[isl.Map] = []
    pieces = isl.PwMultiAff.from_map(of).coalesce()
    pieces.foreach_piece(
        carrying(lambda domain, own: found.append(isl.Map.from_multi_aff(own).intersect_domain(domain)))
    )
    return found


def pieces_of_function(of: isl.Map) -> list[tuple[isl.Set, tuple[isl.Aff, ...]]]:
    """The pieces of a single-valued map: a domain, and the components of the function on it."""
    found: list[tuple[isl.Set, tuple[isl.Aff, ...]]] = []
    pieces = in_small_floors(isl.PwMultiAff.from_map(of).coalesce())
    pieces.foreach_piece(carrying(lambda domain, own: found.append((domain, tuple(outputs(own))))))
    return found
