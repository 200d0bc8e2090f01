"""Properties of loop IR that hold from some pass on; each yields a sentence for each place that violates it.

A pass names the properties that it ensures (`Pass.ensures`); they hold after every later pass, too. Like `verify`,
they are for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiramisu_py.ir import For, Node
from tiramisu_py.ir.rewriting import variables, walk
from tiramisu_py.program.loops import Parallel, TensorLoop, Unroll, Vector


def collapses_together(node: Node) -> Iterator[str]:
    """Collapsed parallel loops are perfectly nested, and no bound of one depends on another."""
    inner = {id(each) for loop in walk(node) if isinstance(loop, For) for each in _collapsed(loop)[1:]}
    for loop in walk(node):
        if not isinstance(loop, For) or not isinstance(loop.tag, Parallel):
            continue
        chain = _collapsed(loop)
        if loop.tag.collapse == 0 and id(loop) not in inner:
            yield f"loop {loop.variable} is marked as collapsed, but no loop around it collapses it"
        if len(chain) < loop.tag.collapse:
            yield f"loop {loop.variable} collapses {loop.tag.collapse} loops, but the nest has {len(chain)}"
        names = {each.variable for each in chain}
        if any(variables(bound) & names for each in chain[1:] for bound in (each.lower, each.upper)):
            yield f"the bounds of loops collapsed with {loop.variable} depend on each other"


def _collapsed(loop: For) -> list[For]:
    """A parallel loop and the loops collapsed with it, outermost first."""
    chain = [loop]
    while isinstance(loop.tag, Parallel) and len(chain) < loop.tag.collapse and isinstance(chain[-1].body, For):
        chain.append(chain[-1].body)
    return chain


def no_tagged_step(node: Node) -> Iterator[str]:
    """Loops to be unrolled or vectorised have step 1."""
    yield from _loops_tagged(node, (Unroll, Vector, TensorLoop), lambda loop: loop.step != 1, "has a step")


def no_unrolled_loop(node: Node) -> Iterator[str]:
    """No loop is left to be unrolled."""
    yield from _loops_tagged(node, (Unroll,), lambda loop: True, "is still to be unrolled")


def no_vector_loop(node: Node) -> Iterator[str]:
    """No loop is left to be vectorised."""
    yield from _loops_tagged(node, (Vector,), lambda loop: True, "is still to be vectorised")


def no_tensor_loop(node: Node) -> Iterator[str]:
    """No loop is left to be run by an instruction on matrices."""
    yield from _loops_tagged(node, (TensorLoop,), lambda loop: True, "is still to be an instruction on matrices")


def _loops_tagged(
    node: Node,
    tags: tuple[type[Unroll] | type[Vector] | type[TensorLoop], ...],
    wrong: Callable[[For], bool],
    said: str,
) -> Iterator[str]:
    for loop in walk(node):
        if isinstance(loop, For) and isinstance(loop.tag, tags) and wrong(loop):
            yield f"loop {loop.variable} {said}"
