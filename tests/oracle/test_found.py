"""Programs that the fuzz found, made small: each was proven and computed something else, or failed in another way."""

from __future__ import annotations

import pytest

from tests.oracle.agreeing.agreement import Call, compared
from tests.oracle.generators.script import Script
from tests.oracle.judges.judge import sizes
from tiramisu_py.lower import lower
from tiramisu_py.passes import optimise

HEAD = """N, = tm.params('N')
i, j, k, y, x0, x1 = tm.iters('i j k y x0 x1')
f = tm.Function('f', params=[N], assume='N >= 0')
a = f.input('a', tm.int64, [N + 2])"""

#: Accepted, and right: the text after `HEAD`.
RIGHT = {
    "the last iteration reads a buffer of its own in another branch": """
q = f.computation('q', {i: (2, N + 1)}, a[i + 1])
r = f.computation('r', {i: (3, N)}, tm.select(i < N - 1, q[i - 1], q[i + 1]))
f.outputs(r)
q.compute_at(r, i)""",
    "the first iteration fills a buffer of its own in another branch": """
p = f.computation('p', {i: (1, N)}, tm.select((i == 0) | (i == 1), a[i - 1], a[N - 1 - i]))
q = f.computation('q', {i: (2, N + 1)}, p[i - 1])
f.outputs(q)
p.compute_at(q, i)""",
    "both the first and the last iteration have branches of their own": """
p = f.computation('p', {i: (1, N)}, tm.select((i == 0) | (i == 1), a[i + 1], a[i - 1]))
q = f.computation('q', {i: (1, N)}, tm.select(i < N - 1, p[i], p[i]))
f.outputs(q)
p.compute_at(q, i)""",
    "a cache is filled in parts": """
p = f.computation('p', {i: (1, N + 2)}, tm.min(tm.min(a[i - 1], a[i]), a[i]))
f.outputs(p)
cache = p.copy(a, [y], at=i, name='cache')
cache_0, cache_1, cache_2 = cache.separate_at(y, [1, N - 1])""",
    "the initialisation of a reduction is separated inside its consumer": """
p = f.reduction('p', {i: N + 1}, {k: 3}, tm.min, 2 * k + a[i])
q = f.computation('q', {i: N + 1}, lambda q: tm.select(i < 2, p[i], q[i - 2] + p[i]))
f.outputs(q)
p.compute_at(q, i)
p_init_0, p_init_1 = p.init.separate_at(i, [1])""",
    "an inlined expression is the producer's own": """
p = f.computation('p', {i: N}, 2 * a[i] + a[i])
q = f.computation('q', {i: N}, p[i])
f.outputs(q)
p.inline()""",
    "an output leaves the buffer of a computation again": """
p = f.computation('p', {i: N}, a[i])
q = f.computation('q', {i: N}, p[N - 1 - i])
f.outputs(q)
q.store_in(p, [i])
q.store_in(a, [i])""",
    "a computation leaves the input's array for one of its own": """
p = f.computation('p', {i: N}, a[i + 1])
q = f.computation('q', {i: N}, p[i])
f.outputs(q)
p.store_in(a, [i])
p.store_in([i])""",
    "lanes gather from buffers of their own": """
q = f.computation('q', {i: (1, N + 1)}, a[i // 2] + a[i - 1])
r = f.computation('r', {i: (1, N - 1)}, tm.min(q[i], q[N - 1 - i]))
f.outputs(r)
q.compute_at(r, i)
r.split(i, 3, x0, x1)
r.vectorize(x1, 2)""",
    "lanes add different numbers of terms": """
p = f.reduction('p', {i: N + 1}, {k: 3}, tm.sum, 3 * k)
f.outputs(p)
p.update.split(k, 2, x0, x1)
p.update.reorder(i, x1, x0)
p.update.vectorize(x1, 2, combine=tm.PRIVATE)""",
    "a vector loop takes every other iteration": """
p = f.reduction('p', {i: N + 1}, {k: 3}, tm.sum, a[i + 1] + k)
q = f.computation('q', {i: N + 1}, tm.select(i % 2 == 0, p[i], a[i]))
f.outputs(q)
q.split(i, 3, x0, x1)
p.compute_at(q, x0)
q.vectorize(x1, 2)""",
    "an unrolled loop takes every other iteration": """
q = f.computation('q', {i: N + 1}, a[i], where=i % 2 == 0)
f.outputs(q)
q.unroll(i, 2)""",
    "a vector loop runs backwards over a cache of an input": """
p = f.computation('p', {i: (0, N + 2)}, tm.select((i == 0) | (i == 1), a[i], a[i // 2]))
f.outputs(p)
p.reverse(i)
cache = p.copy(a, [y], at=i, name='cache')
p.vectorize(i, 2)""",
    "a part without an instance reads a buffer of other loops": """
p = f.computation('p', {i: N}, tm.min(a[i + 1], a[i]))
q = f.computation('q', {i: (1, N)}, p[i] - p[i - 1])
f.outputs(q)
q_0, q_1 = q.separate_at(i, [1])
q_1.split(i, 3, x0, x1)
p.compute_at(q_1, x0)""",
}

#: Refused, for a reason that the judge confirms.
WRONG = {
    "a producer whose array another computation uses is computed elsewhere": """
p = f.computation('p', {i: N}, a[i])
q = f.computation('q', {i: N}, 2 * a[i])
r = f.computation('r', {i: N}, q[i] + p[i])
f.outputs(r)
p.store_in(q, [i])
q.compute_at(r, i)""",
    "a temporary over an element of the caller's array that no output has": """
p = f.computation('p', {i: N}, a[i])
q = f.computation('q', {i: (1, N + 1)}, p[i - 1])
f.outputs(q)
p.store_in(q, [i])""",
}


def script(text: str) -> Script:
    made = Script()
    for line in (HEAD + text).splitlines():
        made.do(line)
    return made


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_proven_and_their_loops_are_right(name: str) -> None:
    program = script(RIGHT[name])
    verdict = compared(program)
    assert verdict.kind == "accepted", verdict
    assert "f.c" in program.function.source()
    loops = lower(program.program)
    both = (loops, optimise(loops))
    for params in sizes(program.program, 8):
        call = Call(program, params, 0)
        for function in both:
            for timing in range(3):
                assert not call.wrong_loops(function, timing)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(name: str) -> None:
    verdict = compared(script(WRONG[name]))
    assert verdict.kind == "refused", verdict
