"""Both halves of a collective exchange become one call, which every rank executes; a broadcast is seen as one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tiramisu_py as tm
from tests.programs.ranks.collectives import all_to_all, broadcasts, c, gathered, k, p, panels, q, r, transposed
from tiramisu_py.backends import emit
from tiramisu_py.ir import Collective, For, If, Node, Post
from tiramisu_py.ir.rewriting import children, walk
from tiramisu_py.lower.lowering import lower


def calls(f: tm.Function) -> list[Collective]:
    body = lower(f.completed).body
    assert not any(isinstance(node, Post) for node in walk(body))
    return [node for node in walk(body) if isinstance(node, Collective)]


def around(node: Node, outside: tuple[Node, ...] = ()) -> Iterator[tuple[Node, ...]]:
    """What is around each call."""
    if isinstance(node, Collective):
        yield outside
    for child in children(node):
        yield from around(child, (*outside, node))


def test_all_to_all_is_one_call_outside_of_all_that_depends_on_the_rank() -> None:
    f, b, _ = transposed()
    all_to_all(f, b).collapse_many(r, c)
    (call,) = calls(f)
    assert (call.root, call.source, call.target, call.statement) == (None, "b", "b", "x")
    (outside,) = around(f.show("lowered").body)
    assert not any(isinstance(node, For | If) for node in outside)


def test_one_rank_needs_no_call() -> None:
    f, b, _ = transposed(1)
    all_to_all(f, b, 1)
    assert not calls(f)


def test_elements_that_nobody_collapsed_are_boxes_too() -> None:
    texts = []
    for packed in (True, False):
        f, b, _ = transposed()
        x = all_to_all(f, b)
        if packed:
            x.collapse_many(r, c)
        texts.append(f.show("pseudocode"))
    assert texts[0] == texts[1]


def test_a_broadcast_from_another_rank_in_each_step() -> None:
    f, b, _ = panels()
    x = broadcasts(f, b)
    f.order(x.send, x.recv, at=k)
    (call,) = calls(f)
    assert str(call.root) == "k"
    (outside,) = around(f.show("lowered").body)
    assert [node.variable for node in outside if isinstance(node, For)] == ["k"]


def test_other_values_for_each_rank_are_no_broadcast() -> None:
    f, b, _ = gathered()
    f.create_exchange(
        b[r], send=({q: 1, p: (1, 3), r: 2}, r == p - 1), to=p, recv=({q: (1, 3), r: 2}, r == q - 1), source=0,
        collective=True, name="x",
    )  # fmt: skip
    (call,) = calls(f)
    assert call.root is None


def test_a_rank_that_gets_nothing_is_no_broadcast() -> None:
    f, b, _ = gathered()
    f.create_exchange(
        b[r], send={q: 1, p: (1, 2), r: 2}, to=p, recv={q: (1, 2), r: 2}, source=0, collective=True, name="x"
    )
    (call,) = calls(f)
    assert call.root is None


@pytest.mark.parametrize("name, one", [("MPI_Bcast", True), ("MPI_Alltoallw", False)])
def test_the_source_has_its_runtime_only_where_it_is_needed(name: str, one: bool) -> None:
    f, b, _ = panels() if one else transposed()
    if one:
        x = broadcasts(f, b)
        f.order(x.send, x.recv, at=k)
    else:
        all_to_all(f, b)
    files = emit(f.show("lowered"))
    word = "tm_mpi_broadcast(" if one else "tm_mpi_exchange("
    assert word in files[f"{f.name}.c"] and name in files["tm_mpi_collectives.h"]
    g, _, _ = transposed()
    g.derive_transfers()
    assert "tm_mpi_collectives.h" not in emit(g.show("lowered"))
