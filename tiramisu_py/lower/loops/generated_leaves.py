"""The leaves of generated loops as functions: which iterations of which loops execute which instance, at which time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.lower.loops.ast_forms import Form, alike
from tiramisu_py.records import dataclass

#: Dimensions of a time: each as a form without its constant, in words, and the constant.
KnownTime = tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Asked:
    """Instances of the statement `name`, their time, and the forms that their code computes from them."""

    name: str
    instances: isl.Set
    time: isl.MultiAff
    forms: Sequence[Form] = ()


@dataclass(frozen=True, eq=False)
class GeneratedLeaf:
    """A leaf of the tree: whose instance it executes, with which coordinates, and the forms that it computes."""

    asked: str
    coordinates: Sequence[isl.AstExpr]
    forms: Sequence[isl.AstExpr] = ()


@dataclass(frozen=True, eq=False)
class AroundLoop:
    """A loop: the dimension of the time that it is, its iterator's axis in the frame, its iterations, and its step."""

    position: int
    axis: int
    inside: isl.Set
    step: int


@dataclass(frozen=True, eq=False)
class LeafPlace:
    """Executions at a leaf: iterations `where` of the loops `around`, with the `time` of the `instance` there.

    `scales` and `rests` are a and b in each position of a loop: the time there is ``a * iterator + b``.
    """

    asked: Asked
    where: isl.Set
    around: Sequence[AroundLoop]
    instance: isl.MultiAff
    time: Sequence[isl.Aff]
    scales: dict[int, int] = field(default_factory=dict)
    rests: dict[int, int] = field(default_factory=dict)

    def is_alike(self, other: LeafPlace, position: int) -> bool:
        """Whether the times in the dimension of a loop around are equal in the same iteration."""
        return self.scales[position] == other.scales[position] and self.rests[position] == other.rests[position]


def functions_of(where: isl.Set, read: Sequence[Form], frame: isl.Space) -> Iterator[tuple[isl.Set, isl.MultiAff]]:
    """The instance as affine functions of the iterators, each in some of the iterations."""
    name = sets.tuple_name(frame) or None
    if all(isinstance(form, isl.Aff) for form in read):
        yield where, sets.function(where.get_space(), name, [form for form in read if isinstance(form, isl.Aff)])
        return
    whole = sets.map_of_forms([_as_pieces(form) for form in read], where.get_space(), name)
    found: list[tuple[isl.Set, isl.MultiAff]] = []
    pieces = sets.piecewise(whole.intersect_domain(where))
    pieces.foreach_piece(sets.carrying(lambda part, function: found.append((part, function))))
    yield from found


def _as_pieces(form: Form) -> isl.PwAff:
    return form.to_pw_aff() if isinstance(form, isl.Aff) else form


def difference(left: Form, right: Form) -> Form:
    """One form less another."""
    one, other = alike(left, right)
    found: Form = one.sub(other)
    return found


def zero_of(form: Any) -> isl.Set:
    """Where a form is zero."""
    zero: isl.Set = form.zero_basic_set().to_set() if isinstance(form, isl.Aff) else form.zero_set()
    return zero
