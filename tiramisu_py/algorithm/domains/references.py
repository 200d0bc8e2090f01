"""The names in an expression, checked against the declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Input
from tiramisu_py.algorithm.domains.affine import LARGEST_LITERAL
from tiramisu_py.algorithm.expressions import Access, Call, Const, Expr, Iter, Param, as_expr, check_single
from tiramisu_py.algorithm.misuse import ManyValues
from tiramisu_py.algorithm.reserved import PARTS
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType
from tiramisu_py.algorithm.words.stages import ForeignFunction, StageCall
from tiramisu_py.errors import DeclarationError, DTypeError
from tiramisu_py.records import dataclass

#: No computations that are being declared.
_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Owner:
    """The identity of a function: shared by its values, different for two functions of one name."""

    name: str


@dataclass(frozen=True)
class SelfReference(ManyValues):
    """The argument of a recurrence's callable: the computation's own values, ``heat[t - 1, i]``."""

    name: str
    dtype: DType
    rank: int
    owner: object = None

    def __str__(self) -> str:
        return self.name

    def __getitem__(self, indices: Any) -> Access:
        return access(self.name, self.dtype, self.rank, indices, self.owner)


def access(source: str, dtype: DType, rank: int, indices: Any, owner: object) -> Access:
    """``source[indices]``; raises `DeclarationError` for the wrong number or kind of indices."""
    listed = indices if isinstance(indices, tuple) else (indices,)
    if len(listed) != rank:
        raise DeclarationError(
            f"{source} has {rank} {'index' if rank == 1 else 'indices'}, {len(listed)} "
            f"{'was' if len(listed) == 1 else 'were'} given: {_written(source, listed)}; write all of them in one pair "
            "of brackets"
        )
    found = tuple(_index(source, listed, position) for position in range(rank))
    return Access(source, found, dtype, owner)


def _index(source: str, indices: tuple[Any, ...], position: int) -> Expr:
    given, written = indices[position], _written(source, indices)
    if isinstance(given, slice) or given is Ellipsis or given is None:
        raise DeclarationError(
            f"index {position} of {written} is a slice: write an iterator, such as i, instead; a range belongs in the "
            "domain"
        )
    if isinstance(given, bool | np.bool_):
        raise DeclarationError(f"index {position} of {written} is a truth value, not an integer")
    try:
        index = as_expr(given)
        check_single(index)
    except (DeclarationError, DTypeError) as error:
        raise DeclarationError(f"index {position} of {written} cannot be used: {error}") from None
    if not index.dtype.is_integer and index.dtype is not ty.unknown:
        raise DeclarationError(
            f"index {position} of {written} is {index.dtype}, not an integer; divide with // or cast to int64"
        )
    large = [node for node in walk(index) if _is_large(node)]
    if large:
        raise DeclarationError(
            f"index {position} of {written} has the literal {large[0]}: index arithmetic is in 64 bits, and takes "
            "literals below 2**31"
        )
    return index


def _is_large(e: Expr) -> bool:
    """Whether a literal is an integer that index arithmetic does not take."""
    return isinstance(e, Const) and not e.dtype.is_float and abs(e.value) >= LARGEST_LITERAL


def _written(source: str, indices: tuple[Any, ...]) -> str:
    return f"{source}[{', '.join(_index_text(index) for index in indices)}]"


def _index_text(index: Any) -> str:
    if isinstance(index, slice):
        return f"{'' if index.start is None else index.start}:{'' if index.stop is None else index.stop}"
    return "..." if index is Ellipsis else str(index)


def check_references(
    algorithm: Algorithm,
    subject: str,
    expression: Expr,
    iterators: Sequence[str],
    owner: object,
    beside: Mapping[str, int] = _NONE,
) -> None:
    """Check that an expression of `subject` uses only declared names; raises `DeclarationError`.

    `beside` has the ranks of computations that are being declared, if the expression may read them.
    """
    for node in walk(expression):
        match node:
            case Iter() if node.name not in iterators:
                _refuse_calls(algorithm, subject, expression)
                raise DeclarationError(
                    f"{subject} uses the iterator {node}, which is not among its iterators "
                    f"({', '.join(iterators) or 'none'}){node.hint}"
                )
            case Param() if node.name not in algorithm.params:
                raise DeclarationError(
                    f"{subject} uses the parameter {node.name}, which {algorithm.name} does not have; "
                    f"add it to params=[{', '.join(algorithm.params)}]"
                )
            case Access():
                _check_access(algorithm, subject, node, owner, beside)
            case Call() if node.extern is not None:
                check_extern(algorithm, subject, node.extern)
            case StageCall():
                _refuse_calls(algorithm, subject, node)


def _refuse_calls(algorithm: Algorithm, subject: str, expression: Expr) -> None:
    """Refuse a call over whole arrays, whose iterators need not be those of `subject`, in an expression."""
    for node in walk(expression):
        if isinstance(node, StageCall):
            raise DeclarationError(
                f"{subject} uses {node.function} in an expression, but it computes whole arrays: declare "
                f"{algorithm.name}.stage(name, domain, {node}), and read its values"
            )


def check_extern(algorithm: Algorithm, subject: str, extern: ForeignFunction) -> None:
    """Refuse an external function whose name is that of the generated one, of its parts, or of another function."""
    name = extern.name
    if name == algorithm.name or (name.startswith(algorithm.name) and name.removeprefix(algorithm.name) in PARTS):
        raise DeclarationError(
            f"{subject} calls the external function {name}, which the function {algorithm.name} defines itself: "
            "give one of them another name"
        )
    for computation in algorithm.computations.values():
        for node in walk(computation.expr):
            other = node.extern if isinstance(node, Call) else node.stage if isinstance(node, StageCall) else None
            if other is not None and other.name == name and other != extern:
                raise DeclarationError(
                    f"{subject} calls another external function {name} than {computation.name} does: give one of them "
                    "another name"
                )


def _check_access(algorithm: Algorithm, subject: str, node: Access, owner: object, beside: Mapping[str, int]) -> None:
    if node.owner is not owner:
        raise DeclarationError(f"{subject} reads {node}, which belongs to another function than {algorithm.name}")
    rank = _rank(algorithm, node.source, beside)
    if rank is None:
        raise DeclarationError(f"{subject} reads {node}, but {node.source} is not declared in {algorithm.name}")
    access(node.source, node.dtype, rank, node.indices, owner)


def _rank(algorithm: Algorithm, source: str, beside: Mapping[str, int]) -> int | None:
    if source in beside:
        return beside[source]
    if source not in algorithm.inputs and source not in algorithm.computations:
        return None
    declared = algorithm.source(source)
    return len(declared.shape) if isinstance(declared, Input) else len(declared.iterators)
