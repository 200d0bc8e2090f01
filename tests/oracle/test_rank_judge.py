"""The judge of programs with ranks on programs of which the answer is known."""

from __future__ import annotations

import pytest

from tests.oracle.generators.script import Script
from tests.oracle.judges.judge import kinds
from tests.oracle.judges.rank_judge import judge

HEAD = """N, = tm.params('N')
i, j, q, x, r, c = tm.iters('i j q x r c')
f = tm.Function('f', params=[N], assume='N >= 1')
a = f.input('a', tm.int64, [12])
p = f.computation('p', {i: 12}, 2 * a[i])
s = f.computation('s', {i: (1, 11)}, p[i - 1] + p[i + 1], shape=[12])
f.outputs(s)
a.distribute_array([i], rank=i // 4)
s.distribute_array([i], rank=i // 4)
for computation in (p, s):
    computation.split(i, 4, q, x)
    computation.tag_distribute(q)
"""
DOWN = """down = f.create_exchange(p[i], send={q: (0, 2), i: (4 * q + 3, 4 * q + 4)}, to=q + 1,
    recv={q: (1, 3), i: (4 * q - 1, 4 * q)}, source=q - 1, name='down'%s)
"""
UP = """up = f.create_exchange(p[i], send={q: (1, 3), i: (4 * q, 4 * q + 1)}, to=q - 1,
    recv={q: (0, 2), i: (4 * q + 4, 4 * q + 5)}, source=q + 1, name='up'%s)
"""
BOTH = DOWN % "" + UP % ""
LATER = ", send_props=[tm.ASYNC, tm.NONBLOCK], recv_props=[tm.NONBLOCK]"
NONBLOCKING = DOWN % LATER + UP % LATER

RIGHT = {
    "one after the other": BOTH + "f.order(p, down.send, down.recv, up.send, up.recv, s, at=tm.root)",
    "received first": NONBLOCKING
    + """waits = [half.wait() for half in (down.send, down.recv, up.send, up.recv)]
f.order(p, down.recv, up.recv, down.send, up.send, *waits, s, at=tm.root)""",
    "what is sent is read meanwhile": NONBLOCKING
    + """waits = [half.wait() for half in (down.recv, up.recv)]
late = [half.wait() for half in (down.send, up.send)]
f.order(p, down.recv, up.recv, down.send, up.send, *waits, s, *late, at=tm.root)""",
    "each rank computes all, and keeps its part": """f = tm.Function('f', params=[N], assume='N >= 1')
a = f.input('a', tm.int64, [12])
s = f.computation('s', {i: 12}, 2 * a[i])
f.outputs(s)
s.distribute_array([i], rank=i // 4)
f.grid(3)""",
}

WRONG = {
    "no message": ("", "order"),
    "one halo": (DOWN % "" + "f.order(p, down.send, down.recv, s, at=tm.root)", "order"),
    "no wait": (NONBLOCKING + "f.order(p, down.send, up.send, down.recv, up.recv, s, at=tm.root)", "race"),
    "a ring": (BOTH + "f.order(p, down.send, up.send, down.recv, up.recv, s, at=tm.root)", "deadlock"),
    "too late": (BOTH + "f.order(p, s, down.send, down.recv, up.send, up.recv, at=tm.root)", "order"),
    "nobody receives": (
        BOTH.replace("recv={q: (0, 2)", "recv={q: (0, 1)")
        + "f.order(p, down.send, down.recv, up.send, up.recv, s, at=tm.root)",
        "communication",
    ),
    "the wrong element": (
        BOTH.replace("i: (4 * q - 1, 4 * q)", "i: (4 * q - 2, 4 * q - 1)")
        + "f.order(p, down.send, down.recv, up.send, up.recv, s, at=tm.root)",
        "communication",
    ),
    "the wrong peer": (
        BOTH.replace("source=q - 1", "source=q") + "f.order(p, down.send, down.recv, up.send, up.recv, s, at=tm.root)",
        "communication",
    ),
    "a wait too early": (
        NONBLOCKING
        + """waits = [half.wait() for half in (down.send, down.recv, up.send, up.recv)]
f.order(p, *waits, down.recv, up.recv, down.send, up.send, s, at=tm.root)""",
        "order",
    ),
    "the output is elsewhere": (
        BOTH + "f.order(p, down.send, down.recv, up.send, up.recv, s, at=tm.root)\ns.distribute_array([i], rank=0)",
        "order",
    ),
}

SUM = """f = tm.Function('f', params=[N], assume='N >= 1')
a = f.input('a', tm.int64, [12])
s = f.reduction('s', {i: 2}, {j: 12}, tm.sum, a[j])
t = f.computation('t', {i: 2}, s[i])
f.outputs(t)
a.distribute_array([i], rank=i // 4)
s.update.split(j, 4, q, x)
s.update.reorder(q, i, x)
s.update.tag_distribute(q%s)
"""
TOGETHER = ", combine=tm.PRIVATE"
RIGHT["ranks combine"] = SUM % TOGETHER
WRONG |= {
    "nobody combines": (SUM % "", "reduction"),
    "one rank starts": (SUM % TOGETHER + "s.init.split(i, 2, q, r)\ns.init.tag_distribute(q)", "reduction"),
    "terms are combined in an order that is locked": (
        SUM.replace("a[j]", "a[j], ordered=True") % TOGETHER, "reduction",
    ),
    "read before ranks combine": (SUM % TOGETHER + "t.after(s.update, q)", "reduction"),
}  # fmt: skip


def made(text: str) -> Script:
    script = Script()
    exec(HEAD + text, script.names)
    return script


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_found_right(name: str) -> None:
    assert judge(made(RIGHT[name]).program, {"N": 1}) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_found_wrong(name: str) -> None:
    text, kind = WRONG[name]
    failures = judge(made(text).program, {"N": 1})
    assert kind in kinds(failures), failures
