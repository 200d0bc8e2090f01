"""The loops that a compilation goes through: as they are lowered, and after each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tiramisu_py.algorithm.expressions import Expr, Iter, Param
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Let, LoopFunction
from tiramisu_py.ir.rewriting import rewrite_expressions
from tiramisu_py.ir.verify import verify
from tiramisu_py.passes.base import About, NestPass, Pass, Property
from tiramisu_py.passes.pipeline import PIPELINE, Pipeline, optimise
from tiramisu_py.records import dataclass


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
            for kernel in self.function.gpus.kernels:
                yield from ensured(kernel.body)


def stages(
    lowered: Callable[[Pipeline], LoopFunction], register: int = 64, pipeline: Pipeline = PIPELINE
) -> Iterator[Stage]:
    """A program as it is `lowered`, and after each pass of a pipeline; versions for constant sizes are left out.

    Raises `PassFailedError`, after the stages before it, for the pass that fails.
    """
    seen: list[Stage] = []
    of_host: tuple[Property, ...] = ()
    of_kernels: tuple[Property, ...] = ()
    begin_of_kernels = len(pipeline.passes) - len(pipeline.kernel)

    def between(done: Pass[Any] | None, function: LoopFunction, about: About) -> None:
        nonlocal of_host, of_kernels
        name = "lowering" if done is None else done.name
        if len(seen) > begin_of_kernels and isinstance(done, NestPass):
            of_kernels, name = (*of_kernels, *done.ensures), f"{name} (kernel)"
        elif done is not None:
            of_host = (*of_host, *done.ensures)
        if not any(each.name == "define_rank_parameters" for each in seen) and name != "define_rank_parameters":
            function = _closed(function, about.definitions)
        seen.append(Stage(name, function, of_host, of_kernels))

    watched, failed = replace(pipeline, between=between), None
    try:
        whole = lowered(watched)
        optimise(replace(whole, companions=replace(whole.companions, versions=())), register, watched)
    except Exception as error:
        failed = error
    yield from seen
    if failed is None:
        return
    own = pipeline.passes if seen and seen[-1].function.gpus.kernels else pipeline.passes[:begin_of_kernels]
    if len(seen) > len(own) and isinstance(failed, CompilerDefect):
        return  # barriers under a condition: `verify` says after which pass they are
    names = ("lowering", *(each.name for each in own), "what is packed")
    raise PassFailedError(f"{names[len(seen)]}: {type(failed).__name__}: {failed}") from failed


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
