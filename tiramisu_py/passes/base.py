"""The base of passes: a pass is a value with a name, a picture ``before --> after`` in its docstring, and one method.

A pass rewrites a whole function (`FunctionPass`) or one nest of its statements (`NestPass`). Both have the same shape:
``apply(what, about)`` returns the replacement and changes nothing in place; `about` holds what a pass may know of the
whole function. The fields of a pass are its options. The pass lists are in `pipeline`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import ClassVar, Generic, TypeVar

from tiramisu_py.algorithm.expressions import Expr, constant
from tiramisu_py.ir import Allocate, Block, Events, LoopFunction, Node, Requests
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.device_boxes import DeviceBox
from tiramisu_py.ir.rewriting import Names
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

T = TypeVar("T")
#: A property of a function's code that holds from some pass on: yields a sentence for each place that violates it.
Property = Callable[[Node], Iterator[str]]


@dataclass(frozen=True, eq=False)
class About:
    """The information that passes have on the function or kernel that they rewrite.

    `taken` are its names, which passes extend by new ones; `facts` hold everywhere in it; `register` is the size of a
    vector register in bytes; `threads` is the shape of a kernel's blocks. Right after lowering, `params` are the names
    that code may use as parameters, `definitions` the values of the parameters that differ between ranks, and `boxes`
    the part of each array that a GPU holds.
    """

    taken: Names
    facts: Facts = field(default_factory=Facts)
    register: int = 64
    threads: tuple[int, int, int] | None = None
    params: tuple[str, ...] = ()
    definitions: Mapping[str, Expr] = field(default_factory=dict)
    boxes: Mapping[str, DeviceBox] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass(ABC, Generic[T]):
    """A rewriting of a function's code that preserves its results.

    `after` distinguishes two passes of one kind in a list: the name of the pass before. `ensures` are the properties
    that the code has after the pass and every later one (see `properties`).
    """

    after: str = ""
    ensures: ClassVar[tuple[Property, ...]] = ()

    @property
    def name(self) -> str:
        """``count_steps`` for `CountSteps`; ``simplify_after_unroll`` for ``Simplify(after="unroll")``."""
        own = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return f"{own}_after_{self.after}" if self.after else own

    @abstractmethod
    def apply(self, what: T, about: About) -> T:
        """The replacement of a function, or of a nest."""


class FunctionPass(Pass[LoopFunction]):
    """A pass over a whole function, with its kernels."""


class NestPass(Pass[Node]):
    """A pass over one nest of a function or kernel: a statement outside of all loops.

    Nests are rewritten one by one, so that the cost of a pass is linear in their number, not quadratic.
    """


def around_nests(node: Node) -> bool:
    """Whether a statement outside of all loops is only a container of nests: a sequence, or a large buffer's scope.

    A buffer that may become variables is part of its nest.
    """
    if isinstance(node, Allocate):
        small = node.register or node.memory is Memory.SHARED
        return not small and any(constant(extent) is None for extent in node.extents)
    return isinstance(node, Block | Events | Requests)
