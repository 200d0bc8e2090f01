"""Random vectors in place: lanes that read what other lanes replace, before or after they do.

One or two computations in the array of the input, of which one may have a loop inside that of the vectors, or choose
between its lanes; then an order of the two in the shared loop, and vectors.
"""

from __future__ import annotations

import random

from tests.oracle.generators.script import Script, Seed, choices

CONDITIONS = ("i % 2 == 0", "i % 2 == 1", "i < 3", "i >= 2", "i % 4 == 3", "a[{at}] > 0")
REMAINDERS = ("scalar", "scalar", "mask", "mask", "pad", "overlap")


def _declared(choice: random.Random) -> Script:
    """A script with its declarations: an array with rows, or without."""
    script, rows = Script(), choice.random() < 0.35
    script.do("N, = tm.params('N')")
    script.do("i, k, i0, i1 = tm.iters('i k i0 i1')")
    script.do("f = tm.Function('f', params=[N])")
    dtype = choice.choice(("int32", "int32", "uint8", "float32", "int64"))
    script.do(f"a = f.input('a', tm.{dtype}, [{'4, ' if rows else ''}N + 4])")

    def read(name: str = "a") -> str:
        if name != "a":
            return f"{name}[{'k, ' if rows else ''}i]"
        row = f"k + {choice.choice((0, 0, 0, 1))}, " if rows else ""
        return f"a[{row}i + {choice.choice((0, 0, 1, 1, 2, 3))}]"

    over = "{k: 3, i: N}" if rows else "{i: N}"
    seldom = choice.random() < 0.15
    names = ("p", "q") if choice.random() < 0.6 else ("p",)
    for name in names:
        body = f"{read()} + {read('p' if name == 'q' and not seldom and choice.random() < 0.5 else 'a')}"
        if choice.random() < 0.5:
            condition = choice.choice(CONDITIONS).format(at="k, i" if rows else "i")
            body = f"tm.select({condition}, {body}, {read()})"
        some = f", where=i % 2 == {choice.choice((0, 1))}" if seldom else ""
        script.do(f"{name} = f.computation('{name}', {over}, {body}{some})")
    script.do(f"f.outputs({', '.join(names)})")
    script.declared()
    return script


def random_lane_script(seed: Seed) -> Script:
    """Random vectors in place; the same for the same seed."""
    choice = choices(seed)
    script = _declared(choice)
    names = [name for name in ("p", "q") if name in script.names]
    rows = "k" in script.program.loop_names(script.program.statements["p"])
    for name in choice.sample(names, choice.choice((1, len(names)))):
        row = f"k + {choice.choice((0, 0, 1))}, " if rows else ""
        script.attempt(f"{name}.store_in(a, [{row}i + {choice.choice((0, 0, 0, 1, 2))}])")
    if rows and choice.random() < 0.8:
        for name in names:
            script.attempt(f"{name}.reorder(i, k)")
    if len(names) > 1 and choice.random() < 0.8:
        first, second = choice.sample(names, 2)
        script.attempt(f"{second}.after({first}, {'i' if not rows or choice.random() < 0.5 else 'k'})")
    loop = "i"
    if choice.random() < 0.2:
        script.attempt(f"p.split(i, {choice.choice((4, 6))}, i0, i1)")
        loop = "i1" if choice.random() < 0.7 else "i0"
    remainder = choice.choice(REMAINDERS)
    own = "" if remainder == "scalar" else f", remainder='{remainder}'"
    for name in names:
        if choice.random() < 0.9:
            script.attempt(f"{name}.vectorize({loop}, {choice.choice((2, 4, 4, 8))}{own})")
    if rows and choice.random() < 0.2:
        script.attempt("p.unroll(k)")
    return script
