"""Calls of C functions over whole arrays: what `tm.extern_stage` declares, and the expression that a call is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expression_text import Pieces, listed
from tiramisu_py.algorithm.expressions import Access, Expr, ExternFunction, Operand, as_expr, as_typed
from tiramisu_py.algorithm.names import check_callable, check_extern_name, check_name
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import DeclarationError, DTypeError
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass

#: What a C function does with an array.
READS, WRITES, UPDATES = "reads", "writes", "updates"


@dataclass(frozen=True)
class ArrayParameter:
    """A pointer parameter of a C function: to the first element of an array of `rank` dimensions that it `reads`,
    `writes`, or `updates` in place.
    """

    dtype: DType
    rank: int
    does: str

    @property
    def is_stored(self) -> bool:
        """Whether the function stores to the array."""
        return self.does != READS


@dataclass(frozen=True)
class StrideParameter:
    """A parameter of a C function: the distance, in elements, of neighbours along one dimension of an array."""

    array: str
    dimension: int
    dtype: DType = ty.int64


#: A parameter of a C function: a scalar by its type, an array, or a stride.
Parameter = DType | ArrayParameter | StrideParameter


@dataclass(frozen=True)
class ExternStage:
    """A C function over whole arrays that the user supplies, with its Python equivalent for `evaluate()`.

    `parameters` are those of the C function, in order. `python` takes the scalars and the arrays that are read or
    updated, in this order, as numbers and NumPy arrays, and returns the array that is written, or a tuple of
    them. The C function must be pure: it reads and writes these arrays alone, and what it writes depends on its
    arguments alone. `libraries` are linked with the generated code. `adjoint`, if there is one, gives the calls that
    compute the adjoints of what a call reads.
    """

    name: str
    parameters: tuple[tuple[str, Parameter], ...]
    python: Callable[..., Any]
    header: str = ""
    source: str = ""
    libraries: tuple[str, ...] = ()
    adjoint: Callable[..., Any] | None = None

    @property
    def passed(self) -> tuple[tuple[str, DType | ArrayParameter], ...]:
        """The parameters that a call gives: scalars, and arrays that are read or updated."""
        found = [(name, of) for name, of in self.parameters if not isinstance(of, StrideParameter)]
        return tuple((name, of) for name, of in found if not (isinstance(of, ArrayParameter) and of.does == WRITES))

    @property
    def array_parameters(self) -> tuple[tuple[str, ArrayParameter], ...]:
        """The parameters that are arrays."""
        return tuple((name, of) for name, of in self.parameters if isinstance(of, ArrayParameter))

    @property
    def stored(self) -> tuple[tuple[str, ArrayParameter], ...]:
        """The arrays that the function stores to, with their names: all of as many dimensions."""
        return tuple((name, of) for name, of in self.array_parameters if of.is_stored)

    @property
    def result(self) -> DType:
        """The type of a value that it computes: with several arrays, a component in each of them."""
        if len(self.stored) == 1:
            return self.stored[0][1].dtype
        return ty.tuple_type(tuple((name, of.dtype) for name, of in self.stored))

    def strides_of(self, array: str) -> frozenset[int]:
        """The dimensions of an array whose strides the function takes."""
        taken = (of for _, of in self.parameters if isinstance(of, StrideParameter))
        return frozenset(of.dimension for of in taken if of.array == array)

    def __call__(self, *arguments: Operand) -> StageCall:
        names = ", ".join(name for name, _ in self.passed)
        if len(arguments) != len(self.passed):
            given = "1 argument was" if len(arguments) == 1 else f"{len(arguments)} arguments were"
            raise DeclarationError(f"{self.name} takes ({names}), and {given} given")
        pairs = zip(arguments, self.passed, strict=True)
        operands = tuple(_argument(self, given, name, of) for given, (name, of) in pairs)
        return StageCall(self.name, operands, self.result, self)


#: A C function of the user's.
ForeignFunction = ExternFunction | ExternStage


@dataclass(frozen=True, eq=False, repr=False)
class StageCall(Expr, kind="stage", own="function dtype", operands="*arguments"):
    """A call of an `ExternStage`: of each array argument, an access whose iterators say which part is meant."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType
    stage: ExternStage

    def pieces(self) -> Pieces:
        return [f"{self.function}(", *listed(self.arguments), ")"]

    @property
    def arrays(self) -> Iterator[tuple[str, ArrayParameter, Access]]:
        """The arrays that are read or updated, each with its parameter."""
        for given, (name, of) in zip(self.arguments, self.stage.passed, strict=True):
            if isinstance(of, ArrayParameter):
                assert isinstance(given, Access)
                yield name, of, given

    @property
    def scalars(self) -> Iterator[tuple[Expr, DType]]:
        """The other arguments, each with the type that the function takes."""
        for given, (_, of) in zip(self.arguments, self.stage.passed, strict=True):
            if not isinstance(of, ArrayParameter):
                yield given, of

    @property
    def updated(self) -> Access | None:
        """The array that is updated in place, if one is."""
        return next((access for _, of, access in self.arrays if of.is_stored), None)


def _argument(stage: ExternStage, given: Any, name: str, of: DType | ArrayParameter) -> Expr:
    where = f"the argument {name} of {stage.name}"
    if not isinstance(of, ArrayParameter):
        try:
            found = as_expr(given)
            as_typed(found, of)
        except (DeclarationError, DTypeError) as error:
            raise DeclarationError(f"{where} cannot be used: {error}") from None
        if found.dtype != of and (not found.dtype.weak or (found.dtype.is_float and not of.is_float)):
            raise DTypeError(f"{where} is {found}, of {found.dtype}; it takes {of}: write tm.cast(tm.{of}, {found})")
        return found
    if not isinstance(given, Access) or not given.indices:
        raise DeclarationError(
            f"{where} is {given!r}: name the part of an array that it takes by iterators, such as a[i, k]"
        )
    if given.dtype != of.dtype:
        raise DTypeError(f"{where} is {given}, of {given.dtype}: the function takes an array of {of.dtype}")
    return given


# -- declarations


@own_call
def reads(dtype: Any, rank: int) -> ArrayParameter:
    """A parameter of `tm.extern_stage`: an array of `rank` dimensions that the function reads, ``const float *``."""
    return _array(dtype, rank, READS)


@own_call
def writes(dtype: Any, rank: int) -> ArrayParameter:
    """A parameter of `tm.extern_stage`: the array that the function writes, ``float *``; it does not read it."""
    return _array(dtype, rank, WRITES)


@own_call
def updates(dtype: Any, rank: int) -> ArrayParameter:
    """A parameter of `tm.extern_stage`: the array that the function reads and overwrites in place, ``float *``."""
    return _array(dtype, rank, UPDATES)


@own_call
def stride(array: str, dimension: int, dtype: Any = ty.int64) -> StrideParameter:
    """A parameter of `tm.extern_stage`: the distance of neighbours along a `dimension` of the parameter `array`.

    It is counted in elements, as in BLAS: ``stride("a", 0)`` is the leading dimension of a matrix in rows.
    """
    found = ty.as_dtype(dtype)
    if not found.is_integer or found.weak:
        raise DTypeError(f"the stride of {array} is {found}, not an integer")
    return StrideParameter(array, dimension, found)


def _array(dtype: Any, rank: int, does: str) -> ArrayParameter:
    found = ty.as_dtype(dtype)
    if found.weak or isinstance(found, TupleType):
        raise DTypeError(f"tm.{does} takes the type of an element, not {found}")
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise DeclarationError(f"tm.{does}({found}, {rank!r}): give the number of dimensions, 1 at least")
    return ArrayParameter(found, rank, does)


@own_call
def extern_stage(
    name: str,
    parameters: Mapping[str, Any],
    python: Callable[..., Any],
    *,
    header: str = "",
    source: str = "",
    libraries: Sequence[str] = (),
    adjoint: Callable[..., Any] | None = None,
) -> ExternStage:
    """A C function ``void name(parameters)`` over whole arrays, which `f.stage` calls.

    ::

        gemm = tm.extern_stage(
            "gemm",
            {"m": tm.int64, "n": tm.int64, "k": tm.int64, "a": tm.reads(tm.float32, 2), "lda": tm.stride("a", 0),
             "b": tm.reads(tm.float32, 2), "ldb": tm.stride("b", 0), "c": tm.writes(tm.float32, 2),
             "ldc": tm.stride("c", 0)},
            lambda m, n, k, a, b: a @ b, header="<my_gemm.h>", libraries=["my_gemm"])

    `parameters` are those of the C function, in order: a type for a scalar, `tm.reads`, `tm.writes` or `tm.updates` for
    an array, of which the function gets a pointer to the first element, and `tm.stride` for one of its strides. An
    array whose strides it does not take must be contiguous. One array is updated, or one or more of as many dimensions
    are written: then each value has a component in each of them, ``c["q"]`` and ``c["r"]``. `python` takes the scalars
    and the arrays that are read or updated, as NumPy arrays, and returns what is written, of several arrays a tuple.
    `header` is included by the generated source; `source` is C text that is compiled with it; `libraries` are linked,
    ``["openblas"]``.

    With `adjoint` the result has a gradient. It takes the scalars and arrays of a call, the result and its adjoint, and
    returns, for each array that is read or updated, the call that computes its adjoint, by the parameter's name; None
    for an array on which the result does not depend smoothly::

        adjoint=lambda m, n, k, a, b, c, d_c: {"a": gemm_nt(m, k, n, d_c, b), "b": gemm_tn(k, n, m, a, d_c)}

    Raises `DeclarationError`.
    """
    for what, text in (("header", header), ("source", source)):
        if not isinstance(text, str):
            raise DeclarationError(f"{what}= of the external function {name} is {text!r}, not C text")
    check_extern_name(name, source)
    if not isinstance(parameters, Mapping) or not parameters:
        raise DeclarationError(f"the external function {name} takes {parameters!r}; give a dict of names and types")
    if not callable(python):
        raise DeclarationError(f"the external function {name} needs its equivalent in Python, not {python!r}")
    if isinstance(libraries, str) or not all(isinstance(one, str) and one.isprintable() for one in libraries):
        raise DeclarationError(f"libraries= of the external function {name} is {libraries!r}; give a list of names")
    found = tuple(
        (check_name(own, f"a parameter of {name}"), _parameter(name, own, of)) for own, of in parameters.items()
    )
    made = ExternStage(name, found, python, header, source, tuple(libraries), adjoint)
    _check_parameters(made)
    if adjoint is not None:
        _check_adjoint(made)
    return made


def _check_adjoint(stage: ExternStage) -> None:
    """Refuse an adjoint that is no function of a call's arguments, or of a function that stores several arrays."""
    given = ", ".join(name for name, _ in stage.passed)
    how = f"adjoint= of the external function {stage.name} takes {given}, the result and its adjoint"
    check_callable(stage.adjoint, len(stage.passed) + 2, how)
    if len(stage.stored) > 1:
        several = ", ".join(name for name, _ in stage.stored)
        raise DeclarationError(
            f"adjoint= of the external function {stage.name}, which writes {several}: an adjoint is that of one array; "
            "declare a function for each of them"
        )


def _parameter(function: str, name: str, given: Any) -> Parameter:
    if isinstance(given, ArrayParameter | StrideParameter):
        return given
    try:
        found = ty.as_dtype(given)
    except DTypeError as error:
        raise DTypeError(f"the parameter {name} of the external function {function}: {error}") from None
    if found.weak or isinstance(found, TupleType):
        raise DTypeError(f"the parameter {name} of the external function {function} is {found}, no type of C")
    return found


def _check_parameters(stage: ExternStage) -> None:
    arrays = {name: of for name, of in stage.parameters if isinstance(of, ArrayParameter)}
    stored = [name for name, of in arrays.items() if of.is_stored]
    if not stored:
        raise DeclarationError(
            f"the external function {stage.name} stores to none of its arrays: at least one parameter is tm.writes, or "
            "one is tm.updates"
        )
    if len(stored) > 1 and any(arrays[name].does == UPDATES for name in stored):
        raise DeclarationError(
            f"the external function {stage.name} stores to {', '.join(stored)}: an array that it updates in place is "
            "the only one that it stores to"
        )
    if len({arrays[name].rank for name in stored}) > 1:
        ranks = ", ".join(f"{name} of {arrays[name].rank} dimensions" for name in stored)
        raise DeclarationError(
            f"the external function {stage.name} writes {ranks}: each value has a component in each array, so that all "
            "have as many dimensions"
        )
    for name, of in stage.parameters:
        if isinstance(of, StrideParameter) and of.array not in arrays:
            raise DeclarationError(f"{name} of {stage.name} is a stride of {of.array}, which is none of its arrays")
        if isinstance(of, StrideParameter) and not 0 <= of.dimension < arrays[of.array].rank:
            rank = arrays[of.array].rank
            raise DeclarationError(f"{name} of {stage.name} is stride {of.dimension} of {of.array}, which has {rank}")
