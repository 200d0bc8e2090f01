"""Whether two algorithms compute the same outputs, for all sizes: equal, different with a witness, or not known.

*Equal* is proven: each element of each output is the same sum of the same products of elements, at all sizes for which
both algorithms are defined. Sums may have another order, so bits may differ, real numbers do not. *Different* is shown:
at the witness, `evaluate` gives two values. All else is *unknown*, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import islpy as isl
import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Input
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments
from tiramisu_py.algorithm.evaluate.evaluate import evaluate
from tiramisu_py.equivalence.comparing import differences
from tiramisu_py.equivalence.declared_facts import with_facts_of
from tiramisu_py.equivalence.indirect_reads import written_out
from tiramisu_py.equivalence.normal_forms import Classes, NormalForms
from tiramisu_py.equivalence.terms import Unknown
from tiramisu_py.errors import DeclarationError, TiramisuError
from tiramisu_py.records import dataclass
from tiramisu_py.sets import smallest

#: isl may take so many steps for one pair of algorithms.
OPERATIONS = 200_000_000
#: Arguments are drawn so many times, where two forms differ.
_DRAWN = 8
#: Floats that differ by more than this part are different whatever the order of their sums is.
_CLEARLY = 1e-3


@dataclass(frozen=True)
class Equivalence:
    """The relation of two functions: `ok` if they are proven equal, else `is_different`, or neither.

    `reason` says it in words. `params` and `element` are the witness of a difference: sizes, an output and its indices.
    `regrouped`: some product of a sum is a sum of products in the other one, ``(a + b) * c``.
    """

    ok: bool
    reason: str
    is_different: bool = False
    regrouped: bool = False
    params: Mapping[str, int] | None = None
    element: str = ""

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.reason


def compared(f: Algorithm, g: Algorithm) -> Equivalence:
    """The relation of the outputs of two algorithms. Raises `DeclarationError` if their arguments differ."""
    f, g = with_facts_of(f, g), with_facts_of(g, f)
    pairs = _paired(f, g)
    context = f.context.intersect(sets.in_context(g.context, f.isl_context))
    classes = Classes()
    first, second = (NormalForms(written_out(each), f.param_space, classes) for each in (f, g))
    try:
        with sets.apart(f.isl_context, OPERATIONS):
            for name, other in pairs:
                found = _of_output(f, g, first, second, (name, other), context)
                if found is not None:
                    return found
    except Unknown as error:
        return Equivalence(False, f"not known: {error}")
    except isl.Error:
        return Equivalence(False, "not known: the sets of products take isl too long")
    regrouped = first.regrouped or second.regrouped
    how = "up to the order of terms"
    if regrouped:
        how = "as real numbers: products of sums are sums of products"
    outputs = ", ".join(name for name, _ in pairs)
    return Equivalence(True, f"{f.name} and {g.name} give equal {outputs} for all sizes, {how}", regrouped=regrouped)


def _of_output(
    f: Algorithm, g: Algorithm, first: NormalForms, second: NormalForms, names: tuple[str, str], context: isl.Set
) -> Equivalence | None:
    """A difference, or what is not known, of one output; None if it is proven equal."""
    name, other = names
    a, b = first.algorithm.computations[name], second.algorithm.computations[other]
    if len(a.iterators) != len(b.iterators):
        raise Unknown(f"{name} is by position in one of {f.name} and {g.name}, and by its run in the other")
    if a.dtype != b.dtype:
        raise Unknown(f"{name} is {a.dtype} in {f.name}, and {b.dtype} in {g.name}")
    if (a.guards and not a.is_reduction) or (b.guards and not b.is_reduction):
        raise Unknown(f"some elements of {name} exist under conditions on values")
    here, there = first.domain(name).intersect_params(context), second.domain(other).intersect_params(context)
    for one, rest, has, lacks in ((here, there, f, g), (there, here, g, f)):
        alone = one.subtract(rest)
        if not alone.is_empty():
            params, index = _least(alone)
            element = f"{name}[{', '.join(map(str, index))}]"
            reason = f"different: at {_sizes(params)} {has.name} has {element}, and {lacks.name} has not"
            return Equivalence(False, reason, True, params=params, element=element)
    apart = differences(first.form(name), second.form(other))
    apart_here = [each.elements.intersect_params(context) for each in apart]
    rank = len(a.iterators)
    left = [each for each in apart_here if not each.is_empty()]
    if not left:
        return None
    for elements in left:
        shown = _shown(f, g, names, sets.project_prefix(elements, rank))
        if shown is not None:
            return shown
    raise Unknown(f"{name} is a sum of other products in {f.name} than in {g.name}, which may be equal nevertheless")


def _shown(f: Algorithm, g: Algorithm, names: tuple[str, str], values: isl.Set) -> Equivalence | None:
    """A difference at the smallest sizes of some values, if both algorithms, evaluated, have it."""
    params, _ = _least(values)
    for seed in range(_DRAWN):
        try:
            drawn = arguments(f, {}, params, seed)
            given = {name: _whole(f.inputs[name], value) for name, value in drawn.items()}
            one, other = (evaluate(each, given, params)[name] for each, name in zip((f, g), names, strict=True))
        except TiramisuError:
            return None
        a, b = (np.asarray(each, np.float64) for each in (one, other))
        apart = ~np.isclose(a, b, rtol=_CLEARLY, atol=0.0, equal_nan=True)
        if apart.any():
            index = tuple(int(axis) for axis in np.argwhere(apart)[0])
            element = f"{names[0]}[{', '.join(map(str, index))}]"
            reason = f"at {_sizes(params)} {element} is {one[index]} in {f.name}, and {other[index]} in {g.name}"
            return Equivalence(False, f"different: {reason}, of the same arguments", True, False, params, element)
    return None


def _whole(declared: Input, drawn: Any) -> Any:
    """Drawn floats as small whole numbers, of which sums are exact."""
    if not declared.dtype.is_float or declared.values is not None:
        return drawn
    return np.asarray(np.rint(1 + 8 * np.asarray(drawn, np.float64)).astype(declared.dtype.numpy))[()]


def _least(values: isl.Set) -> tuple[dict[str, int], tuple[int, ...]]:
    params = smallest.smallest_params(values)
    return params, smallest.first(smallest.at(values, params))


def _sizes(params: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "its sizes"


def _paired(f: Algorithm, g: Algorithm) -> list[tuple[str, str]]:
    """The outputs of two algorithms in pairs: by name, or in order. Raises if arguments or outputs do not fit."""
    for one, other in ((f, g), (g, f)):
        if missing := [name for name in one.params if name not in other.params]:
            raise DeclarationError(f"{one.name} has the parameter {missing[0]}, and {other.name} has none of this name")
        for name, declared in one.inputs.items():
            if name not in other.inputs:
                raise DeclarationError(
                    f"{one.name} has the input {name}, and {other.name} has none: both are to have the same inputs"
                )
            if not _is_same(one, declared, other, other.inputs[name]):
                mine, theirs = (
                    f"{each.dtype}[{', '.join(map(str, each.shape))}]" for each in (declared, other.inputs[name])
                )
                raise DeclarationError(f"the input {name} is {mine} in {one.name}, and {theirs} in {other.name}")
        if not one.outputs:
            raise DeclarationError(f"{one.name} has no outputs to compare; name them by f.outputs(..)")
    if set(f.outputs) == set(g.outputs):
        for name in f.outputs:
            _check_rank(f, g, name, name)
        return [(name, name) for name in f.outputs]
    if len(f.outputs) != len(g.outputs):
        raise DeclarationError(
            f"{f.name} has the outputs {', '.join(f.outputs)}, and {g.name} {', '.join(g.outputs)}: give as many"
        )
    pairs = [*zip(f.outputs, g.outputs, strict=True)]
    for name, partner in pairs:
        _check_rank(f, g, name, partner)
    return pairs


def _check_rank(f: Algorithm, g: Algorithm, name: str, partner: str) -> None:
    if len(f.computations[name].iterators) != len(g.computations[partner].iterators):
        raise DeclarationError(f"{name} of {f.name} and {partner} of {g.name} do not have equally many dimensions")


def _is_same(f: Algorithm, one: Input, g: Algorithm, other: Input) -> bool:
    """Whether two inputs have the same type and, at all sizes for which both algorithms are defined, the same shape."""
    if one.dtype != other.dtype or len(one.shape) != len(other.shape):
        return False
    context = f.context.intersect(sets.in_context(g.context, f.isl_context))
    reader = Affine(f.param_space.add_unnamed_tuple_ui(0), {})
    for a, b in zip(one.shape, other.shape, strict=True):
        apart = sets.as_set(reader.value(a).ne_set(reader.value(b))).params()
        if not apart.intersect(context).is_empty():
            return False
    return True
