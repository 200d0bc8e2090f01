"""Never N x E: the executions of ten programs over runs, counted by the machine that interprets their loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lower.loops.test_run_counts import (
    COMMANDS,
    PROGRAMS,
    RECOMPUTED,
    SOME,
    F,
    Made,
    given,
    j,
    n,
    p,
    p0,
    p1,
    producers,
    update,
)
from tiramisu_py.algorithm.domains.extents_from_arguments import shape_value
from tiramisu_py.interpret import run
from tiramisu_py.interpret.memory import Array
from tiramisu_py.ir import ArrayArgument
from tiramisu_py.lower.lowering import lower

SIZES = {"N": 9, "E": 24}
N, E = SIZES.values()
ROWS = np.array([0, 0, 13, 14, 14, 14, 19, 19, 21, 24], np.int32)  # empty runs, and one of half of all positions
COLUMN = np.array([3, 1, 3, 0, 3, 8, 3, 3, 2, 3, 1, 3, 5, 3, 3, 0, 3, 8, 3, 3, 3, 7, 3, 3], np.int32)
INTO = tm.inverse(COLUMN, N)
#: Executions of each statement that goes through runs: one for a position, or a few where it has features.
EXECUTIONS: dict[str, dict[str, int]] = {
    "typed_product": {"y_init": E * F, "y_update": E * F * F},
    "scaled": {"y": E},
    "product_with_vector": {"y_init": N, "y_update": E},
    "product_with_matrix": {"y_init": N * F, "y_update": E * F},
    "sampled_product": {"y_init": E, "y_update": E * F},
    "softmax": {"top_init": N, "top_update": E, "e": E, "total_init": N, "total_update": E, "y": E},
    "scattered": {"v": E, "y_init": N, "y_update": E},
    "scattered_by_runs": {"y_init": N, "y_update": E},
    "gathered": {"y_init": N, "y_update": E},
    "attention": {
        "msg_init": E * F, "msg_update": E * F * F, "att_init": E, "att_update": E * F, "e": E,
        "y_init": N * F, "y_update": E * F,
    },
}  # fmt: skip
#: Commands for the machine alone, which knows kernels and vectors, too.
MORE: dict[str, Callable[[tm.Function, Any], Any]] = {
    "reorder": lambda f, y: update(y).reorder(p, n),
    "accumulate": lambda f, y: y.accumulate("total"),
    "inline": lambda f, y: [each.inline() for each in producers(f, y)],
    "coalesce on threads": lambda f, y: update(y).coalesce(n, p, into=j).parallelize(j),
    "tag_gpu by positions": lambda f, y: (
        update(y).coalesce(n, p, into=j).split(j, 8, p0, p1).tag_gpu([p0], [p1]), f.derive_transfers()),
    "tag_gpu by runs": lambda f, y: (y.tag_gpu([n], []), f.derive_transfers()),
}  # fmt: skip


def executions(f: tm.Function, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the machine executes each statement of a lowered function; a lane is one execution."""
    found: Counter[str] = Counter()
    inner = Array.write

    def write(array: Array, indices: Any, value: Any, where: str) -> None:
        found[where] += int(np.broadcast(*indices).size) if indices else 1
        inner(array, indices, value, where)

    function = lower(f.completed)
    known = {"rows": ROWS, "column": COLUMN, "into_start": INTO[0], "into_order": INTO[1]}
    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for each in function.arguments:
        if isinstance(each, ArrayArgument):
            shape = shape_value(each.extents, SIZES)
            arrays[each.name] = known.get(each.name, draw.random(shape).astype(each.dtype.numpy)).copy()
    with monkeypatch.context() as patched:
        patched.setattr(Array, "write", write)
        run(function, arrays, SIZES, seed=1)
    return found


def expected_sums(expected: dict[str, int], found: Counter[str]) -> list[str]:
    """Reductions that are copies of another one's sums now."""
    names = [name.removesuffix("_update") for name in expected if name.endswith("_update")]
    return [name for name in names if name in found and found[name] == expected[f"{name}_init"]]


@pytest.mark.parametrize("command", [*COMMANDS, *MORE])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_a_position_is_executed_once(
    program: Callable[[], Made], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = EXECUTIONS[program.__name__]
    scheduled = given(program, {**COMMANDS, **MORE}[command])
    if scheduled is None:
        assert command in (*SOME, *MORE)
        return
    f, _ = scheduled
    report = f.check()
    assert report.ok or {each.kind for each in report.violations} <= {"race"}, report
    if not report.ok or (program.__name__, command) in RECOMPUTED:
        return
    found = executions(f, monkeypatch)
    if command == "accumulate":  # the sums are another statement's, and stored once
        assert (found["total_init"], found["total_update"]) == next(
            (expected[f"{name}_init"], expected[f"{name}_update"]) for name in expected_sums(expected, found)
        )
        return
    assert {name: found[name] for name in expected} == expected
    assert max(found.values()) <= max(expected.values())
