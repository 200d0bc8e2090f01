"""The C code for `place`: temporaries in their own pages, under a memory policy."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.backends.c.expressions.parentheses import call
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.ir import Allocate, LoopFunction
from tiramisu_py.ir.rewriting import of_kind
from tiramisu_py.program.machine.pages import Pages, Policy

RUNTIME = "tm_numa.h"
#: The attribute of a pointer whose pages are released at the end of its C block.
RELEASED = "TM_PAGES"


def placed(function: LoopFunction) -> Iterator[Allocate]:
    """The temporaries of a function that have a memory policy, each once."""
    seen: set[str] = set()
    for node in of_kind(function.body, Allocate):
        if node.pages is not None and not node.register and node.buffer not in seen:
            seen.add(node.buffer)
            yield node


def runtime(function: LoopFunction) -> tuple[RuntimeFile, ...]:
    """The header that a function with such temporaries includes."""
    if not any(placed(function)):
        return ()
    return packaged("c", RUNTIME)


def memory(pages: Pages, size: str) -> str:
    """The call that returns fresh pages for `size` bytes."""
    return call("tm_map_pages", size, f"TM_PAGES_{pages.policy.name}", str(pages.node or 0)).text


def bound(function: LoopFunction) -> list[tuple[str, int]]:
    """The temporaries that are bound to a memory node, each with its node."""
    return [
        (node.buffer, node.pages.node)
        for node in placed(function)
        if node.pages is not None and node.pages.policy is Policy.BIND and node.pages.node is not None
    ]
