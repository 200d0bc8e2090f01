"""Policies of a temporary's memory: kept by what comes later, refused where memory has none."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.program.machine.pages import Pages, Policy

i, j, t, i0, i1 = tm.iters("i j t i0 i1")


def pair() -> SimpleNamespace:
    """A temporary p and an output q of it."""
    N = tm.params("N")[0]
    f = tm.Function("pair", params=[N])
    a = f.input("a", tm.float32, [N, 8])
    p = f.computation("p", {i: N, j: 8}, a[i, j] + 1)
    q = f.computation("q", {i: N, j: 8}, p[i, j] * 2)
    f.outputs(q)
    return SimpleNamespace(f=f, N=N, a=a, p=p, q=q)


def pages(s: SimpleNamespace, name: str = "p") -> Pages | None:
    return s.f.program.buffers[s.f.program.storages[name].buffer].pages


def test_a_policy_is_given_by_name_or_as_a_constant_and_logged_as_written():
    s = pair()
    s.p.place("local")
    assert pages(s) == Pages(Policy.LOCAL)
    s.p.place(tm.BIND, node=1)
    assert pages(s) == Pages(Policy.BIND, 1)
    s.p.place(tm.INTERLEAVE)
    assert pages(s) == Pages(Policy.INTERLEAVE)
    texts = [command.text for command in s.f.program.log]
    assert texts == ["p.place('local')", "p.place(tm.BIND, node=1)", "p.place(tm.INTERLEAVE)"]


LATER = {
    "transposed": lambda s: s.p.store_in([j, i]),
    "another buffer": lambda s: s.p.store_in(tm.Buffer("other", [s.N, 8], tm.float32)),
    "host": lambda s: s.p.store_in(tm.HOST),
    "loops": lambda s: (s.p.split(i, 4, i0, i1), s.p.parallelize(i0)),
    "at a loop": lambda s: (s.p.compute_at(s.q, i), s.p.store_at(s.q, i)),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_later_commands_keep_the_policy(later):
    s = pair()
    s.p.place("bind", node=tm.memory_nodes()[0].number)
    later(s)
    assert pages(s) == Pages(Policy.BIND, tm.memory_nodes()[0].number)
    kernel = s.f.compile()
    assert "tm_map_pages(" in kernel.source["pair.c"]
    a = np.random.default_rng(0).random((13, 8), dtype=np.float32)
    np.testing.assert_array_equal(kernel(a), (a + 1) * 2)


@pytest.mark.parametrize("level", [tm.root, i], ids=["root", "row"])
def test_a_copy_of_an_input_can_be_placed_and_the_buffer_of_what_reads_it_is_not(level):
    s = pair()
    copy = s.p.copy(s.a, [i0, i1], at=level, name="copied")
    copy.place("local")
    assert (pages(s, "copied"), pages(s, "p")) == (Pages(Policy.LOCAL), None)
    kernel = s.f.compile()
    assert "const copied = tm_map_pages(" in kernel.source["pair.c"]
    a = np.random.default_rng(0).random((13, 8), dtype=np.float32)
    np.testing.assert_array_equal(kernel(a), (a + 1) * 2)
    with pytest.raises(tm.CommandError, match="in the shared memory of a GPU"):
        copy.store_in("shared")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            lambda s: s.p.place("near"),
            "p.place('near'): 'near' is not a policy of memory: choose one of local, interleave",
        ),
        (lambda s: s.p.place("bind"), 'p.place("bind") needs a memory node: node=0 is the first'),
        (lambda s: s.p.place("bind", node=-1), "node is -1: give an integer of at least 0"),
        (lambda s: s.p.place("local", node=0), 'p.place("local") takes no node'),
        (lambda s: s.q.place("local"), 'q is in the caller\'s array q, whose pages .* kernel.empty("q", ...)'),
        (lambda s: s.a.place("local"), 'a is an input, .* kernel.empty("a", ...)'),
        (lambda s: (s.p.store_in(s.q, [i, j]), s.p.place("local")), "p is in the caller's array q"),
        (lambda s: (s.p.place("local"), s.p.store_in(s.q, [i, j])), "p is in the caller's array q"),
        (lambda s: (s.p.store_in("gpu"), s.p.place("local")), "p is in the memory of a GPU"),
        (lambda s: (s.p.place("local"), s.p.store_in("gpu")), "p is in the memory of a GPU"),
        (lambda s: (s.p.store_in("shared"), s.p.place("local")), "p is in the shared memory of a GPU"),
        (lambda s: (s.p.place("local"), s.p.store_in("register")), "p is in registers: a policy is for ordinary"),
        (lambda s: (s.p.store_in("pinned"), s.p.place("local")), "p is in page-locked memory"),
    ],
)
def test_what_has_no_policy_is_refused(given, words):
    s = pair()
    pattern = words.replace("(", r"\(").replace(")", r"\)").replace("...", r"\.\.\.")
    with pytest.raises(tm.CommandError, match=pattern):
        given(s)


def test_a_refused_policy_changes_nothing():
    s = pair()
    with pytest.raises(tm.CommandError):
        s.q.place("local")
    assert not s.f.program.log


def test_what_is_placed_cannot_become_an_output():
    s = pair()
    s.p.place("local")
    with pytest.raises(tm.DeclarationError, match=r'p is placed \(local\).*kernel.empty\("p", ...\)'):
        s.f.outputs(s.p, s.q, replace=True)


def test_pseudocode_shows_the_policy():
    s = pair()
    s.p.place("interleave")
    assert "allocate p[N, 8] in memory, pages interleave:" in s.f.show("pseudocode")


def test_a_buffer_for_two_takes_one_policy():
    s = pair()
    N = s.N
    other = s.f.computation("other", {i: N, j: 8}, s.a[i, j] - 1)
    more = s.f.computation("more", {i: N, j: 8}, other[i, j] * 3)
    s.f.outputs(s.q, more, replace=True)
    s.p.place("local")
    other.place("interleave")
    with pytest.raises(tm.CommandError, match=r"p is placed \(local\), but other is placed differently \(interleave\)"):
        s.p.store_in(other, [i, j])
