"""The scope at a point of a kernel: names, and the powers of two that divide indices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Unary, constant
from tiramisu_py.backends.c.expressions.scope import NamedArray, Scope
from tiramisu_py.ir import For, KernelFunction, Let, LoopFunction, TreeReduce
from tiramisu_py.ir.arithmetic.facts import facts_of
from tiramisu_py.ir.rewriting import loads, walk
from tiramisu_py.program.loops import AXES
from tiramisu_py.program.machine.gpu_target import CUDA
from tiramisu_py.records import dataclass


@dataclass
class KernelScope(Scope):
    """The names in scope; `divisors` are powers of two known to divide parameters and variables.

    `widest` is the size in bytes of the widest vector that the GPU loads at once; no larger alignment is needed.
    """

    widest: int = CUDA.widest
    divisors: Mapping[str, int] = field(default_factory=dict)

    def enter(self, node: For | Let, lanes: int = 1) -> None:
        """Add the variable of a loop or a definition, and the divisor that follows from it."""
        super().enter(node, lanes)
        if isinstance(node, Let):
            divisor = self.divisor(node.value)
        else:
            divisor = math.gcd(self.divisor(node.lower), node.step, self.widest)
        self.divisors = {**self.divisors, node.variable: divisor}

    def declare(self, name: str, lanes: int = 1) -> None:
        """Add a variable."""
        super().declare(name, lanes)
        self.divisors = {**self.divisors, name: 1}

    def divisor(self, e: Expr) -> int:
        """A power of two, at most `widest`, that divides an index."""
        match e:
            case Const() if not e.dtype.is_float:
                return math.gcd(int(e.value), self.widest)
            case Iter() | Param():
                return self.divisors.get(e.name, 1)
            case Unary() | Cast():
                return self.divisor(e.children()[0]) if e.dtype.is_integer else 1
            case Binary(op="*"):
                return min(self.divisor(e.left) * self.divisor(e.right), self.widest)
            case Binary(op="+" | "-" | "min" | "max" | "^"):
                return math.gcd(self.divisor(e.left), self.divisor(e.right))
            case Binary(op="&") if e.dtype.is_integer:  # the zeros that either of them ends with
                return max(self.divisor(e.left), self.divisor(e.right))
        return 1

    def number(self, unit: str, axis: int) -> str:
        """The variable that holds the number of this block or thread along an axis."""
        name = f"{unit}_{AXES[axis]}"
        while name in self.names.values():
            name += "_"
        return name


def given(kernel: KernelFunction) -> tuple[str, ...]:
    """The names of a kernel's parameters, in order."""
    return (*kernel.params, *(s.name for s in kernel.scalars), *(a.name for a in kernel.arrays))


def of_kernel(function: LoopFunction, kernel: KernelFunction, names: Mapping[str, str]) -> KernelScope:
    """The scope at the start of a kernel's body."""
    scope = KernelScope(names, facts=facts_of(function).nonnegative_variables(kernel.nonnegative))
    mixed = _loads_what_it_writes(kernel)
    for array in kernel.arrays:
        apart = mixed and array.is_constant
        scope.declare_array(array.name, NamedArray(names[array.name], array.dtype, array.extents, apart=apart))
    scope.declared = set(given(kernel))
    scope.widest = kernel.gpu.widest
    scope.divisors = dict(_multiple(condition, scope.widest) for condition, _ in function.preconditions)
    return scope


def _loads_what_it_writes(kernel: KernelFunction) -> bool:
    """Whether an array of a kernel is both loaded and written. Of ``c ? a[i] : b[i]`` compilers make one load, from a
    pointer that they have chosen, and through the read-only cache if `a` is only read; what the kernel has written to
    `b` may be missed there. So `a` is loaded apart.
    """
    written = {array.name for array in kernel.arrays if not array.is_constant}
    trees = (name for node in walk(kernel.body) if isinstance(node, TreeReduce) for name in node.buffers)
    return not written.isdisjoint((*(load.buffer for load in loads(kernel.body)), *trees))


def _multiple(condition: Expr, most: int) -> tuple[str, int]:
    """The parameter in a precondition ``N % 4 == 0``, and the power of two that divides it, at most `most`."""
    match condition:
        case Binary(op="==", left=Binary(op="%", left=Param() as param, right=Const() as by), right=zero):
            if constant(zero) == 0 and constant(by):
                return param.name, math.gcd(int(by.value), most)
    return "", 1
