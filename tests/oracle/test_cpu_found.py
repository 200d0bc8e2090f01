"""Programs for cores that were proven and computed something else, or failed in another way, made small."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tests.oracle.agreeing.agreement import Call
from tests.oracle.generators.script import Script
from tests.oracle.judges.cpu_judge import judged
from tests.oracle.judges.judge import sizes
from tiramisu_py.lower import lower
from tiramisu_py.passes import optimise

HEAD = """N, = tm.params('N')
i, j, k, t, x0, x1, i0 = tm.iters('i j k t x0 x1 i0')
f = tm.Function('f', params=[N], assume='N >= 0')
a = f.input('a', tm.int32, [N + 4])"""

#: Accepted, and right: the text after `HEAD`.
RIGHT = {
    "a window of registers moves on before anything is in it": """
p = f.computation('p', {i: N + 4}, a[i])
q = f.computation('q', {i: N + 2}, p[i] + p[i + 2])
r = f.computation('r', {i: N}, q[i] + q[i + 1] + q[i + 2])
f.outputs(r)
r.split(i, 4, x0, x1)
r.vectorize(x1, 4, remainder='mask')
q.compute_at(r, x0).slide(x0, i, 4).vectorize(i, 4, remainder='mask').store_in(tm.REGISTER)
p.compute_at(q, x0).slide(x0, i, 4).vectorize(i, 4, remainder='mask').store_in(tm.REGISTER)""",
    "iterations that are combined never run twice": """
p = f.reduction('p', {i: 1}, {k: N}, tm.sum, a[k])
f.outputs(p)
p.update.vectorize(k, 4, combine=tm.PRIVATE, remainder='overlap')""",
    "a start that vectors overlap is whole before its sum begins": """
p = f.reduction('p', {i: N}, {k: 3}, tm.sum, a[i + k])
f.outputs(p)
p.init.vectorize(i, 4, remainder='overlap')""",
    "a part without an instance reads a buffer of other loops": """
p = f.computation('p', {i: (1, N + 2)}, a[i - 1])
q = f.computation('q', {i: (1, N + 1)}, tm.select(i < N - 1, p[i], p[i + 1]))
f.outputs(q)
q_0, q_1 = q.separate_at(i, [1])
q_1.split(i, 2, x0, x1)
p.compute_at(q_1, x1)""",
}

#: Refused, for a reason that the judge confirms.
WRONG = {
    "vectors that overlap repeat an update in place": """
p = f.computation('p', {i: N}, a[i])
q = f.computation('q', {i: N}, 2 * p[i])
r = f.computation('r', {i: N}, q[i])
f.outputs(r)
q.store_in(p, [i])
q.vectorize(i, 4, remainder='overlap')""",
    "vectors that overlap add terms twice": """
p = f.reduction('p', {i: N}, {k: 3}, tm.sum, a[i + k])
f.outputs(p)
p.update.vectorize(i, 4, remainder='overlap')""",
    "a window is read by loops that come after it": """
p = f.computation('p', {i: N + 2}, a[i])
q = f.computation('q', {i: N}, p[i] + p[i + 2])
r = f.computation('r', {i: N}, q[i] + p[i])
f.outputs(r)
p.compute_at(q, i).slide(i)""",
    "a window slides along iterations that threads share": """
p = f.computation('p', {i: N + 2}, a[i])
q = f.computation('q', {i: N}, p[i] + p[i + 2])
f.outputs(q)
p.compute_at(q, i).slide(i)
q.parallelize(i)""",
    "a window slides the other way": """
p = f.computation('p', {i: N + 2}, a[i])
q = f.computation('q', {i: N}, p[i] + p[i + 2])
f.outputs(q)
p.compute_at(q, i).slide(i)
q.reverse(i)""",
}

#: Commands that say what is wrong with them; they failed inside instead.
REFUSED = {
    "p.split(i, 2, x0, x1, origin=N)": "origin is N: give an integer",
    "p.compute_at(q, i).slide(i, origin=N)": "origin is N: give an integer",
    "p.time_tile(i, 2, {j: 4}, origin=N)": "origin is N: give an integer",
    "p.prefetch(a, i, 4, locality=N)": "locality=N: choose 0",
    "q.prefetch(p, i, 8)": "which are not loaded ahead of time",
}
READERS = """
at = f.input('at', tm.int32, [N], values=(0, N))
p = f.computation('p', {i: N + 2}, a[i])
q = f.computation('q', {i: N}, p[at[i]])
f.outputs(q)"""


def script(text: str) -> Script:
    made = Script()
    for line in (HEAD + text).splitlines():
        made.do(line)
    return made


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_proven_and_their_loops_are_right(name: str) -> None:
    program = script(RIGHT[name])
    report = program.function.check()
    assert report.ok, report
    loops = lower(program.function.completed)
    all_loops = (loops, optimise(loops), optimise(loops, 16))
    for params in sizes(program.program, 9):
        assert not judged(program, params)
        call = Call(program, params, 1)
        for function in all_loops:
            assert not call.wrong_loops(function)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(name: str) -> None:
    program = script(WRONG[name])
    violation = program.function.check().violations[0]
    assert judged(program, violation.witness.params), violation


@pytest.mark.parametrize("command", REFUSED)
def test_commands_say_what_is_wrong(command: str) -> None:
    made = script(READERS)
    with pytest.raises(tm.CommandError, match=REFUSED[command]):
        made.do(command)


def test_a_computation_in_several_places_is_folded_in_none() -> None:
    made = script("""
p = f.computation('p', {t: 4, i: N}, lambda p: tm.select((t < 1) | (i < 1), a[i], p[t - 1, i] + p[t - 1, i - 1]))
f.outputs(p[3, i])
p.time_tile(t, 2, {i: 4}, [x0, i0])""")
    with pytest.raises(tm.CommandError, match="p is kept in several places: p, p_tile"):
        made.do("p.fold(i, 2)")


def test_versions_of_large_tiles_are_refused_before_they_are_made() -> None:
    made = script("""
p = f.computation('p', {i: N}, a[i] + a[i + 1])
f.outputs(p)
p.split(i, 5000, x0, x1)
p.unroll(x1, remainder='specialize')""")
    with pytest.raises(tm.LegalityError, match="unrolling loop x1 of p makes 5,000 statements of it"):
        made.function.source()


def test_what_is_sent_in_a_loop_has_arrived_in_memory_before() -> None:
    """Another process may read the sender's memory, in which stores past the caches are late."""
    (C,) = tm.params("C")
    r, q, k, c = tm.iters("r q k c")
    f = tm.Function("sent", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [4, C, 16])
    bx = f.computation("bx", {r: 4, k: C, c: 16}, image[r, k, c] * 2)
    by = f.computation("by", {r: (1, 4), k: C, c: 16}, bx[r, k, c] + bx[r - 1, k, c], shape=[4, C, 16])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, k, c], rank=r)
    for computation in (bx, by):
        computation.tag_distribute(r)
    bx.vectorize(c, 16)
    bx.store_nontemporal(above=0)
    own, left = {r: 3, q: (r, r + 1), k: C, c: 16}, {r: (1, 4), q: (r - 1, r), k: C, c: 16}
    down = f.create_exchange(bx[q, k, c], send=own, to=r + 1, recv=left, source=r - 1, name="down")
    down.send.interchange(q, k)
    down.send.after(bx, k)
    source = f.source()["sent.c"]
    loop = source[source.index("for (int64_t k") :]
    assert loop.index("TM_STREAM_ALIGNED") < loop.index("TM_STREAMED") < loop.index("TM_SEND")
    assert loop.index("TM_STREAMED") < loop.index("\n  }")
