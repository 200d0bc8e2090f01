"""Never N x E: the executions of ten programs over runs, counted by the machine that interprets their loops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lower.loops import test_run_counts
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
    n0,
    n1,
    p,
    p0,
    p1,
    producers,
    q,
    update,
)
from tiramisu_py.algorithm.domains.extents_from_arguments import shape_value
from tiramisu_py.interpret import run
from tiramisu_py.interpret.memory import Array
from tiramisu_py.ir import ArrayArgument
from tiramisu_py.lower.lowering import lower

REFERENCE = Path(__file__).parents[2] / "docs/commands.md"
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
        y.coalesce(n, p, into=j).split(j, 8, p0, p1).tag_gpu([p0], [p1]), f.derive_transfers()),
    "transform": lambda f, y: update(y).transform([n, p], [[0, 1], [1, 0]]),
    "set_schedule": lambda f, y: update(y).set_schedule({p0: p // 4, n0: n, p1: p % 4}),
    "separate_at": lambda f, y: update(y).separate_at(p, [3]),
    "separate_at runs": lambda f, y: update(y).separate_at(n, [3]),
    "rfactor": lambda f, y: (y.update.split(p, 4, p0, p1), y.rfactor(p1)),
    "fuse": lambda f, y: update(y).fuse(update(producers(f, y)[0]), n),
    "fetch": lambda f, y: y.fetch(read(f), "fetched"),
    "copy": lambda f, y: update(y).copy(read(f), [q]),
    "prefetch": lambda f, y: update(y).prefetch(read(f), p, 4),
    "store_nontemporal": lambda f, y: y.store_nontemporal(),
    "gpu_tile": lambda f, y: (y.gpu_tile(n, p, 4, 8, n0, p0, n1, p1), f.derive_transfers()),
    "coarsen": lambda f, y: (
        y.coalesce(n, p, into=j).split(j, 8, p0, p1).tag_gpu([p0], [p1]).coarsen(p1, 2, q), f.derive_transfers()),
    "tag_gpu by runs": lambda f, y: (y.tag_gpu([n], []), f.derive_transfers()),
}  # fmt: skip
#: What may be refused of a program under a command: threads that add to one value, a half of a sum on a GPU, a value
#: that is read before all runs have made it.
REFUSED = {"race", "reduction", "order"}
#: Commands that are not counted here, and why. A copy is counted at the root: at a loop over runs it has a box of one
#: size for all of them, which is the whole array, N x E.
ELSEWHERE = {
    "executes fewer: counted by cost in tests/schedule/test_compact.py": ["compact"],
    "executes fewer: counted by cost in tests/schedule/test_sum_first.py": ["sum_first"],
    "multiplies other arrays: counted by cost in tests/schedule/test_reassociate.py": ["reassociate"],
    "makes runs of a loop over positions: tests/schedule/test_in_runs.py": ["in_runs"],
    "is a part of the program gathered, and has an inverse there": ["gather"],
    "gives a name, or says what there is": ["name", "statement_names", "get_update", "band"],
    "puts statements into an order, as fuse does of runs": ["after", "before"],
    "says where values are, and not when they are computed": [
        "store_in", "store_at", "fold", "place", "keep", "replicate", "align",
    ],
    "is of ranks, each of which has runs of its own: tests/derive/ranks/test_messages_in_runs.py": ["tag_distribute"],
    "is of messages and transfers, which are not of positions": ["wait", "offload"],
    "is of tiles of a fixed size, which runs do not have: refused, or of dense loops": [
        "tensorize", "time_tile", "skew_for", "slide", "pipeline", "partition",
    ],
    "is of recurrences over levels, of which runs are none": ["recompute"],
    "follows the last of a sum's terms, which a run does not say": ["reverse_compute_at"],
    "cuts by selects on iterators, which none of the programs has": ["separate_cases"],
}  # fmt: skip


def read(f: tm.Function) -> Any:
    """An array that terms read at their position, or at a place of it."""
    return f[next(name for name in ("a", "x", "h") if name in f.algorithm.inputs)]


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


def by_statement(found: Counter[str]) -> Counter[str]:
    """Executions of what was declared: parts of a statement together, and partial sums as the terms that they are."""
    counted: Counter[str] = Counter()
    for name, count in found.items():
        whole, _, number = name.rpartition("_")
        if f"{name.removesuffix('_update')}_partial_update" in found or name.endswith("_partial_init"):
            continue  # it adds up parts, as many as there are
        counted[whole if number.isdigit() else name.replace("_partial_update", "_update")] += count
    return counted


def test_each_command_is_counted_or_said_why_not() -> None:
    """The commands of the reference are those that are given here, and those of `ELSEWHERE`."""
    every = set(re.findall(r"^### Selection\.(\w+)$", REFERENCE.read_text(), re.MULTILINE))
    sources = (Path(__file__), Path(test_run_counts.__file__))
    given_here = {name for each in sources for name in re.findall(r"\.(\w+)\(", table_of(each))}
    told = {name for names in ELSEWHERE.values() for name in names}
    assert every - given_here == told, (every - given_here) ^ told
    for reason in ELSEWHERE:
        for file in re.findall(r"tests/\S+\.py", reason):
            assert (REFERENCE.parents[1] / file).exists(), file


def table_of(file: Path) -> str:
    """The lines of a file's tables of commands."""
    return "".join(re.findall(r"^(?:COMMANDS|MORE): .*?^}", file.read_text(), re.MULTILINE | re.DOTALL))


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
    assert report.ok or {each.kind for each in report.violations} <= REFUSED, report
    if not report.ok or (program.__name__, command) in RECOMPUTED:
        return
    found = by_statement(executions(f, monkeypatch))
    if command == "accumulate":  # the sums are another statement's, and stored once
        assert (found["total_init"], found["total_update"]) == next(
            (expected[f"{name}_init"], expected[f"{name}_update"]) for name in expected_sums(expected, found)
        )
        return
    assert {name: found[name] for name in expected} == expected
    assert max(found.values()) <= max(expected.values())
