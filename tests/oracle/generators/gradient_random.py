"""Random programs that are differentiated: the step of an algorithm of float64, and random commands."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.oracle.generators.group_random import Groups
from tests.oracle.generators.random_algorithms import Algorithms
from tests.oracle.generators.random_programs import Commands
from tests.oracle.generators.script import Script, Seed, choices

#: How terms become one expression; the derivatives of all are whole numbers where their operands are.
FORMS = (
    "{} + {}", "{} - {}", "({}) * ({})", "({}) * ({})", "tm.minimum({}, {})", "tm.maximum({}, {})", "2 * ({}) + {}",
    "tm.select({} > 0, {}, 1.0)", "abs({}) - {}", "tm.clip({}, -1.0, {})",
)  # fmt: skip


class _Polynomials:
    """Makes expressions of products, choices and ends."""

    choice: random.Random

    def _joined(self, terms: Sequence[str]) -> str:
        text = terms[0]
        for term in terms[1:]:
            text = self.choice.choice(FORMS).format(text, term)
        return text


class Smooth(_Polynomials, Algorithms):
    """Algorithms of float64."""


class SmoothGroups(_Polynomials, Groups):
    """Algorithms of float64 of which some computations read each other."""


def random_gradient_script(seed: Seed) -> Script:
    """The step of a random algorithm that is right, and up to four commands; the same for the same seed."""
    choice = choices(seed)
    while True:
        algorithms = choice.choice((Smooth, Smooth, SmoothGroups))(choice)
        algorithms.dtype = "float64"
        script = algorithms.written()
        if script.function.check().ok:
            break
    for line in ("whole = f", "g = tm.vjp(whole)", "f = g.step"):
        script.do(line)
    script.declared()
    return Commands(choice, script).write(choice.choice((0, 0, 1, 2, 3, 4)))
