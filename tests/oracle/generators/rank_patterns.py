"""Patterns of communication, written by hand: rings, trees of one level, swaps, transpositions, pipelines; and
mutations of their scripts: a number changed, a line gone, two operations swapped."""

from __future__ import annotations

import random
import re

import tiramisu_py as tm
from tests.oracle.generators.script import Script, Seed, choices, replayed

_HEAD = """N, = tm.params('N')
i, j, d, e, q, x = tm.iters('i j d e q x')
f = tm.Function('f', params=[N], assume='N >= {least}')
a = f.input('a', tm.int64, [{W}, {J}])
p = f.computation('p', {{i: {W}, j: {J}}}, 2 * a[i, j])
s = f.computation('s', {{i: {W}, j: {J}}}, {expr})
f.outputs(s)"""

#: For each pattern: what s is, what is exchanged, its loops (send, then receive), its ends, who holds a and s.
PATTERNS = {
    "ring": (
        "p[i, j] + p[(i + {B}) % {W}, j]", "p[i, j]",
        "{q: {P}, i: ({B} * q, {B} * q + {B}), j: N}", "(q + {P} - 1) % {P}",
        "'[N] -> { [q, i, j] : 0 <= q < {P} and 0 <= j < N and 0 <= i - {B}*((q + 1) mod {P}) < {B} }'",
        "(q + 1) % {P}", "i // {B}", "i // {B}",
    ),
    "broadcast": (
        "p[i, j] + p[{B}, j]", "p[{B}, j]",
        "'[N] -> { [q, d, j] : q = 1 and 0 <= d < {P} and d != 1 and 0 <= j < N }'", "d",
        "'[N] -> { [q, j] : 0 <= q < {P} and q != 1 and 0 <= j < N }'", "1",
        "i // {B}", "i // {B}",
    ),
    "scatter": (
        "p[i, j]", "a[i, j]",
        "{q: 1, d: (1, {P}), i: ({B} * d, {B} * d + {B}), j: N}", "d",
        "{q: (1, {P}), i: ({B} * q, {B} * q + {B}), j: N}", "0", "0", "i // {B}",
    ),
    "gather": (
        "p[i, j] + 1", "s[i, j]",
        "{q: (1, {P}), i: ({B} * q, {B} * q + {B}), j: N}", "0",
        "{q: 1, d: (1, {P}), i: ({B} * d, {B} * d + {B}), j: N}", "d", "i // {B}", "0",
    ),
    "swap": (
        "p[{W} - 1 - i, j]", "p[i, j]",
        "'[N] -> { [q, i, j] : 0 <= q < {P} and 2*q != {P} - 1 and 0 <= i - {B}*q < {B} and 0 <= j < N }'",
        "{P} - 1 - q",
        "'[N] -> { [q, i, j] : 0 <= q < {P} and 2*q != {P} - 1 and 0 <= i - {B}*({P} - 1 - q) < {B} and 0 <= j < N }'",
        "{P} - 1 - q", "i // {B}", "i // {B}",
    ),
    "transposition": (
        "p[j, i]", "p[i, j]",
        "'[N] -> { [q, d, i, j] : 0 <= q, d < {P} and q != d and 0 <= i - {B}*q < {B} and 0 <= j - {B}*d < {B} }'", "d",
        "'[N] -> { [q, d, i, j] : 0 <= q, d < {P} and q != d and 0 <= i - {B}*d < {B} and 0 <= j - {B}*q < {B} }'", "d",
        "i // {B}", "i // {B}",
    ),
    "pipeline": (
        "lambda s: tm.select(i == 0, p[i, j], s[i - 1, j] + p[i, j])", "s[i, j]",
        "{q: {P} - 1, i: ({B} * q + {B} - 1, {B} * q + {B}), j: N}", "q + 1",
        "{q: (1, {P}), i: ({B} * q - 1, {B} * q), j: N}", "q - 1", "i // {B}", "i // {B}",
    ),
    "everywhere": (
        "p[{W} - 1 - i, j]", "p[i, j]",
        "'[N] -> { [q, d, i, j] : 0 <= q, d < {P} and q != d and 0 <= i - {B}*q < {B} and 0 <= j < N }'", "d",
        "'[N] -> { [q, d, i, j] : 0 <= q, d < {P} and q != d and 0 <= i - {B}*d < {B} and 0 <= j < N }'", "d",
        "i // {B}", "",
    ),
}  # fmt: skip


def _filled(text: str, **values: object) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def _pattern(choice: random.Random) -> Script:
    name = choice.choice(list(PATTERNS))
    ranks, block = choice.choice((1, 2, 2, 3, 4) if name != "broadcast" else (2, 3)), choice.choice((1, 2))
    width = {"B": block, "P": ranks, "W": block * ranks}
    expr, access, send, to, receive, source, held, kept = (_filled(text, **width) for text in PATTERNS[name])
    columns = width["W"] if name == "transposition" else "N"
    script = Script()
    for line in (
        _filled(_HEAD, **width, J=columns, expr=expr, least=choice.choice((0, 1)))
        .replace("{{", "{")
        .replace("}}", "}")
        .splitlines()
    ):
        script.do(line)
    script.declared()
    for stage in ("p", "s") if name != "everywhere" else ("p",):
        script.attempt(f"{stage}.split(i, {block}, q, x)")
        script.attempt(f"{stage}.tag_distribute(q)")
    script.attempt(f"a.distribute_array([i, j], rank={held})")
    if kept:
        script.attempt(f"s.distribute_array([i, j], rank={kept})")
    if choice.random() < 0.3:
        script.attempt(f"f.grid({max(1, ranks + choice.choice((-1, 0, 0, 0, 1)))})")
    first, second = choice.choice((False, True)), choice.choice((False, True))
    mode = choice.choice(("", "", "tm.SYNC", "tm.BUFFERED", "tm.ASYNC"))
    props = ", ".join(x for x in (mode, "tm.NONBLOCK" if first else "") if x)
    script.attempt(
        f"m = f.create_exchange({access}, send={send}, to={to}, recv={receive}, source={source}, send_props=[{props}], "
        f"recv_props=[{'tm.NONBLOCK' if second else ''}], name='m')"
    )
    loops = choice.choice((["j"], ["j"], ["i", "j"], []))
    loops = [loop for loop in loops if loop != "i" or name != "broadcast"]
    if loops:
        script.attempt(f"m.send.collapse_many({', '.join(loops)})")
        script.attempt(f"m.recv.collapse_many({', '.join(loops)})")
    halves = ["m.recv", "m.send"] if second and choice.random() < 0.7 else ["m.send", "m.recv"]
    for half, later in (("send", first), ("recv", second)):
        if later:
            script.attempt(f"{half}_wait = m.{half}.wait()")
            halves.append(f"{half}_wait")
    around = {"scatter": [*halves, "p", "s"], "gather": ["p", "s", *halves]}.get(name, ["p", *halves, "s"])
    if name == "pipeline":
        late = [half for half in halves if "send" in half]
        around = ["p", *(half for half in halves if half not in late), "s", *late]
    script.attempt(f"f.order({', '.join(around)}, at=tm.root)")
    return script


def _mutated(choice: random.Random, script: Script) -> Script:
    """One command changed."""
    lines = list(script.lines)
    at = choice.randrange(script.declarations, len(lines))
    kind = choice.choice(("number", "number", "number", "gone", "swapped", "reversed"))
    if kind == "gone":
        del lines[at]
    elif kind == "reversed":
        lines.append(f"m.{choice.choice(('send', 'recv'))}.reverse({choice.choice('ijqd')})")
    elif kind == "swapped":
        given = re.search(r"f\.order\((.*), at", lines[-1])
        names = given.group(1).split(", ") if given else []
        choice.shuffle(names)
        lines += [f"f.order({', '.join(names)}, at=tm.root)"] if names else []
    else:
        at = next(k for k, line in enumerate(lines) if "create_exchange" in line) if choice.random() < 0.8 else at
        numbers = list(re.finditer(r"\b\d\b", lines[at]))
        if numbers:
            found = choice.choice(numbers)
            changed = max(0, int(found.group()) + choice.choice((-1, 1)))
            lines[at] = lines[at][: found.start()] + str(changed) + lines[at][found.end() :]
    try:
        return replayed(lines, script.declarations)
    except tm.DeclarationError:  # a set that is none any more
        return script


def random_pattern_script(seed: Seed) -> Script:
    """A pattern, or a mutant of one; the same for the same seed."""
    choice = choices(seed)
    script = _pattern(choice)
    for _ in range(choice.choice((0, 0, 1, 1, 2)) if any("create_exchange" in line for line in script.lines) else 0):
        script = _mutated(choice, script)
        if not any("create_exchange" in line for line in script.lines):
            break
    return script
