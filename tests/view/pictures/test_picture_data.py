"""What is in a picture: the same instances, order, places and writers that plain runs of the program find."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.test_masks_left_out import module_of
from tests.oracle.generators.random_programs import random_script
from tests.oracle.judges.events import Execution
from tests.oracle.judges.executed_instances import executions
from tests.oracle.judges.plain import function
from tests.oracle.judges.values import Values
from tests.oracle.seeds import first_of
from tests.programs import pictured
from tests.selection import first
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.cases import EqualValues
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.view.pictures.picture_instances import ordered_instances
from tiramisu_py.view.pictures.picture_reads import PictureMemory
from tiramisu_py.view.pictures.scene import CALLER, NOBODY, Scene

#: Programs on one core after another, and the sizes of their pictures: whole tiles, and a rest.
CORES: list[tuple[Callable[[], tm.Function], dict[str, int]]] = [
    (pictured.plain, {"N": 3, "M": 2}),
    (pictured.tiled, {"N": 5, "M": 6}),
    (pictured.fused, {"N": 4, "M": 3}),
    (pictured.refused, {"N": 3, "M": 2}),
    (pictured.skewed, {"T": 5, "N": 7}),
    (pictured.product, {"N": 3}),
]


def scene(f: tm.Function, **sizes: int) -> Scene:
    (found,) = f.show(**sizes).scenes
    return found


@pytest.mark.parametrize(("build", "sizes"), CORES)
def test_instances_places_and_reads_are_those_of_a_run_by_hand(
    build: Callable[[], tm.Function], sizes: dict[str, int]
) -> None:
    f = build()
    drawn, program = scene(f, **sizes), f.completed
    events = Execution(program, sizes, Values(program.algorithm, sizes)).events()
    events.sort(key=lambda event: event.time)
    expected = [
        (program.statements[e.statement].handle, e.point, e.value[1], (*e.target[1], *e.target[2])) for e in events
    ]
    assert [(drawn.statements[x.statement].name, x.point, x.value, x.element) for x in drawn.instances] == expected
    assert [x.order for x in drawn.instances] == list(range(len(events)))
    memory: dict[object, tuple[int, object]] = {}
    reads = set()
    for order, event in enumerate(events):
        for place, named in event.reads:
            nothing = CALLER if place[0] in program.algorithm.inputs else NOBODY
            writer, held = memory.get(place, (nothing, named if nothing == CALLER else None))
            reads.add((order, place[0], (*place[1], *place[2]), *named, writer, held != named))
        memory[event.target] = (order, event.value)
    found = {
        (x.reader, drawn.arrays[x.array].name, x.element, x.source, x.value, x.writer, x.wrong)
        for x in drawn.reads
        if not x.chain
    }
    assert found == reads


@pytest.mark.parametrize(("build", "sizes"), [case for case in CORES if case[0] is not pictured.refused])
def test_the_order_of_a_picture_is_that_of_the_loops_that_are_emitted(
    build: Callable[[], tm.Function], sizes: dict[str, int]
) -> None:
    f = build()
    program, drawn = f.completed, scene(f, **sizes)
    points = {name: function(statement.point, sizes) for name, statement in program.statements.items()}
    ran = [(program.statements[name].handle, points[name](at)) for name, at in executions(program, sizes)]
    assert [(drawn.statements[x.statement].name, x.point) for x in drawn.instances] == ran


def judged_as_refused(f: tm.Function, sizes: Mapping[str, int]) -> list[bool]:
    """Whether each read of a program is wrong, whatever the proof says."""
    accesses = MemoryAccesses(spread(f.completed))
    memory = PictureMemory(accesses, ordered_instances(accesses.program, sizes), sizes)
    return [read.wrong for read in memory.reads(True)]


@pytest.mark.parametrize("seed", first(range(first_of(71), first_of(71) + 60), 8))
def test_reads_are_wrong_in_refused_programs_alone(seed: int) -> None:
    f = random_script(seed).function
    report = f.check()
    if report.ok:
        assert not any(judged_as_refused(f, scene(f).sizes))
    if EqualValues(f.program.algorithm).parents is not None:
        return  # a place may hold an equal value, which the report does not always know
    for violation in report.violations:
        if violation.kind in ("order", "overwritten"):
            assert any(judged_as_refused(f, violation.witness.params))


PROVEN: list[tuple[Callable[[], tm.Function], dict[str, int]]] = [
    *(case for case in CORES if case[0] is not pictured.refused),
    (pictured.distributed, {"C": 3}),
    (pictured.cooperative, {"R": 6, "C": 5, "G": 3}),
    (pictured.shared_sums, {"N": 10}),
]


@pytest.mark.parametrize(("build", "sizes"), PROVEN)
def test_what_is_read_was_stored_in_an_earlier_step(build: Callable[[], tm.Function], sizes: dict[str, int]) -> None:
    drawn = scene(build(), **sizes)
    assert drawn.verdict == "proven"
    assert all(read.writer != NOBODY for read in drawn.reads)
    for read in drawn.reads:
        if read.writer != CALLER:
            assert drawn.instances[read.writer].step < drawn.instances[read.reader].step, read


def test_steps_count_what_runs_at_once_as_one() -> None:
    """A tile is 6 rows of 4 sums, one after another, then 4 vectors; 3 tiles in a row, 3 such rows at the same time."""
    assert scene(pictured.tiled(), N=12, M=12).steps == 3 * (6 * 4 + 4)
    assert scene(pictured.plain(), N=3, M=2).steps == 5 * 2 + 3 * 2


def test_a_tile_is_what_agrees_in_the_loops_over_tiles() -> None:
    drawn = scene(pictured.tiled(), N=8, M=8)
    assert [statement.tile_loops for statement in drawn.statements] == [2, 2]
    for instance in drawn.instances:
        if drawn.statements[instance.statement].name == "by":
            assert instance.coords[:2] == (instance.point[0] // 4, instance.point[1] // 4)


def test_each_instance_has_its_executor() -> None:
    drawn = scene(pictured.tiled(), N=8, M=4)
    for instance in drawn.instances:
        assert drawn.executors[instance.who].iteration == (instance.coords[0],)
    drawn = scene(pictured.distributed(), C=3)
    for instance in drawn.instances:
        if drawn.statements[instance.statement].name == "by":
            assert drawn.executors[instance.who].rank == (instance.point[0] // 4,)
    drawn = scene(pictured.cooperative(), R=6, C=5, G=4)
    for instance in drawn.instances:
        if drawn.statements[instance.statement].name == "by_0":
            who, (row, column) = drawn.executors[instance.who], instance.point
            assert (who.device, who.block, who.thread) == (0, (row // 2, column // 4), (column % 4, row % 2))


def test_messages_are_those_that_are_counted() -> None:
    f = pictured.distributed()
    drawn, counted = scene(f, C=3), f.cost("communication", C=3)
    assert len(drawn.messages) == counted.messages == 4
    assert sum(len(message.pairs) for message in drawn.messages) == counted.elements
    assert sum(message.bytes for message in drawn.messages) == counted.bytes
    for message in drawn.messages:
        for send, receive in message.pairs:
            assert drawn.instances[send].value == drawn.instances[receive].value
        assert message.sent < message.arrived
    f = pictured.cooperative()
    drawn, counted = scene(f, R=6, C=5, G=3), f.cost("communication", R=6, C=5, G=3)
    assert [len(message.pairs) for message in drawn.messages] == [moved.elements for moved in counted.transfers]


def test_a_refused_schedule_is_drawn_at_its_counterexample_and_at_larger_sizes() -> None:
    f = pictured.refused()
    (violation,) = f.check().violations
    least, larger = f.show().scenes
    assert least.sizes == violation.witness.params == {"N": 1, "M": 1}
    (drawn,) = least.violations
    assert (drawn.kind, drawn.message, drawn.command, drawn.repair) == (
        violation.kind, violation.message, violation.command, violation.repair
    )  # fmt: skip
    assert drawn.here
    pair = [least.instances[order] for order in (drawn.writer, drawn.reader) if order is not None]
    named = [(least.statements[x.statement].source, x.value) for x in pair]
    assert named == [violation.witness.writer, violation.witness.reader]
    assert not larger.violations[0].here
    assert larger.violations[0].reader is not None


def test_a_race_is_drawn_as_the_pair_that_meets() -> None:
    f = pictured.raced()
    found = f.show().scenes[0]
    (violation,) = found.violations
    assert violation.kind == "race"
    assert violation.writer is not None
    assert violation.reader is not None
    assert found.instances[violation.writer].who != found.instances[violation.reader].who


def test_pairs_in_another_order_are_those_that_a_double_loop_finds() -> None:
    f, g = pictured.tiled(), pictured.plain()
    picture = f.show(beside=g, N=5, M=5)
    left, right = picture.scenes
    runs = [
        [((drawn.statements[x.statement].name, x.point), x.step) for x in drawn.instances] for drawn in (left, right)
    ]
    names = [[name for name, _ in run] for run in runs]
    once = [name for name in names[0] if names[0].count(name) == 1 and names[1].count(name) == 1]
    steps = [dict(run) for run in runs]
    signs = [
        [(step[a] > step[b]) - (step[a] < step[b]) for n, a in enumerate(once) for b in once[n + 1 :]] for step in steps
    ]
    both = list(zip(*signs, strict=True))
    found = picture.differences
    assert found is not None
    assert (found.pairs, found.different) == (len(both), sum(a != b for a, b in both))
    assert found.reversed == sum(a * b < 0 for a, b in both) > 0
    assert (found.apart, found.joined) == (sum(a == 0 != b for a, b in both), sum(b == 0 != a for a, b in both))
    assert found.dependent == 0
    assert found.alone == (len(names[0]) - len(once), len(names[1]) - len(once))


def test_two_schedules_of_which_one_is_refused_have_dependent_pairs_in_another_order() -> None:
    found = pictured.fused().show(beside=pictured.refused(), N=3, M=3).differences
    assert found is not None
    assert found.dependent > 0


def test_sizes_are_chosen_so_that_there_is_something_to_see() -> None:
    drawn = scene(pictured.tiled())
    assert drawn.sizes == {"N": 16, "M": 16}
    assert scene(pictured.tiled(), N=4).sizes["N"] == 4
    assert scene(pictured.cooperative()).sizes == {"R": 12, "C": 12, "G": 6}
    f = tm.Function("whole", params=[pictured.N], assume="N % 32 = 0 and N >= 1")
    a = f.input("a", tm.float32, [pictured.N])
    f.outputs(f.computation("b", {pictured.i: pictured.N}, 2 * a[pictured.i]))
    assert scene(f).sizes == {"N": 64}


def test_sizes_that_cannot_be_drawn_are_refused() -> None:
    f = pictured.plain()
    with pytest.raises(tm.ArgumentError, match="not defined for N = 0"):
        f.show(N=0, M=1)
    with pytest.raises(tm.ArgumentError, match=r"cannot be seen: .* give smaller sizes, such as N=8, M=8"):
        f.show(N=1000, M=1000)
    with pytest.raises(tm.ArgumentError, match="has the parameters N, M: K is not one of them"):
        f.show(K=3)
    with pytest.raises(tm.ArgumentError, match="is no function"):
        f.show(beside=3)  # type: ignore[call-overload]


def test_a_block_program_is_drawn_as_far_as_its_blocks_can_be_seen() -> None:
    """A block is whole, or not there: also with more instances than are chosen elsewhere."""
    product, rows = module_of("gemm").product, module_of("softmax").rows
    small, _ = product(tile=4)
    drawn = scene(small)
    assert [x.name for x in drawn.statements] == ["a", "b", "acc.init", "acc.update", "C"]
    terms = [x for x in drawn.instances if drawn.statements[x.statement].name == "acc.update"]
    blocks = [-(-drawn.sizes[name] // extent) for name, extent in (("M", 4), ("N", 4), ("K", 16))]
    assert len(terms) == blocks[0] * blocks[1] * blocks[2] * 4 * 4 * 16
    few = scene(small, M=0, N=5, K=5)
    assert {few.statements[x.statement].name for x in few.instances} == {"b"}
    wide, _ = rows()
    assert scene(wide).sizes == {"M": 2, "N": 2}
    large, _ = product(tile=32)
    with pytest.raises(tm.ArgumentError, match=r"at M = 1, .* cannot be seen.* make the extents that are constants sm"):
        large.show()


def test_values_are_those_of_the_inputs_that_are_given() -> None:
    a = np.random.default_rng(5).random((9, 9), dtype=np.float32)
    (drawn,) = pictured.tiled().show(N=5, M=6, inputs={"a": a}).scenes
    assert drawn.inputs == "values of the given inputs"
    across = (a[:7, :6] + a[:7, 1:7] + a[:7, 2:8]) / 3
    down = (across[:5] + across[1:6] + across[2:7]) / 3
    for name, expected in (("a", a[:7, :8]), ("bx", across), ("by", down)):
        assert set(drawn.values[name]) == set(np.ndindex(expected.shape))
        for at, value in drawn.values[name].items():
            assert value == pytest.approx(float(expected[at]), rel=1e-5)


def test_an_update_has_its_term_and_random_inputs_are_the_same_each_time() -> None:
    (drawn,) = pictured.product().show(N=3).scenes
    assert drawn.inputs == "values of random inputs"
    a, b, c = (drawn.values[name] for name in "abc")
    updates = [x for x in drawn.instances if drawn.statements[x.statement].role == "update"]
    assert len(updates) == 27
    for x in updates:
        i, j, k = x.point
        assert x.term == pytest.approx(a[i, k] * b[k, j], rel=1e-4)
    for at, value in c.items():
        assert value == pytest.approx(sum(x.term for x in updates if x.value == at), rel=1e-4)
    assert len(set(c.values())) == 9
    assert pictured.product().show(N=3).scenes[0].values == drawn.values


def test_a_statement_with_a_condition_says_where_it_holds() -> None:
    i, v, N = pictured.i, pictured.k, pictured.N
    f = tm.Function("scatter", params=[N], assume="N >= 1")
    order = f.input("order", tm.int32, [N], permutation=True)
    a = f.input("a", tm.int64, [N])
    f.outputs(f.computation("y", {i: N, v: N}, a[i] + 1, where=order[i] == v))
    given = {"order": np.array([2, 0, 3, 1], np.int32), "a": np.array([1 << 60, -5, 7, 0])}
    (drawn,) = f.show(N=4, inputs=given).scenes
    ran = {x.point for x in drawn.instances if x.runs}
    assert {x.point for x in drawn.instances if x.runs is False} == set(np.ndindex(4, 4)) - ran
    assert ran == {(0, 2), (1, 0), (2, 3), (3, 1)}
    assert drawn.values["y"] == {(0, 2): str((1 << 60) + 1), (1, 0): -4, (2, 3): 8, (3, 1): 1}


def test_a_picture_without_values_says_why_and_given_inputs_must_fit() -> None:
    i, N = pictured.i, pictured.N
    f = tm.Function("gather", params=[N], assume="1 <= N <= 50")
    at = f.input("at", tm.int32, [N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("y", {i: N}, a[at[i]], where=at[i] >= 0))
    (drawn,) = f.show(N=5).scenes
    assert drawn.values == {}
    assert drawn.inputs.startswith("no values, since random inputs do not fit: y[")
    (drawn,) = f.show(N=2, inputs={"at": np.array([1, -1], np.int32), "a": np.array([0.5, np.nan], np.float32)}).scenes
    assert drawn.values["y"] == {(0,): "nan"}
    assert drawn.values["a"][0,] == 0.5
    with pytest.raises(tm.ArgumentError, match="is outside a"):
        f.show(N=5, inputs={"at": np.array([9] * 5, np.int32)})
    with pytest.raises(tm.ArgumentError, match="inputs has 'b', which is no input of gather"):
        f.show(N=5, inputs={"b": 1})
