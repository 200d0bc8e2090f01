"""Frames: the spaces of tuples, with their names and sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import islpy as isl

_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_PARAM = isl.dim_type.param


def frame(context: isl.Context, params: Sequence[str], name: str | None, dims: Sequence[str]) -> isl.Space:
    """The space of the tuple ``name[dims]`` over `params`."""
    space = isl.Space.create_from_names(context, set=list(dims), params=list(params))
    return space if name is None else space.set_tuple_name(_SET, name)


def sized_frame(like: isl.Space, name: str | None, size: int) -> isl.Space:
    """A tuple of `size` unnamed dimensions over the parameters of `like`."""
    space = like.params().add_unnamed_tuple_ui(size)
    return space if name is None else space.set_tuple_name(_SET, name)


def extended_frame(space: isl.Space, extra: int) -> isl.Space:
    """A nameless frame: `space` extended by `extra` dimensions."""
    return sized_frame(space, None, space.dim(_SET) + extra)


def size(of: isl.Set | isl.Space) -> int:
    """The number of dimensions of a set."""
    return int(of.dim(_SET))


def in_size(of: isl.Map | isl.MultiAff) -> int:
    """The number of input dimensions of a map."""
    return int(of.dim(_IN))


def out_size(of: isl.Map | isl.MultiAff) -> int:
    """The number of output dimensions of a map."""
    return int(of.dim(_OUT))


def tuple_name(of: isl.Set | isl.Space) -> str:
    """The name of a set's tuple, or an empty string."""
    space = of.get_space() if isinstance(of, isl.Set) else of
    return (space.get_tuple_name(_SET) if space.has_tuple_name(_SET) else None) or ""


def in_name(of: isl.Map) -> str:
    """The name of a map's input tuple, or an empty string."""
    return (of.get_tuple_name(_IN) if of.has_tuple_name(_IN) else None) or ""


def out_name(of: isl.Map) -> str:
    """The name of a map's output tuple, or an empty string."""
    return (of.get_tuple_name(_OUT) if of.has_tuple_name(_OUT) else None) or ""


def params(of: isl.Set | isl.BasicSet | isl.Map | isl.Space) -> list[str]:
    """The names of the parameters."""
    return [of.get_dim_name(_PARAM, i) or "" for i in range(of.dim(_PARAM))]


def dim_names(of: isl.Set | isl.Space) -> list[str | None]:
    """The names of a set's dimensions; None for a dimension without a name."""
    return [of.get_dim_name(_SET, i) for i in range(of.dim(_SET))]


def out_dim_names(of: isl.Map) -> list[str | None]:
    """The names of a map's output dimensions; None for a dimension without a name."""
    return [of.get_dim_name(_OUT, i) if of.has_dim_name(_OUT, i) else None for i in range(of.dim(_OUT))]


def integer(context: isl.Context, value: int) -> isl.Val:
    """An isl integer of any size."""
    if -(2**31) <= value < 2**31:
        return isl.Val.int_from_si(context, value)
    return isl.Val.read_from_str(context, str(value))


def number(value: isl.Val) -> int:
    """An isl integer as a Python number; raises isl's error if its budget of operations was exceeded."""
    text = value.to_str()
    if text is None:
        raise isl.Error("no number: the maximal number of operations is exceeded")
    return int(text)


def carrying(callback: Callable[..., None]) -> Callable[..., None]:
    """The callback, unchanged: a single place through which isl's callbacks go; a callback must not raise."""
    return callback


def with_params(space: isl.Space, names: Sequence[str]) -> isl.Space:
    """The space of a tuple with additional parameters."""
    for name in names:
        position = space.dim(_PARAM)
        space = space.add_dims(_PARAM, 1).set_dim_name(_PARAM, position, name)
    return space
