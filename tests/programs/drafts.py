"""Programs for the tests of the rooms below `function`: algorithms with commands, of which no code is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import islpy as isl

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.declare.declare import declare_computation, declare_input, declare_reduction, declare_scalar
from tiramisu_py.algorithm.domains.domain import parse_context
from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.function.function import Function
from tiramisu_py.function.handles.computations import Computation, Input, Reduction
from tiramisu_py.program.command import Command, Entry
from tiramisu_py.program.initial import initial_program, with_computation, with_input, with_outputs
from tiramisu_py.program.program import Program
from tiramisu_py.proof import Report, check


@dataclass(frozen=True, eq=False)
class ByHand(Command):
    """A change that is no command of the user's, with a text of its own."""

    written: str
    change: Callable[[Program], Program]

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.written

    def applied(self, program: Program) -> Program:
        return self.change(program)


class Draft:
    """What `Function` is, as far as declarations, commands and the proof go."""

    def __init__(self, name: str, params: str = "", assume: Any = None) -> None:
        self.name = name
        self.owner = object()
        context, names = isl.Context(), tuple(params.split())
        algorithm = Algorithm(name, context, names, parse_context(context, names, assume), owner=self.owner)
        self.program = initial_program(algorithm)

    @property
    def algorithm(self) -> Algorithm:
        return self.program.algorithm

    def _refuse_in_group(self, *_: Any) -> None:
        """There are no groups here."""

    def input(self, name: str, dtype: Any, shape: Any, **facts: Any) -> Input:
        declared = declare_input(self.algorithm, name, dtype, shape, owner=self.owner, **facts)
        self.program = with_input(self.program, declared)
        return Input(self, name)  # type: ignore[arg-type]

    def scalar(self, name: str, dtype: Any, **facts: Any) -> Expr:
        declared = declare_scalar(self.algorithm, name, dtype, owner=self.owner, **facts)
        self.program = with_input(self.program, declared)
        return Access(name, (), declared.dtype, self.owner)

    def computation(self, name: str, domain: Any, expr: Any, **options: Any) -> Computation:
        declared = declare_computation(self.algorithm, name, domain, expr, owner=self.owner, **options)
        self.program = with_computation(self.program, declared)
        return Computation(self, name)  # type: ignore[arg-type]

    def reduction(self, name: str, domain: Any, over: Any, op: Any, expr: Any, **options: Any) -> Reduction:
        declared = declare_reduction(self.algorithm, name, domain, over, op, expr, owner=self.owner, **options)
        self.program = with_computation(self.program, declared)
        return Reduction(self, name)  # type: ignore[arg-type]

    def outputs(self, *handles: Computation) -> None:
        self.program = with_outputs(self.program, tuple(handle.name for handle in handles))

    def apply(self, command: Command) -> None:
        """What a command's handle calls."""
        changed = command.applied(self.program)
        assert changed.positions is not None  # orders that contradict each other are refused here
        self.program = changed.after(self.program, Entry(command))

    def change(self, text: str, change: Callable[[Program], Program]) -> None:
        """A step of the history that no command makes: the program is changed by hand."""
        self.apply(ByHand(text, change))

    def check(self) -> Report:
        return check(self.program)


def texts(f: Function) -> tuple[str, ...]:
    """The commands of a function, as the user would write them."""
    return tuple(map(str, f.commands))
