"""What was derived, printed as commands: they make the same program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tiramisu_py as tm
from tests.programs.ranks.derived import C, blur, c, exchanges, heat, heat_on_grid, moved, q, r, r1, t
from tests.schedule.devices.test_files_of_gpus import levels
from tiramisu_py.errors import CommandError
from tiramisu_py.program.statement import Role


def gathered() -> tm.Function:
    f = tm.Function("gathered", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [12, C])
    b = f.computation("b", {r: 12, c: C}, 2 * a[r, c])
    f.outputs(b)
    a.distribute_array([r, c], rank=0)
    b.split(r, 3, q, r1)
    b.tag_distribute(q)
    return f


def q_outermost() -> tm.Function:
    f = heat(3, 4)
    f["u"].interchange(t, q)
    return f


def on_gpu() -> tm.Function:
    f = tm.Function("twice", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [C])
    b = f.computation("b", {c: C}, 2 * a[c])
    d = f.computation("d", {c: C}, b[c] + 1)
    f.outputs(d)
    b.split(c, 64, q, r1)
    b.tag_gpu([q], [r1])
    return f


def of_one_value() -> tm.Function:
    """What the host computes, without indices, and a GPU reads."""
    f = tm.Function("shifted", params=[C], assume="C >= 2")
    a = f.input("a", tm.float32, [C])
    s = f.computation("s", {}, a[0] + a[1])
    b = f.computation("b", {c: C}, a[c] + s[()])
    f.outputs(b)
    b.split(c, 4, q, r1)
    b.tag_gpu([q], [r1])
    return f


def of_files() -> tm.Function:
    """Levels that a GPU computes, stored in a file and loaded from it: queues of files wait for kernels."""
    return levels().f


MAKERS = [blur, lambda: blur(4, 3, 4), heat, heat_on_grid, gathered, q_outermost, on_gpu, of_files, of_one_value]


@pytest.mark.parametrize("make", MAKERS)
def test_the_commands_make_the_same_program(make: Callable[[], tm.Function]) -> None:
    derived, written = make(), make()
    derived.derive_transfers()
    commands = derived.derived()
    assert commands
    exec("\n".join(commands), {"f": written, "tm": tm})
    sizes = {name: size for name, size in {"C": 5, "T": 3, "N": 40}.items() if name in derived.algorithm.params}
    for role in (Role.SEND, Role.COPY):
        assert moved(written, role, **sizes) == moved(derived, role, **sizes)
    tables = [sorted(str(f.cost("communication", **sizes)).splitlines()) for f in (derived, written)]
    assert tables[0] == tables[1]
    assert written.program.positions == derived.program.positions
    report = written.check()
    assert report.ok, report
    assert not any(s.origin.derived for s in written.program.statements.values())


def test_the_commands_can_be_edited() -> None:
    """Without one of the two exchanges, the rows that it brought are missing."""
    derived, written = blur(), blur()
    derived.derive_transfers()
    commands = [line for line in derived.derived() if "bx_to_next" not in line and "order" not in line]
    exec("\n".join(commands), {"f": written, "tm": tm})
    assert exchanges(written) == ["bx_to_previous"]
    assert written.check().violations[0].kind == "communication"


def test_long_commands_have_a_line_for_each_argument_and_short_ones_one_line() -> None:
    f = blur()
    f.derive_transfers()
    exchange, *others = [line for line in f.derived() if ".create_exchange(" in line]
    assert exchange.splitlines()[:2] == ["f.create_exchange(", "    bx[r, c],"]
    assert exchange.splitlines()[-1] == ")"
    assert all(len(line) <= 120 for line in others[0].splitlines())
    assert "bx_to_previous_send.collapse_many(r, c)" in f.derived()


def test_there_are_no_commands_for_nothing() -> None:
    assert blur().derived() == []


@pytest.mark.parametrize("options", [{"overlap": True}, {"depth": {t: 2}}])
def test_what_changes_computations_has_no_commands(options: dict[str, object]) -> None:
    f = heat()
    f.derive_transfers(**options)  # type: ignore[arg-type]
    with pytest.raises(CommandError, match="cut with separate_at"):
        f.derived()
