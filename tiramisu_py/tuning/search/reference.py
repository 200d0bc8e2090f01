"""Results of a right kernel: computed once, and compared with the outputs of every kernel that is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tiramisu_py import DeviceArray, Function, Iter
from tiramisu_py.errors import ArgumentError, CommandError, LegalityError, TuningError
from tiramisu_py.queries import Algorithm, Call, Counter, TupleType, walk
from tiramisu_py.tuning.search.workload import Case

Array = npt.NDArray[Any]

#: Up to this number of instances `evaluate` gives the values, which takes seconds; beyond it, a compiled program.
EVALUATED = 2**22
#: Operators whose result does not depend on the order of terms, not even in its last bit.
_ORDERLESS = ("min", "max", "logical_and", "logical_or", "argmin", "argmax")


class Reference:
    """The expected outputs of each case, computed when they are first asked for.

    `verify` is True (the values of the algorithm: `evaluate()`, or for large sizes a program with hardly a schedule,
    compiled), a function of the arguments, the outputs of a single case, or False: nothing is compared.
    """

    def __init__(self, verify: object, cases: Sequence[Case], options: Mapping[str, Any]) -> None:
        if not isinstance(verify, bool) and not callable(verify) and len(cases) > 1:
            raise ArgumentError("verify= has the outputs of one case: for several sizes, give a function of arguments")
        self._verify = verify
        self._cases = cases
        self._options = options
        self._exact = verify is True and not options.get("fast") and is_exact(cases[0].algorithm)
        self._known: dict[int, tuple[Array, ...]] = {}

    def require_right(self, number: int, results: Sequence[Any], what: str) -> None:
        """Compares the outputs of a case with what is expected; raises `TuningError`, with the first difference."""
        if self._verify is False:
            return
        if number not in self._known:
            self._known[number] = self._expected(self._cases[number])
        case = self._cases[number]
        for name, got, expected in zip(case.algorithm.outputs, results, self._known[number], strict=True):
            held = np.asarray(got.get() if isinstance(got, DeviceArray) else got)
            fault = difference(held, expected, self._exact)
            if fault:
                sizes = ", ".join(f"{size} = {value}" for size, value in case.params.items())
                raise TuningError(f"{what} computes wrong values: {name}{fault} at {sizes or 'the given arguments'}")

    def _expected(self, case: Case) -> tuple[Array, ...]:
        found = self._computed(case)
        listed = (found,) if len(case.algorithm.outputs) == 1 and not isinstance(found, tuple | list) else tuple(found)
        if len(listed) != len(case.algorithm.outputs):
            names = ", ".join(case.algorithm.outputs)
            raise ArgumentError(f"verify= has {len(listed)} outputs: give {names}, in order")
        return tuple(np.array(each.get() if isinstance(each, DeviceArray) else each) for each in listed)

    def _computed(self, case: Case) -> Any:
        if callable(self._verify):
            return self._verify(**case.arguments(written=case.inputs))
        if self._verify is not True:
            return self._verify
        plain = Function.of(case.algorithm)
        arguments = case.arguments()
        on_host = not any(isinstance(given, DeviceArray) for given in arguments.values())
        statements = plain.program.statements
        if not on_host or Counter(plain.program).instances(statements, case.params) <= EVALUATED:
            return plain.evaluate(**{name: _on_host(given) for name, given in arguments.items()})
        swift = with_rows_innermost(case.algorithm) if on_host else plain
        return swift.compile(**self._options)(**arguments)


def with_rows_innermost(algorithm: Algorithm) -> Function:
    """The program with the loops over terms of each sum outside its last own loop, and with threads, where this is
    legal. Otherwise the terms of one element come one after another, which for a large product takes minutes.
    """
    f = Function.of(algorithm)
    for name, declared in algorithm.computations.items():
        own, over = ([Iter(each) for each in names] for names in (declared.iterators, declared.over))
        handle = f[name].update if over else f[name]
        if len(own) > 1 and over:
            _applied(f, handle.reorder, *own[:-1], *over, own[-1])
        if own:
            _applied(f, handle.parallelize, own[0])
    return f


def _applied(f: Function, command: Callable[..., object], *loops: Iter) -> None:
    """Applies a command if the program stays legal."""
    before = len(f.commands)
    with suppress(CommandError, LegalityError):
        command(*loops)
    if len(f.commands) > before and not f.check().ok:
        f.undo()


def is_exact(algorithm: Algorithm) -> bool:
    """Whether a right kernel has the bits of `evaluate()`: it has unless numbers with a binary point are summed, in an
    order that is free, or a mathematical function is called.
    """
    for declared in algorithm.computations.values():
        is_free = declared.op is not None and not declared.in_order and declared.op.own_name not in _ORDERLESS
        own = declared.dtype.fields if isinstance(declared.dtype, TupleType) else (("", declared.dtype),)
        if is_free and any(dtype.is_float for _, dtype in own):
            return False
        if any(isinstance(node, Call) for node in walk(declared.expr)):
            return False
    return True


def difference(got: Array, expected: Array, exact: bool = False) -> str:
    """The first difference of two arrays in words; empty if they are equal: `exact`, or for numbers with a binary point
    up to the rounding of a long sum, the root of the type's precision relative to the largest element.
    """
    if got.shape != expected.shape:
        return f" has the shape {got.shape}, not {expected.shape}"
    if not got.size:
        return ""
    wrong = _differs(got, expected, exact)
    if not wrong.any():
        return ""
    first = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    index = f"[{', '.join(str(int(k)) for k in first)}]" if wrong.ndim else ""
    return f"{index} is {got[first]}, not {expected[first]} ({int(wrong.sum())} of {wrong.size} elements differ)"


def _differs(got: Array, expected: Array, exact: bool) -> Array:
    if not _has_fractions(got.dtype):
        return np.asarray(got != expected)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if exact:
        return np.asarray(~same)
    mine, theirs = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(theirs)
    slack = float(np.sqrt(float(_limits(got.dtype).eps))) * float(np.max(np.abs(theirs[finite]), initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(mine - theirs) <= slack
    return np.asarray(~np.where(finite, near, same))


def _limits(dtype: np.dtype[Any]) -> Any:
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def _has_fractions(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16)


def _on_host(given: Any) -> Any:
    return given.get() if isinstance(given, DeviceArray) else given
