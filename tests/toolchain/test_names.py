"""Names in the C source and for the linker: those of C and of libraries are refused, or called otherwise."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tiramisu_py as tm
from tests.folders import modules_of
from tiramisu_py.algorithm.reserved import is_taken_inside, obstacle_outside
from tiramisu_py.backends.c.expressions.c_names import c_names

N, M = tm.params("N M")
i, j = tm.iters("i j")
X = np.arange(5, dtype=np.float32)

REFUSED = """
gamma round index select remove div y0 GOMP_parallel omp_get_thread_num __kmpc_fork_call MPI_Send cuInit
cudaMalloc printf main errno stdin PRId64 INT64_MAX size_t FILE tm_x TM_LARGEST float32x8 int class std string
mpi omp stdio blur_last_error blur_use_device
"""


SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
#: The release of glibc that the list of names is made from; a newer one has a few names more.
RELEASE = (2, 36)


@pytest.fixture(scope="module")
def here() -> Iterator[ModuleType]:
    """What asks this machine's headers and libraries for their names."""
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip("gcc and nm are not here to say what headers and libraries have")
    with modules_of(SCRIPTS) as load:
        yield load("library_names")


def _are_known(names: Collection[str], known: Callable[[str], bool], least: int) -> None:
    assert len(names) > least
    unknown = sorted(name for name in names if not known(name))
    libc, release = platform.libc_ver()
    is_listed = libc == "glibc" and tuple(map(int, release.split("."))) <= RELEASE
    assert len(unknown) <= (0 if is_listed else len(names) // 20), unknown


@pytest.mark.parametrize(("library", "least"), [("libc.so.6", 1000), ("libm.so.6", 400), ("libgomp.so.1", 100)])
def test_no_function_has_the_name_of_what_a_library_exports(here, library, least):
    names = here.exported(library)
    if not names:
        pytest.skip(f"{library} is not here")
    _are_known(names, lambda name: bool(obstacle_outside(name)), least)


def test_no_macro_of_a_header_is_the_name_of_a_function_or_stays_a_name_inside(here):
    _are_known(here.macros(), lambda name: bool(obstacle_outside(name)) and is_taken_inside(name), 500)


def test_no_type_of_a_header_stays_a_name_inside(here):
    _are_known(here.types(), lambda name: bool(obstacle_outside(name)) and is_taken_inside(name), 50)


@pytest.mark.parametrize("name", REFUSED.split())
def test_a_function_is_not_called_as_what_c_or_a_library_has(name):
    with pytest.raises(tm.DeclarationError, match=f"'{name}' cannot be the name of a function"):
        tm.Function(name)


@pytest.mark.parametrize("name", ["va", "argp"])
def test_a_function_does_not_define_what_c_has_beside_itself(name):
    with pytest.raises(tm.DeclarationError, match=f"its source would define {name}_[a-z]+, which C's library has"):
        tm.Function(name)


def test_a_name_that_is_too_long_for_a_file_is_refused_with_the_longest():
    with pytest.raises(tm.DeclarationError, match="its files would have this name of 300 letters; take at most 200"):
        tm.Function("a" * 300)
    f = tm.Function("a" * 200, params=[N])
    a = f.input("b" * 300, tm.float32, [N])
    f.outputs(f.computation("c" * 300, {i: N}, a[i] + 1))
    assert f.compile()(X).tolist() == (X + 1).tolist()


INSIDE = (
    "PRId64 INT64_MAX NULL errno stdin I EOF size_t FILE printf memset y0 exp M_PI TM float32x8 omp_x MPI_x load_x "
    "wrong gpu comm f linux half threadIdx timezone index a_bytes uint va_list"
)


@pytest.mark.parametrize("name", INSIDE.split())
def test_parameters_arrays_and_iterators_may_be_called_as_anything_that_is_no_word_of_c(name):
    (size,), (at,) = tm.params(name), tm.iters(name)
    f = tm.Function("f", params=[size])
    a = f.input("a", tm.float32, [size])
    p = f.computation("p", {i: size}, tm.exp(a[i]))
    f.outputs(f.computation("o", {i: size}, p[i] + 1))
    p.parallelize(i)
    g = tm.Function("f", params=[N])
    a = g.input(name, tm.float32, [N]) if name != "f" else g.input("a", tm.float32, [N])
    g.outputs(g.computation("o", {at: N}, tm.exp(a[at]) + 1))
    for kernel in (f.compile(), g.compile()):
        assert np.allclose(kernel(X), np.exp(X) + 1)


def test_no_name_in_c_is_one_that_c_has():
    names = [*INSIDE.split(), "tm_a", "_b", "x@gpu0"]
    found = c_names(names, "f", ["own"])
    assert len(set(found.values())) == len(names)
    assert not [name for name in found.values() if is_taken_inside(name) or name in ("own", "f")]


# -- functions of the user's in C

NOT_EXTERNAL = "f f_check f_last_error sqrtf printf float32x4 tm_x NULL PRId64 wrong gpu"


def _called(name: str, source: str, **options: str) -> np.ndarray:
    e = tm.extern(name, [tm.float32], tm.float32, lambda v: v + 1, source=source, **options)
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("o", {i: N}, e(a[i])))
    return f.compile()(X)


@pytest.mark.parametrize("name", ["a", "o", "i", "N", "plus_one"])
def test_an_external_function_may_be_called_as_an_array_an_iterator_or_a_parameter(name):
    assert _called(name, f"static float {name}(float x) {{ return x + 1; }}").tolist() == (X + 1).tolist()


@pytest.mark.parametrize(
    "name", ["f", "f_check", "f_last_error", "sqrtf", "printf", "float32x4", "tm_x", "NULL", "PRId64", "wrong", "gpu"]
)
def test_an_external_function_is_not_called_as_what_c_or_the_function_has(name):
    with pytest.raises(tm.DeclarationError, match=name):
        _called(name, f"static float {name}(float x) {{ return x + 1; }}")


def test_two_external_functions_of_one_name_are_refused():
    one, two = (
        tm.extern(
            "e", [tm.float32], tm.float32, lambda v: v + 1, source=f"static float e(float x) {{ return x + {k}; }}"
        )
        for k in (1, 2)
    )
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    p = f.computation("p", {i: N}, one(a[i]))
    with pytest.raises(tm.DeclarationError, match="o calls another external function e than p does"):
        f.computation("o", {i: N}, two(p[i]))


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("e3", "static double e3(int x) { return x + 1; }", r"declared as float e3\(float\), .* double e3\(int\)"),
        ("e3", "static double e3(float x) { return x + 1; }", r"but its source has double e3\(float\)"),
        ("e3", "static float e3(float x, float y) { return x; }", r"but its source has float e3\(float, float\)"),
        (
            "e1",
            "static float e1(float x) { return x + 1 }",
            r"source of the external function e1 is refused .* expected",
        ),
        ("e2", "", "the external function e2 is not defined: neither its source= nor a loaded library"),
        ("e2", "static float other(float x) { return x; }", "does not define e2"),
    ],
)
def test_what_is_wrong_with_an_external_function_is_said_of_it(name, source, said):
    with pytest.raises(tm.ToolchainError, match=said) as refused:
        _called(name, source)
    assert "return code" not in str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        "static inline __attribute__((const)) float e(const float x) { return x + 1; }",
        "#define e(x) ((x) + 1)",
        "float e(float);\nfloat e(float x) { return x + 1; }",
    ],
)
def test_inline_functions_macros_and_prototypes_are_as_declared(source):
    assert _called("e", source).tolist() == (X + 1).tolist()


def test_functions_of_the_library_need_no_source():
    assert np.allclose(_called("sqrtf", ""), np.sqrt(X))
    assert np.allclose(_called("sqrtf", "", header="<math.h>"), np.sqrt(X))
