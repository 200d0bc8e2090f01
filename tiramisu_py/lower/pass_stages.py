"""A proven program as it is lowered, and after each pass: the loops that a compilation goes through.

Each pass is watched as it works on its nests, so that these are the loops of a compilation, not of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, is_dataclass, replace
from typing import Any, TypeVar

from tiramisu_py.algorithm.expressions import Expr, Iter, Param
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Let, LoopFunction, Node
from tiramisu_py.ir.rewriting import rewrite_expressions
from tiramisu_py.ir.verify import verify
from tiramisu_py.lower.lowering import lower
from tiramisu_py.passes.base import About, FunctionPass, NestPass, Pass, Property
from tiramisu_py.passes.pipeline import PIPELINE, Pipeline, optimise, over_nests
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass

T = TypeVar("T")


class PassFailedError(Exception):
    """A pass raised an exception."""


@dataclass(frozen=True)
class Stage:
    """A function after a pass, and the properties that its own code and its kernels have from then on."""

    name: str
    function: LoopFunction
    of_host: tuple[Property, ...] = ()
    of_kernels: tuple[Property, ...] = ()

    def faults(self) -> Iterator[str]:
        """The rules that this stage breaks."""
        yield from verify(self.function)
        for ensured in self.of_host:
            yield from ensured(self.function.body)
        for ensured in self.of_kernels:
            for kernel in self.function.kernels:
                yield from ensured(kernel.body)


def stages(program: Program, register: int = 64, pipeline: Pipeline = PIPELINE) -> Iterator[Stage]:
    """A proven program as it is lowered, and after each pass; its versions for constant sizes are left out."""
    first, before, after = map(_watched_functions, (pipeline.first, pipeline.before_nests, pipeline.after_nests))
    host, kernel = map(_watched_nests, (pipeline.host, pipeline.kernel))
    plain = replace(lower(program, first), versions=())
    of_host: tuple[Property, ...] = ()
    of_kernels: tuple[Property, ...] = ()
    defined = False
    for position, each in enumerate(first):
        before_it, function, about = each.seen[0]
        if position == 0:
            yield Stage("lowering", _closed(before_it, about.definitions))
        of_host += each.inner.ensures
        defined = defined or each.inner.name == "define_rank_parameters"
        yield Stage(each.inner.name, function if defined else _closed(function, about.definitions), of_host)
    with suppress(CompilerDefect):  # barriers under a condition: `verify` says after which pass they are
        optimise(plain, register, Pipeline(first, before, host, after, kernel))
    function = plain
    for each in before:
        _, function, _ = each.seen[0]
        yield Stage(each.inner.name, function, of_host)
    whole = function.body
    for nest in host:
        of_host += nest.inner.ensures
        function = replace(function, body=over_nests(whole, _in_turn(nest.seen)))
        yield Stage(nest.inner.name, function, of_host)
    for each in after:
        _, function, _ = each.seen[0]
        yield Stage(each.inner.name, function, of_host)
    kernels = function.kernels
    for nest in kernel if kernels else ():
        of_kernels += nest.inner.ensures
        change = _in_turn(nest.seen)
        own = tuple(replace(each, body=over_nests(each.body, change)) for each in kernels)
        function = replace(function, kernels=own)
        yield Stage(f"{nest.inner.name} (kernel)", function, of_host, of_kernels)


@dataclass(frozen=True)
class _WatchedFunction(FunctionPass):
    inner: FunctionPass = field(kw_only=True)
    seen: list[tuple[LoopFunction, LoopFunction, About]] = field(kw_only=True, default_factory=list)

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        result = _attempted(self.inner, what, about)
        self.seen.append((what, result, about))
        return result


@dataclass(frozen=True)
class _WatchedNest(NestPass):
    inner: NestPass = field(kw_only=True)
    seen: list[Node] = field(kw_only=True, default_factory=list)

    def apply(self, what: Node, about: About) -> Node:
        result = _attempted(self.inner, what, about)
        self.seen.append(result)
        return result


def _attempted(inner: Pass[T], what: T, about: About) -> T:
    try:
        return inner.apply(what, about)
    except Exception as error:
        raise PassFailedError(f"{inner.name}: {type(error).__name__}: {error}") from error


def _watched_functions(passes: Sequence[FunctionPass]) -> tuple[_WatchedFunction, ...]:
    return tuple(_WatchedFunction(inner=each) for each in passes)


def _watched_nests(passes: Sequence[NestPass]) -> tuple[_WatchedNest, ...]:
    return tuple(_WatchedNest(inner=each) for each in passes)


def _in_turn(seen: Sequence[Node]) -> Callable[[Node], Node]:
    """A function that returns the recorded results one after another."""
    left = iter(seen)
    return lambda nest: next(left, nest)


def _closed(function: LoopFunction, definitions: Mapping[str, Expr]) -> LoopFunction:
    """A function with the parameters of its rank defined around its body, and nothing folded."""
    if function.grid is None:
        return function

    def variable(e: Expr) -> Expr | None:
        return Iter(e.name, int64) if isinstance(e, Param) and e.name in definitions else None

    body = rewrite_expressions(function.body, variable)
    for name in reversed(list(definitions)):
        body = Let(name, definitions[name], body)
    return replace(function, body=body)


def shape(value: Any) -> Any:
    """Loop IR as nested tuples, which are equal where the IR is."""
    if isinstance(value, Expr):
        return value.key()
    if isinstance(value, tuple):
        return tuple(map(shape, value))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, *(shape(getattr(value, each.name)) for each in fields(value)))
    return value
