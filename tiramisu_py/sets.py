"""isl objects with named dimensions: the only module that addresses dimensions by number.

Everything is built from objects, never from text. A *frame* is the space of one tuple: its name, the names of its
dimensions, over all parameters of the function. Affine expressions live on a frame; maps are built from lists of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import islpy as isl

_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_PARAM = isl.dim_type.param

Piecewise = isl.PwAff


def frame(context: isl.Context, params: Sequence[str], name: str | None, dims: Sequence[str]) -> isl.Space:
    """The space of the tuple ``name[dims]`` over `params`."""
    space = isl.Space.create_from_names(context, set=list(dims), params=list(params))
    return space if name is None else space.set_tuple_name(_SET, name)


def sized_frame(like: isl.Space, name: str | None, size: int) -> isl.Space:
    """A tuple of `size` unnamed dimensions over the parameters of `like`."""
    space = like.params().add_unnamed_tuple_ui(size)
    return space if name is None else space.set_tuple_name(_SET, name)


def size(of: isl.Set | isl.Space) -> int:
    """How many dimensions a set has."""
    return int(of.dim(_SET))


def in_size(of: isl.Map | isl.MultiAff) -> int:
    """How many input dimensions a map has."""
    return int(of.dim(_IN))


def out_size(of: isl.Map | isl.MultiAff) -> int:
    """How many output dimensions a map has."""
    return int(of.dim(_OUT))


def tuple_name(of: isl.Set | isl.Space) -> str:
    """The name of a set's tuple, or an empty string."""
    name = of.get_tuple_name(_SET) if of.has_tuple_name(_SET) else None
    return name or ""


def in_name(of: isl.Map) -> str:
    """The name of a map's input tuple, or an empty string."""
    return (of.get_tuple_name(_IN) if of.has_tuple_name(_IN) else None) or ""


def out_name(of: isl.Map) -> str:
    """The name of a map's output tuple, or an empty string."""
    return (of.get_tuple_name(_OUT) if of.has_tuple_name(_OUT) else None) or ""


def params(of: isl.Set | isl.Map | isl.Space) -> list[str]:
    """The names of the parameters."""
    return [of.get_dim_name(_PARAM, i) for i in range(of.dim(_PARAM))]


def dim_names(of: isl.Set | isl.Space) -> list[str | None]:
    """The names of a set's dimensions, None where one has none."""
    return [of.get_dim_name(_SET, i) for i in range(of.dim(_SET))]


# -- affine expressions on a frame


def variables(space: isl.Space) -> list[isl.Aff]:
    """The dimensions of a frame, each as an affine expression on it."""
    local = isl.LocalSpace.from_space(space)
    return [isl.Aff.var_on_domain(local, _SET, i) for i in range(space.dim(_SET))]


def parameter(space: isl.Space, name: str) -> isl.Aff:
    """A parameter as an affine expression on a frame."""
    position = space.find_dim_by_name(_PARAM, name)
    if position < 0:
        raise KeyError(name)
    return isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _PARAM, position)


def constant(space: isl.Space, value: int) -> isl.Aff:
    """A constant as an affine expression on a frame."""
    return isl.Aff.val_on_domain_space(space, integer(space.get_ctx(), value))


def integer(context: isl.Context, value: int) -> isl.Val:
    """An isl integer of any size."""
    if -(2**31) <= value < 2**31:
        return isl.Val.int_from_si(context, value)
    return isl.Val.read_from_str(context, str(value))


def is_constant(aff: isl.Aff) -> bool:
    """Whether an affine expression is an integer constant."""
    return bool(aff.is_cst()) and bool(aff.get_constant_val().is_int())


def constant_of(aff: isl.Aff) -> int:
    """The value of a constant affine expression."""
    return int(aff.get_constant_val().to_python())


def floor_div(aff: isl.Aff, divisor: int) -> isl.Aff:
    """``floor(aff / divisor)``, divisor > 0."""
    return aff.scale_down_val(integer(aff.get_ctx(), divisor)).floor()


def modulo(aff: isl.Aff, divisor: int) -> isl.Aff:
    """``aff mod divisor``, from 0 to divisor - 1."""
    return aff.mod_val(integer(aff.get_ctx(), divisor))


def scaled(aff: isl.Aff, factor: int) -> isl.Aff:
    """``factor * aff``."""
    return aff.scale_val(integer(aff.get_ctx(), factor))


def plus(aff: isl.Aff, value: int) -> isl.Aff:
    """``aff + value``."""
    return aff.add_constant_val(integer(aff.get_ctx(), value))


# -- functions: lists of affine expressions


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
    """The same function into the tuple `name`."""
    if name is None:
        return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of
    return of.set_tuple_name(_OUT, name)


def from_frame(of: isl.MultiAff, space: isl.Space) -> isl.MultiAff:
    """The same function on another frame of as many dimensions (a renamed tuple)."""
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


# -- sets and maps


def universe(space: isl.Space) -> isl.Set:
    """All elements of a frame."""
    return isl.Set.universe(space)


def empty(space: isl.Space) -> isl.Set:
    """No element of a frame."""
    return isl.Set.empty(space)


def as_set(of: isl.Set | isl.BasicSet) -> isl.Set:
    """A set, whatever islpy gave."""
    return of if isinstance(of, isl.Set) else of.to_set()


def as_map(of: isl.Map | isl.BasicMap) -> isl.Map:
    """A map, whatever islpy gave."""
    return of if isinstance(of, isl.Map) else of.to_map()


def named(of: isl.Set, name: str | None) -> isl.Set:
    """The same set under another tuple name."""
    if name is None:
        return of.reset_tuple_id() if of.has_tuple_id() else of
    return of.set_tuple_name(name)


def with_dims(of: isl.Set, names: Iterable[str]) -> isl.Set:
    """The same set with names for its dimensions."""
    for i, name in enumerate(names):
        of = of.set_dim_name(_SET, i, name)
    return of


def project_prefix(of: isl.Set, count: int) -> isl.Set:
    """The projection of a set onto its first `count` dimensions."""
    return of.project_out(_SET, count, of.dim(_SET) - count)


def project_range_prefix(of: isl.Map, count: int) -> isl.Map:
    """A map whose images keep their first `count` dimensions."""
    return of.project_out(_OUT, count, of.dim(_OUT) - count)


def equal_prefix(of: isl.Map, count: int) -> isl.Map:
    """The pairs of a relation between like tuples that agree in their first `count` dimensions."""
    for i in range(count):
        of = of.equate(_IN, i, _OUT, i)
    return of


def less_at(of: isl.Map, position: int) -> isl.Map:
    """The pairs of a relation between like tuples whose input is less in dimension `position`."""
    return of.order_lt(_IN, position, _OUT, position)


def fixed(of: isl.Set, values: Mapping[str, int]) -> isl.Set:
    """A set at given parameter values, without parameters."""
    for i in range(of.dim(_PARAM)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[of.get_dim_name(_PARAM, i)]))
    return of.project_out(_PARAM, 0, of.dim(_PARAM))


def fixed_map(of: isl.Map, values: Mapping[str, int]) -> isl.Map:
    """A map at given parameter values, without parameters."""
    for i in range(of.dim(_PARAM)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[of.get_dim_name(_PARAM, i)]))
    return of.project_out(_PARAM, 0, of.dim(_PARAM))


def coordinates(point: isl.Point, count: int) -> tuple[int, ...]:
    """The first `count` coordinates of a point."""
    return tuple(int(point.get_coordinate_val(_SET, i).to_python()) for i in range(count))


def param_values(point: isl.Point, names: Sequence[str]) -> dict[str, int]:
    """The parameters of a point, by name."""
    return {name: int(point.get_coordinate_val(_PARAM, i).to_python()) for i, name in enumerate(names)}


def points(of: isl.Set) -> list[tuple[int, ...]]:
    """All elements of a finite set without parameters, in lexicographic order."""
    found: list[tuple[int, ...]] = []
    count = of.dim(_SET)
    of.foreach_point(carrying(lambda point: found.append(coordinates(point, count))))
    return sorted(found)


def carrying(callback: Callable[..., None]) -> Callable[..., None]:
    """The callback, unchanged: one named place for what isl calls back into (see `lower.ast` for those that may raise)."""
    return callback


def least(aff: isl.PwAff | isl.Aff) -> isl.Aff | None:
    """The single affine expression of a piecewise one, or None where it has several pieces."""
    if isinstance(aff, isl.Aff):
        return aff
    merged = aff.coalesce()
    return merged.as_aff() if merged.isa_aff() else None
