"""What a step of time starts is waited for in a later step, by the first that needs it, and not before."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.derive.devices.test_at_the_same_time import MAKERS, derived
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperating import N, Program, T, c0, i, i0, i1, in_two_loops, k, r, steps, t
from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.statement import Role

needs_compiler = pytest.mark.skipif(without_cxx(), reason=CXX)


def lags(f: tm.Function) -> dict[str, int]:
    """By how many iterations each wait in a loop comes after what it is for."""
    found = {}
    for s in f.program.statements.values():
        if s.role is Role.WAIT and s.loops:
            (form,) = sets.outputs(s.coords)
            found[s.name] = sets.constant_of(form.sub(sets.variables(s.frame)[0]))
    return found


def test_a_halo_is_waited_for_in_the_next_step_and_its_place_before_it_is_used_again() -> None:
    f, _ = steps(in_turn=False)
    f.derive_transfers()
    assert lags(f) == {"u_to_cpu_done": 1, "u_to_gpu_done": 2}
    assert not any(s.link.transfer.asynchronous is False for s in f.program.storing if s.link.transfer is not None)
    at = f.program.positions
    inside = sorted(
        (s.name for s in f.program.statements.values() if s.loops[:1] == f.program.statements["u_0"].loops[:1]),
        key=lambda name: at[name],
    )
    assert inside.index("u_1") < inside.index("u_to_cpu_done") < inside.index("u_0")


def test_operation_sequences_wait_for_the_step_before() -> None:
    f, _ = steps(in_turn=False)
    f.derive_transfers(overlap=True)
    by_name = f.program.statements
    waited = {
        (w.link.waits.of, w.link.waits.on): lag
        for name, lag in lags(f).items()
        if (w := by_name[name]).link.waits is not None
    }
    assert waited == {
        ("u_1", 2): 0,  # what is copied to the host was computed in this step
        ("u_to_gpu", 0): 1,  # a kernel reads what came up in the step before
        ("u_1", 1): 1,  # and what goes up overwrites what it has read
        ("u_to_cpu", None): 1,
        ("u_to_gpu", None): 2,
    }


@needs_compiler
def test_the_host_works_while_the_kernel_of_the_same_step_runs() -> None:
    """A kernel that starts only when someone waits for it starts after the host's work of its step; of any step."""
    f, given = steps(in_turn=False)
    given = {**given, "T": 6}
    f.derive_transfers()
    whole = f.compile(device="simulator", trace=True)
    for timing in ("lazy", "eager", "threads"):
        kernel = whole.seeded(0, timing)
        np.testing.assert_array_equal(kernel(**given), f.evaluate(**given))
        kernels, nests = kernel.trace.of(kind="kernel", name="u_1"), kernel.trace.of(kind="nest", name="u_0")
        assert len(kernels) == len(nests) == 6
        for started, nest in zip(kernels, nests, strict=True):
            assert timing != "lazy" or nest.end <= started.begin
            assert timing != "eager" or started.end <= nest.begin


def every_second() -> Program:
    """A line of which the host needs a point in every second step only, of the step two before."""
    f = tm.Function("every_second", params=[T, N], assume="T >= 1 and N >= 2")
    a = f.input("a", tm.float32, [N])
    u = f.computation("u", {t: T, i: N}, lambda u: tm.select(t == 0, a[i], u[t - 1, i] * 0.5 + a[i]))
    v = f.computation("v", {t: T}, tm.select(t >= 2, u[t - 2, 1], 0.0))
    f.outputs(v)
    u.store_in([t % 4, i])
    v.after(u, t)
    u.split(i, 8, i0, i1)
    u.tag_gpu(blocks=[i0], threads=[i1])
    return f, {"a": np.arange(9, dtype=np.float32), "T": 9}


@needs_compiler
def test_the_distance_is_that_of_the_first_need() -> None:
    f, given = every_second()
    f.derive_transfers()
    assert f.check().ok
    assert lags(f) == {"u_to_cpu_done": 2}
    kernel = f.compile(device="simulator", sanitize=True)
    for seed in range(8):
        np.testing.assert_array_equal(kernel.seeded(seed, "shuffled")(**given), f.evaluate(**given))


# -- as commands


@pytest.mark.parametrize("name", MAKERS)
def test_commands_make_the_same_program(name: str) -> None:
    f, _ = derived(name)
    make, _ = MAKERS[name]
    g, _ = make()
    exec("\n".join(f.derived()), {"f": g, "tm": tm})
    assert g.check().ok, g.check()
    assert without_events(g) == without_events(f)
    assert not any(s.origin.derived for s in g.program.statements.values())


def without_events(f: tm.Function) -> list[str]:
    """The program in words; the events are listed in the order of the commands."""
    return [line for line in f.show("pseudocode").splitlines() if not line.startswith("    events")]


def test_a_wait_is_by_loops_where_its_iterators_are_not_those_of_values() -> None:
    f, _ = in_two_loops()
    f["by"].wait({k: (0, 2)}, name="some")
    waits = f.program.statements["some"].link.waits
    assert waits is not None and waits.by_loop and waits.positions == (0,)
    f["by"].wait({r: (0, 2)}, name="rows")
    waits = f.program.statements["rows"].link.waits
    assert waits is not None and not waits.by_loop
    with pytest.raises(CommandError, match="by has the iterators r, c, and not c0"):
        f["by"].wait({c0: 3}, name="inside")
