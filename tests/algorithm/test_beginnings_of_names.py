"""Names that begin as those of a library do, and that no library has, are free."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
(i,) = tm.iters("i")


def doubled(name: str) -> tm.Function:
    f = tm.Function(name, params=[N])
    x = f.input("x", tm.float32, [N])
    f.outputs(f.computation("o", {i: N}, x[i] * 2))
    return f


@pytest.mark.parametrize("name", ["acc_sum", "svc_predict", "xdr_tone", "argp_max", "numa_copy", "fmaximum_row"])
def test_a_function_may_begin_as_those_of_a_library_do(name: str) -> None:
    assert doubled(name).name == name


def test_such_a_function_is_compiled() -> None:
    given = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(doubled("acc_sum").compile()(given), given * 2)


@pytest.mark.parametrize("name", ["acc_init", "svc_run", "xdr_int", "argp_parse", "clnt_create", "fminimum_mag"])
def test_what_a_library_has_is_refused(name: str) -> None:
    with pytest.raises(tm.DeclarationError, match="a library that programs are linked with has a function"):
        doubled(name)
