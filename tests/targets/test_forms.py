"""Every form of vector code computes on other processors what it computes here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.backends.c.vectors.test_c_vectors import GROUPS, before, together
from tests.programs.loop_ir.forms import samples
from tests.targets.machines import TARGETS, Target
from tests.targets.programs import Call, Program, printed
from tiramisu_py.passes.pipeline import optimise

CHOSEN = [target for target in TARGETS if "neon" in target.name or "generic" in target.name]


@pytest.mark.parametrize("target", CHOSEN, ids=str)
def test_all_forms_are_the_same(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    program = Program(target, printed([optimise(together(group), target.register) for group in GROUPS]), tmp_path)
    calls = [
        Call(which, {"N": n, "M": 5}, {**samples(n, 5), **{form.name: before(form, n, 5) for form in group}})
        for which, group in enumerate(GROUPS)
        for n in (0, 5, 67)
    ]
    for call, found in zip(calls, program(calls), strict=True):
        n = call.params["N"]
        for form in GROUPS[call.which]:
            want = form.want(samples(n, 5), before(form, n, 5)).astype(form.dtype.numpy)
            np.testing.assert_array_equal(found[form.name], want, err_msg=f"{form.name} at N = {n}", strict=True)
