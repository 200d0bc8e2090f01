"""Variables whose readers turn out to be never executed are not declared, about which compilers warn."""

from __future__ import annotations

import re

import numpy as np

import tiramisu_py as tm

(N,), i = tm.params("N"), tm.iters("i j")[0]


def test_a_first_iteration_that_reads_nothing_declares_nothing() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N + 1])
    p = f.computation("p", {i: (1, N + 2)}, a[i - 1])
    q = f.computation("q", {i: N + 1}, lambda q: tm.select(i < 1, p[i + 1], q[i - 1] + p[i + 1]))
    f.outputs(q)
    step = tm.vjp(f).step
    step["d_p"].compute_at(step["d_a"], i)
    step["d_p"].after(step["d_q_2"], i)
    text = step.source()["f_step.c"]
    declared = re.findall(r"^ *double (d_p\w*) = ", text, re.M)
    assert declared and all(len(re.findall(rf"\b{name}\b", text)) > 1 for name in declared)
    found = step.compile()(a=np.arange(4.0), d_q=np.ones(4))[-1]
    np.testing.assert_array_equal(found, [4, 3, 2, 1])
