"""What a kernel returns, where it writes, and that it can be called in every way that it promises."""

from __future__ import annotations

import array as stdlib_array
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.expressions import Param, binary
from tiramisu_py.errors import ArgumentError, KernelError, ToolchainError
from tiramisu_py.ir import ArrayArgument, ScalarArgument

N = Param("N")


def arguments(rows: int = 4, columns: int = 3, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "a": 2.5,
        "k": -3,
        "image": rng.random((rows + 2, columns + 2), dtype=np.float32),
        "column": rng.integers(0, columns, rows, dtype=np.int32),
        "state": rng.integers(0, 255, rows, dtype=np.uint8),
    }


def expected(given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    image, rows = given["image"], len(given["column"])
    total = np.zeros(rows)
    total[::2] = image[np.arange(rows), given["column"]][::2]
    by = np.float32(given["a"]) * image[1:-1, 1:-1] + np.float32(given["k"])
    return by, total, given["state"] + np.uint8(1)


def test_a_kernel_returns_its_outputs_in_order_of_the_algorithm(mix):
    given = arguments()
    wanted = expected(given)
    got = mix.compile()(*given.values())
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_arguments_may_be_passed_by_name_in_any_order_and_outputs_are_written_in_place(mix):
    given = arguments()
    wanted = expected(given)
    by, total = np.empty((4, 3), np.float32), np.full(4, 7.0)
    got = mix.compile()(total=total, by=by, C=3, **dict(reversed(given.items())))
    assert got[0] is by and got[1] is total and got[2] is given["state"]
    np.testing.assert_array_equal(by, wanted[0])
    np.testing.assert_array_equal(total[::2], wanted[1][::2])
    assert (total[1::2] == 7).all(), "elements that nothing writes keep what the caller passed"


def test_an_output_of_none_is_allocated(saxpy):
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(saxpy.compile()(2, x, x, z=None), 3 * x)


def test_an_in_place_array_is_modified_and_returned(make):
    kernel = make("for (int64_t i = 0; i < N; i++) x[i]++;", ArrayArgument("x", ty.int32, (N,), True, True)).compile()
    x = np.arange(5, dtype=np.int32)
    assert kernel(x) is x
    assert x.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_outputs_are_allocated_for_vectors_and_zero_where_nothing_writes(make, count):
    out = ArrayArgument("z", ty.float64, (N,), is_input=False, is_output=True, covered=False)
    z = make("(void)z; (void)N;", out).compile()(N=count)
    assert z.shape == (count,) and not z.any()
    assert count == 0 or z.__array_interface__["data"][0] % 64 == 0


def test_a_parameter_that_no_shape_gives_is_passed_by_name(make):
    out = ArrayArgument("z", ty.int64, (), is_input=False, is_output=True)
    kernel = make("*z = N;", out).compile()
    assert kernel(N=12) == 12
    with pytest.raises(ArgumentError, match="N"):
        kernel()


@pytest.mark.parametrize("dtype", [t for t in ty.STRONG if not t.is_bool], ids=str)
def test_every_scalar_type_arrives_as_it_was_passed(make, dtype):
    out = ArrayArgument("z", dtype, (), is_input=False, is_output=True)
    kernel = make("(void)N; *z = s;", ScalarArgument("s", dtype), out).compile()
    values = [0, 1, 100] if dtype.is_integer else [0.0, -1.5, float("inf"), 3e4]
    values += [int(np.iinfo(dtype.numpy).max), int(np.iinfo(dtype.numpy).min)] if dtype.is_integer else [float("nan")]
    for value in values:
        for given in (value, np.asarray(value, dtype.numpy)[()], np.asarray(value, dtype.numpy)):
            got, wanted = kernel(given, N=0).item(), np.asarray(value, dtype.numpy).item()
            assert got == wanted or (got != got and wanted != wanted)


def test_a_bool_scalar_arrives_as_it_was_passed(make):
    out = ArrayArgument("z", ty.bool_, (), is_input=False, is_output=True)
    kernel = make("(void)N; *z = s;", ScalarArgument("s", ty.bool_), out).compile()
    assert kernel(True, N=0).item() is True and kernel(np.False_, N=0).item() is False


class Interface:
    """An object with memory that is not an array, as other array libraries have it."""

    def __init__(self, array: np.ndarray) -> None:
        self.kept = array
        self.__array_interface__ = array.__array_interface__


class Tensor:
    """An array of another library that speaks DLPack only."""

    def __init__(self, array: np.ndarray) -> None:
        self.kept = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.kept.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kept.__dlpack_device__()


class Boastful(np.ndarray):
    """An array that says of itself what is not so."""

    __array_interface__ = {"data": (8, False)}
    shape = (10**9,)


def test_an_array_of_a_subclass_is_taken_for_what_it_is_and_returned_as_it_came(saxpy):
    x, z = np.arange(6, dtype=np.float32), np.empty(6, np.float32).view(Boastful)
    assert saxpy.compile()(1, x.view(Boastful), x, z=z) is z
    np.testing.assert_array_equal(np.asarray(z), 2 * x)


@pytest.mark.parametrize("wrap", [Interface, Tensor, memoryview, lambda a: stdlib_array.array("f", a.tolist())])
def test_objects_that_numpy_can_look_at_without_copying_are_inputs_and_outputs(saxpy, wrap):
    x, z = np.arange(6, dtype=np.float32), np.empty(6, np.float32)
    kernel = saxpy.compile()
    np.testing.assert_array_equal(kernel(1, wrap(x), x), 2 * x)
    kernel(1, x, x, z=wrap(z)) if wrap in (Interface, Tensor) else kernel(1, x, x, z=memoryview(z))
    np.testing.assert_array_equal(z, 2 * x)


def test_the_same_array_may_be_two_inputs_and_neighbours_are_no_overlap(saxpy):
    whole = np.arange(12, dtype=np.float32)
    got = saxpy.compile()(1, whole[:4], whole[:4], z=whole[4:8])
    assert got.base is whole and whole.tolist() == [0, 1, 2, 3, 0, 2, 4, 6, 8, 9, 10, 11]


def test_an_input_that_the_function_does_not_use_still_gives_sizes(make):
    plain = make("*z = N;", ArrayArgument("z", ty.int64, (), is_input=False, is_output=True))
    unused = plain.algorithm.with_input(Input("ghost", ty.int8, (binary("+", N, 1),)))
    kernel = replace(plain, algorithm=unused).compile()
    assert kernel(np.zeros(8, np.int8)) == 7
    with pytest.raises(ArgumentError, match="ghost"):
        kernel(np.zeros(8, np.int16))


def test_an_output_stored_in_an_input_is_that_array(make):
    plain = make("for (int64_t i = 0; i < N; i++) x[i] *= 2;", ArrayArgument("x", ty.float32, (N,), True, True))
    kernel = replace(plain, algorithm=plain.algorithm.with_outputs(("doubled",))).compile()
    x = np.ones(3, np.float32)
    assert kernel(x) is x and x.tolist() == [2, 2, 2]
    with pytest.raises(ArgumentError, match=r"doubled was given twice \(it is kept in x\)"):
        kernel(x, doubled=x)


def test_an_output_kept_in_a_buffer_of_the_user_is_passed_by_its_own_name(make):
    plain = make("for (int64_t i = 0; i < N; i++) two[i] = 2;", ArrayArgument("two", ty.float32, (N,), False, True))
    kernel = replace(plain, algorithm=plain.algorithm.with_outputs(("by",))).compile()
    by = np.zeros(3, np.float32)
    assert kernel(by=by) is by and by.tolist() == [2, 2, 2]
    with pytest.raises(ArgumentError, match=r"^by has dtype"):
        kernel(by=np.zeros(3))


def test_two_outputs_in_one_array_are_that_array_twice(make):
    plain = make("for (int64_t i = 0; i < N; i++) z[i] = 1;", ArrayArgument("z", ty.float32, (N,), False, True))
    both = replace(plain.function, outputs=("z", "z"))
    first, second = replace(plain, function=both, algorithm=plain.algorithm.with_outputs(("a", "b"))).compile()(N=2)
    assert first is second


def test_an_error_code_raises_with_the_words_of_the_function(mix):
    kernel = mix.compile()
    with pytest.raises(KernelError, match=r"mix.*7.*a is unlucky"):
        kernel(**{**arguments(), "a": 13})
    kernel(**arguments())


def test_a_condition_on_parameters_is_checked_before_anything_runs(mix):
    with pytest.raises(ArgumentError, match=r"mix needs R >= 1.*R = 0"):
        mix.compile()(**arguments(rows=0))


def test_many_threads_call_one_kernel_at_the_same_time(mix):
    kernel, failures = mix.compile(), []

    def work(seed: int) -> None:
        for turn in range(20):
            given = arguments(rows=30 + seed, columns=17 + turn, seed=seed)
            wanted = expected(given)
            got = kernel(**given)
            if not all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True)):
                failures.append((seed, turn))
            try:
                kernel(**{**given, "a": 13})
                failures.append((seed, turn))
            except KernelError as error:
                if "unlucky" not in str(error):
                    failures.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_interpreter_runs_on_while_a_kernel_does(make):
    """The kernel ends when this thread says so: with the interpreter lock held, it would count to the end alone."""
    body = "volatile int64_t *said = z; *said = 1; int64_t n = 0; while (*said == 1 && n < N) n++; *z = n < N ? 3 : 4;"
    z = ArrayArgument("z", ty.int64, (), is_input=True, is_output=True)
    kernel, said = make(body, z).compile(), np.zeros((), np.int64)
    runner = threading.Thread(target=lambda: kernel(N=1 << 36, z=said))
    runner.start()
    while said == 0:
        time.sleep(0.001)
    if said == 1:
        said[...] = 2
    runner.join()
    assert said == 3


def test_the_number_of_threads_is_that_of_the_kernel_and_only_during_the_call(make):
    body = """int seen = 0;
#pragma omp parallel
    {
#pragma omp atomic
        seen++;
    }
    *z = seen + 0 * N;"""
    written = make(body, ArrayArgument("z", ty.int64, (), is_input=False, is_output=True))
    plain = written.compile()
    if not plain.recipe.openmp:
        pytest.skip("the compiler has no OpenMP")
    before = plain(N=0)
    assert written.compile(threads=3)(N=0) == 3
    assert plain(N=0) == before


FORKS = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from tests_of_build import plain, array, ty, N
x, z = array("x", ty.float32, N), array("z", ty.float32, N, out=True)
loop = "#pragma omp parallel for\\nfor (int64_t i = 0; i < N; i++) z[i] = 2 * x[i];"
kernel = plain(loop, x, z).compile(threads=2)
given = np.arange(10000, dtype=np.float32)
kernel(given)
child = os.fork()
if child == 0:
    signal.alarm(30)  # a child that waits for ever ends
    right = all((kernel(given) == 2 * given).all() for _ in range(3))
    os._exit(0 if right else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_may_call_a_parallel_kernel(tmp_path, root):
    (tmp_path / "tests_of_build.py").write_text((root / "tests" / "toolchain" / "conftest.py").read_text())
    environment = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, "-c", FORKS, str(tmp_path)], env=environment, timeout=60, check=False)
    assert ran.returncode == 0


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", 10**6, 2**40])
def test_a_number_of_threads_that_is_none_is_refused(saxpy, threads):
    with pytest.raises(ArgumentError, match="threads"):
        saxpy.compile(threads=threads)


def test_a_kernel_says_what_it_is(mix, cache_folder):
    kernel = mix.compile()
    assert kernel.name == "mix" and set(kernel.source) == {"mix.c", "mix.h"} and "state[r]++" in kernel.source["mix.c"]
    assert kernel.signature == (
        "int mix(int64_t R, int64_t C, float a, int8_t k, const float *image, const int32_t *column, uint8_t *state, "
        "float *by, double *total);"
    )
    assert kernel.library.name == "libmix.so" and cache_folder in kernel.library.parents
    assert "mix(" in repr(kernel)


def test_sources_without_the_function_are_refused(saxpy):
    with pytest.raises(ToolchainError, match="saxpy"):
        replace(saxpy, sources={"a.c": "int other(void);\nint other(void) { return 0; }\n"}).compile()


def test_bfloat16_arrays_pass_as_they_are(make):
    x = ArrayArgument("x", ty.bfloat16, (N,), is_input=True, is_output=False)
    z = ArrayArgument("z", ty.bfloat16, (N,), is_input=False, is_output=True)
    kernel = make("for (int64_t i = 0; i < N; i++) z[i] = x[i];", x, z).compile()
    given = np.array([1.5, -2, 3e38], dtype=ml_dtypes.bfloat16)
    np.testing.assert_array_equal(kernel(given), given)
    with pytest.raises(ArgumentError, match=r"x has dtype float32, not bfloat16.*ml_dtypes\.bfloat16"):
        kernel(given.astype(np.float32))
