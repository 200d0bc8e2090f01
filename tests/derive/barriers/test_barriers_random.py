"""Barriers of random kernels: enough by enumeration, and each needed."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.derive.barriers.enumerated import exposed
from tests.derive.barriers.test_barriers import without_statement
from tests.programs.drafts import Draft
from tests.programs.gpu.kernels import barriers
from tests.programs.stories import N, i, k, r
from tiramisu_py.algorithm.expressions import select
from tiramisu_py.algorithm.types import float32
from tiramisu_py.derive.barriers.barriers import with_barriers
from tiramisu_py.program.statement import Role

SIZES = {"N": 1}

#: Of each stage: which stage before it reads, from which step, from which neighbour, where its values are kept, and
#: how many loops it shares with the stage before.
STAGE = st.tuples(
    st.integers(0, 3), st.integers(0, 2), st.integers(0, 3), st.sampled_from(["all", "two", "one"]), st.integers(1, 3)
)


def kernel(stages: list[tuple[int, int, int, str, int]]) -> Draft:
    """Stages of one kernel over a sequential loop k and threads i."""
    f = Draft("random", "N", N >= 1)
    a = f.input("a", float32, [N, 3, 4])
    made = [f.computation("p0", {r: N, k: 3, i: 4}, a[r, k, i])]
    for number, (which, back, beside, _, _) in enumerate(stages, 1):
        source = made[which % len(made)]
        read = select(k < back, 0, source[r, k - back, (i + beside) % 4])
        made.append(f.computation(f"p{number}", {r: N, k: 3, i: 4}, read))
    f.outputs(made[-1])
    for stage, before, (_, _, _, kept, share) in zip(made[1:], made[:-1], stages, strict=True):
        if kept != "all":
            before.store_in([r, k % (2 if kept == "two" else 1), i])
        stage.after(before, [r, k, i][share - 1])
    for stage in made:
        stage.tag_gpu(blocks=[r], threads=[i])
    return f


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STAGE, min_size=1, max_size=3))
def test_barriers_of_random_kernels_are_enough_and_each_is_needed(stages: list[tuple[int, int, int, str, int]]) -> None:
    program = with_barriers(kernel(stages).program)
    assert exposed(program, SIZES) == 0, barriers(program)
    for name in [s.name for s in program.statements.values() if s.role is Role.BARRIER]:
        assert exposed(without_statement(program, name), SIZES) > 0, (name, barriers(program))
