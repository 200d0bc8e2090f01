"""Threads on cpus and memory on nodes: what is chosen on machines with two sockets, and what happens on this one."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.toolchain.machine.topologies import asked, library, machine, two_sockets, write_headers
from tiramisu_py.toolchain.machine.topology import MemoryNode, listed, memory_nodes

CPUS = sorted(os.sched_getaffinity(0))
needs_two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="this process may run on one cpu")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("asked"))


# -- which cpus


@pytest.mark.parametrize(
    ("policy", "threads", "more", "cpus"),
    [
        ("close", 8, {}, [0, 1, 4, 5, 2, 3, 6, 7]),
        ("close", 2, {}, [0, 1]),
        ("close", 10, {}, [0, 1, 4, 5, 2, 3, 6, 7, 0, 1]),
        ("close", 3, {"mask": 0b01110000}, [4, 5, 6]),
        ("spread", 2, {}, [0, 2]),
        ("spread", 3, {}, [0, 1, 2]),
        ("spread", 4, {}, [0, 1, 2, 3]),
        ("spread", 8, {}, [0, 4, 1, 5, 2, 6, 3, 7]),
        ("spread", 2, {"mask": 0b10010000}, [4, 7]),
        ("node", 4, {"node": 1}, [2, 3, 6, 7]),
        ("node", 6, {"node": 0}, [0, 1, 4, 5, 0, 1]),
        ("node", 4, {"turn": 0, "turns": 2}, [0, 1, 4, 5]),
        ("node", 4, {"turn": 1, "turns": 2}, [2, 3, 6, 7]),
        ("node", 2, {"turn": 0, "turns": 4}, [0, 1]),
        ("node", 2, {"turn": 2, "turns": 4}, [4, 5]),
        ("node", 2, {"turn": 1, "turns": 3}, [2, 3]),
        ("node", 1, {"turn": 15, "turns": 20}, [7]),
        ("node", 2, {"turn": 1, "turns": 2, "mask": 0b00000011}, [1, 1]),
        ("list", 3, {"cpus": [6, 1]}, [6, 1, 6]),
    ],
)
def test_threads_get_the_cpus_of_their_policy(loaded, tmp_path, policy, threads, more, cpus):
    assert asked(loaded, two_sockets(tmp_path), policy, threads, **more) == cpus


@pytest.mark.parametrize("policy", ["close", "spread"])
@pytest.mark.parametrize("threads", range(1, 9))
def test_no_two_threads_share_a_cpu_or_a_core_while_there_are_others(loaded, tmp_path, policy, threads):
    cpus = asked(loaded, two_sockets(tmp_path), policy, threads)
    assert len(set(cpus)) == threads
    if policy == "spread":
        cores = {cpu % 4 for cpu in cpus}
        assert len(cores) == min(threads, 4)
        assert {cpu // 2 % 2 for cpu in cpus} == ({0, 1} if threads > 1 else {0})


def test_what_a_process_may_not_use_is_named_with_what_it_may(loaded, tmp_path):
    root = two_sockets(tmp_path)
    words = asked(loaded, root, "list", 2, cpus=[0, 2], mask=0b11101011)
    assert words == "threads cannot be pinned to cpu 2: this process may run on 0-1,3,5-7"
    words = asked(loaded, root, "node", 2, node=1, mask=0b00110011)
    assert words.endswith("memory node 1: this process may run on none of its cpus, but on 0-1,4-5")
    assert "memory node 5" in asked(loaded, root, "node", 2, node=5)


def test_a_machine_that_lists_no_nodes_has_one(loaded, tmp_path):
    root = machine(tmp_path / "a", [(0,), (1,), (2,)], {})
    assert asked(loaded, root, "close", 3, mask=7) == [0, 1, 2]
    assert asked(loaded, root, "node", 3, node=0, mask=7) == [0, 1, 2]
    assert memory_nodes(root) == (MemoryNode(0, (0, 1, 2)),)


def test_without_a_description_threads_stay_where_they_are(loaded, tmp_path):
    assert asked(loaded, tmp_path, "close", 2) == [-1, -1]
    assert asked(loaded, tmp_path, "list", 2, cpus=[1]) == [1, 1]


def test_memory_nodes_are_those_of_the_machine(tmp_path):
    assert memory_nodes(two_sockets(tmp_path)) == (
        MemoryNode(0, (0, 1, 4, 5), 1024 * 1024),
        MemoryNode(1, (2, 3, 6, 7), 2024 * 1024),
    )
    assert {cpu for node in tm.memory_nodes() for cpu in node.cpus} >= set(CPUS)


def test_cpus_are_written_as_the_system_does():
    assert listed((0, 1, 2, 4, 7, 8)) == "0-2,4,7-8"
    assert listed(()) == "none"


# -- pinned threads

_OWN = """
#include <sys/syscall.h>
#include <unistd.h>
/* the cpus on which this thread may run, as bits */
static int64_t own_cpus(int64_t unused) {
  uint64_t mask[64] = {0};
  (void)unused;
  return syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) > 0 ? (int64_t)mask[0] : -1;
}
"""
ALL = sum(1 << cpu for cpu in CPUS if cpu < 62)


def affinities(parallel: bool = True) -> tm.Function:
    """What each thread may run on: iteration t on thread t."""
    N, t = tm.params("N")[0], tm.iters("t")[0]
    f = tm.Function("affinities", params=[N])
    own = tm.extern("own_cpus", [tm.int64], tm.int64, python=lambda t: t, source=_OWN)
    x = f.input("x", tm.int64, [N])
    out = f.computation("out", {t: N}, own(x[t]))
    f.outputs(out)
    if parallel:
        out.parallelize(t)
    return f


def of_threads(kernel: tm.Kernel, threads: int = 2) -> list[int]:
    return kernel(np.zeros(threads, np.int64)).tolist()


@needs_two_cpus
def test_each_thread_is_bound_while_the_function_runs_and_free_after_it():
    before = os.sched_getaffinity(0)
    a, b = CPUS[:2]
    pinned = affinities().compile(pin=[b, a], threads=2)
    free = affinities().compile(threads=2)
    for _ in range(3):
        assert of_threads(pinned) == [1 << b, 1 << a]
        assert os.sched_getaffinity(0) == before
    assert of_threads(free) == [ALL, ALL], "the threads of OpenMP are as they were"


@needs_two_cpus
@pytest.mark.parametrize("pin", ["close", "spread"])
def test_close_and_spread_bind_every_thread_to_a_cpu_of_its_own(pin):
    masks = of_threads(affinities().compile(pin=pin, threads=2))
    assert all(mask.bit_count() == 1 and mask & ALL for mask in masks)
    assert masks[0] != masks[1]


def test_a_function_without_parallel_loops_binds_its_thread():
    before = os.sched_getaffinity(0)
    assert of_threads(affinities(parallel=False).compile(pin=[CPUS[-1]]), 3) == [1 << CPUS[-1]] * 3
    assert os.sched_getaffinity(0) == before


def in_a_thread(run: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


@needs_two_cpus
def test_cpus_that_the_thread_may_not_use_are_refused():
    kernel = affinities().compile(pin=CPUS[:2], threads=2)

    def narrowed() -> str:
        os.sched_setaffinity(0, {CPUS[1]})
        with pytest.raises(tm.KernelError) as refused:
            of_threads(kernel)
        assert os.sched_getaffinity(0) == {CPUS[1]}
        return str(refused.value)

    assert in_a_thread(narrowed) == (
        f"affinities: threads cannot be pinned to cpu {CPUS[0]}: this process may run on {CPUS[1]}"
    )
    assert of_threads(kernel) == [1 << cpu for cpu in CPUS[:2]]


@needs_two_cpus
def test_threads_that_call_at_once_keep_their_own_cpus():
    kernels = [affinities().compile(pin=[cpu], threads=1) for cpu in CPUS[:2]]
    wrong: list[object] = []
    start = threading.Barrier(2)

    def call(number: int) -> None:
        start.wait()
        for _ in range(200):
            found = of_threads(kernels[number], 1)
            if found != [1 << CPUS[number]]:
                wrong.append(found)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@needs_two_cpus
def test_threads_that_openmp_binds_itself_are_pinned_among_all_their_cpus(tmp_path):
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.toolchain.machine.test_numa import affinities, of_threads\n"
        f"print(of_threads(affinities().compile(pin={CPUS[1::-1]}, threads=2)))\n"
    )
    environment = {**os.environ, "OMP_PROC_BIND": "true", "OMP_PLACES": "threads", "TIRAMISU_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).resolve().parents[3]
    # importing the test module sees the one cpu of the initial thread only after OpenMP has started
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([1 << CPUS[1], 1 << CPUS[0]])


@pytest.mark.parametrize("pin", ["near", "node:x", [], [-1], [True], ["0"], 3, "node:", [0, 5000]])
def test_what_is_no_pinning_is_refused(pin):
    with pytest.raises(tm.ArgumentError, match="is not a way to pin threads"):
        affinities().compile(pin=pin)


def test_a_node_must_be_named_where_there_are_no_ranks():
    with pytest.raises(tm.ArgumentError, match='pin="node:0"'):
        affinities().compile(pin="node")


# -- memory


def stages(place: str | None = None, node: int | None = None) -> tm.Function:
    """Two stages over the rows of a matrix, with a temporary between them."""
    R, C = tm.params("R C")
    r, c = tm.iters("r c")
    f = tm.Function("stages", params=[R, C], assume="R >= 1 and C >= 1")
    a = f.input("a", tm.float32, [R + 1, C])
    b = f.computation("b", {r: R + 1, c: C}, a[r, c] * 2)
    d = f.computation("d", {r: R, c: C}, b[r, c] + b[r + 1, c])
    f.outputs(d)
    b.parallelize(r)
    d.parallelize(r)
    if place is not None:
        b.place(place, node=node)
    return f


A = np.random.default_rng(0).random((61, 47), dtype=np.float32)
EXISTING = tm.memory_nodes()[0].number


@pytest.mark.parametrize(("place", "node"), [("local", None), ("interleave", None), ("bind", EXISTING)])
def test_values_do_not_depend_on_where_memory_is(place, node):
    f = stages(place, node)
    kernel = f.compile(threads=2)
    for _ in range(3):
        np.testing.assert_array_equal(kernel(A), (A[:-1] + A[1:]) * 2)
    assert (
        f"tm_map_pages(TM_BYTES(float, R + 1, C), TM_PAGES_{place.upper()}, {node or 0})" in kernel.source["stages.c"]
    )


def test_where_nothing_is_placed_or_pinned_nothing_of_it_is_emitted():
    texts = stages().source()
    assert set(texts) == {"stages.c", "stages.h", "tm_runtime.h"}
    assert "tm_pin" not in texts["stages.c"] and "tm_map_pages" not in texts["stages.c"]


def test_a_node_that_does_not_exist_is_named_with_those_that_do():
    kernel = stages("bind", 917).compile()
    with pytest.raises(tm.KernelError) as refused:
        kernel(A)
    words = str(refused.value)
    assert words.startswith("stages: b is placed on memory node 917, but for this process there ")
    assert words.endswith(f" {tm.memory_nodes()[-1].number}")
    assert "which does not exist: a call is refused" in kernel.placement()


@pytest.mark.parametrize(("policy", "kept"), [(0, (1, 4)), (1, (3,)), (2, (2,))])
def test_pages_have_their_policy(loaded, policy, kept):
    found = loaded.policy_of_pages(policy, EXISTING, ctypes.c_int64(3 * 4096 + 1))
    assert found != -2000, "there is memory"
    if found < 0:
        pytest.skip("the system does not say what policy memory has")
    assert found in kept  # MPOL_PREFERRED or MPOL_LOCAL, MPOL_INTERLEAVE, MPOL_BIND


def test_where_the_kernel_says_nothing_the_nodes_of_the_tree_count(tmp_path):
    root = two_sockets(tmp_path / "sys")
    (tmp_path / "own").mkdir()
    asked = library(tmp_path / "own", f'-DTM_SYSTEM="{root}"', "-DTM_NO_POLICIES")
    words = ctypes.create_string_buffer(256)
    assert (asked.no_node(0, words), asked.no_node(1, words)) == (0, 0)
    assert asked.no_node(2, words) == 1
    assert words.value == b"there are memory nodes 0 1"
    assert asked.policy_of_pages(2, 1, ctypes.c_int64(5000)) >= -1, "it goes on without"


# -- arrays of the caller


def resident(array: np.ndarray) -> list[int]:
    """The node of each page of an array, negative where it was not written yet."""
    page = os.sysconf("SC_PAGESIZE")
    first = array.ctypes.data // page * page
    count = (array.ctypes.data + array.nbytes - first + page - 1) // page
    places = (ctypes.c_void_p * count)(*(first + n * page for n in range(count)))
    found = (ctypes.c_int * count)(*([-99] * count))
    move_pages = {"x86_64": 279, "aarch64": 239}.get(os.uname().machine)
    if move_pages is None:
        pytest.skip("the number of move_pages is not known here")
    libc = ctypes.CDLL(None, use_errno=True)
    code = libc.syscall(move_pages, 0, ctypes.c_ulong(count), places, None, found, 0)
    if code != 0:
        pytest.skip(f"move_pages: {os.strerror(ctypes.get_errno())}")
    return list(found)


@pytest.mark.parametrize("pin", [None, "close", [CPUS[-1]]])
def test_the_pages_of_new_arrays_are_written_by_the_kernels_threads(pin):
    kernel = stages().compile(pin=pin, threads=min(2, len(CPUS)))
    array = kernel.empty("a", R=300, C=1000)
    assert (array.shape, array.dtype, array.any()) == ((301, 1000), np.float32, False)
    assert array.ctypes.data % 64 == 0
    d = kernel.empty("d", R=300, C=1000)
    nodes = {node.number for node in tm.memory_nodes()}
    assert set(resident(d)) <= nodes, "every page is there"
    array[:] = np.random.default_rng(1).random(array.shape, dtype=np.float32)
    assert kernel(array, d=d) is d
    np.testing.assert_array_equal(d, (array[:-1] + array[1:]) * 2)


def is_mapped(address: int) -> bool:
    """Whether there is memory at an address: asked without making a mapping, which might lie there itself."""
    page = ctypes.c_void_p(address // mmap.PAGESIZE * mmap.PAGESIZE)
    return bool(ctypes.CDLL(None).mincore(page, ctypes.c_size_t(1), ctypes.create_string_buffer(1)) == 0)


def test_new_arrays_are_freed_with_their_last_view():
    kernel = stages().compile()
    kernel.empty("d", R=1000, C=1000)  # the threads have begun
    view = kernel.empty("d", R=1000, C=1000)[3:]
    gc.collect()
    view[:] = 1
    assert view.sum() == view.size
    protected = [kernel.empty("d", R=1000, C=1000) for _ in range(3)]
    addresses = [array.ctypes.data for array in protected]
    assert all(map(is_mapped, addresses))
    del protected
    gc.collect()
    assert not any(map(is_mapped, addresses))
    assert is_mapped(view.ctypes.data)
    assert view.ctypes.data not in addresses
    assert view.sum() == view.size


def test_an_array_needs_the_sizes_of_its_shape_and_no_others():
    kernel = stages().compile()
    with pytest.raises(tm.ArgumentError, match="the shape of d depends on C: give C="):
        kernel.empty("d", R=4)
    with pytest.raises(tm.ArgumentError, match="stages has no parameter Q; it has R, C"):
        kernel.empty("d", R=4, C=3, Q=1)
    with pytest.raises(tm.ArgumentError, match="stages has no array b: its arrays are a, d"):
        kernel.empty("b", R=4, C=3)
    with pytest.raises(tm.ArgumentError, match="does not run on ranks"):
        kernel.empty("d", R=4, C=3, comm=object())
    assert kernel.empty("d", R=0, C=3).shape == (0, 3)


def test_placement_says_what_is_where_and_what_makes_no_difference():
    text = stages("local").compile(pin=[CPUS[0]], threads=1).placement()
    assert f"1 thread, pinned (the cpus {CPUS[0]}) to cpu {CPUS[0]}" in text
    assert "b is local: each page on the node of the thread that first writes to it" in text
    one = len(tm.memory_nodes()) == 1
    assert ("one memory node: where memory is placed makes no difference here" in text) == one
    assert "not pinned" in stages().compile().placement()
    assert "no temporary is placed" in stages().compile().placement()


def test_without_openmp_one_thread_is_pinned_without_a_warning(tmp_path):
    kernel = stages("local").compile(pin=[CPUS[0]])
    for name, text in kernel.source.items():
        (tmp_path / name).write_text(text)
    command = [
        "gcc",
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        "stages.c",
        "-o",
        "plain.so",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plain = ctypes.CDLL(str(tmp_path / "plain.so"))
    d, (rows, columns) = np.zeros((A.shape[0] - 1, A.shape[1]), np.float32), A.shape
    before = os.sched_getaffinity(0)
    sizes = ctypes.c_int64(rows - 1), ctypes.c_int64(columns)
    assert plain.stages(*sizes, ctypes.c_void_p(A.ctypes.data), ctypes.c_void_p(d.ctypes.data)) == 0
    np.testing.assert_array_equal(d, (A[:-1] + A[1:]) * 2)
    assert os.sched_getaffinity(0) == before


# -- sanitizers

_MAIN = """
#include <pthread.h>
#include "stages.h"
#include "tm_runtime.h"
enum { ROWS = 40, COLUMNS = 30 };
static float a[ROWS + 1][COLUMNS];
static void *call(void *out) {
  for (int n = 0; n < 20; n++)
    if (stages(ROWS, COLUMNS, &a[0][0], out) != 0) fprintf(stderr, "%s\\n", stages_last_error());
  return NULL;
}
int main(void) {
  static float out[2][ROWS][COLUMNS];
  pthread_t other;
  for (int r = 0; r <= ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) a[r][c] = (float)(r * COLUMNS + c);
  pthread_create(&other, NULL, call, out[1]);
  call(out[0]);
  pthread_join(other, NULL);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      if (out[0][r][c] != 2 * (a[r][c] + a[r + 1][c]) || out[1][r][c] != out[0][r][c]) return 1;
  return 0;
}
"""


@pytest.mark.parametrize(
    ("sanitizers", "threads"), [("address,undefined", "2"), ("thread", "1")], ids=["address", "thread"]
)
def test_placed_and_pinned_functions_called_at_once_are_clean(sanitizers, threads, tmp_path):
    kernel = stages("bind", EXISTING).compile(pin="spread")
    for name, text in kernel.source.items():
        (tmp_path / name).write_text(text)
    write_headers(tmp_path)
    (tmp_path / "main.c").write_text(_MAIN)
    flags = ["-std=gnu11", "-g", "-O1", "-fopenmp", "-pthread", "-Wall", "-Wextra", "-Werror"]
    command = [
        "gcc",
        *flags,
        f"-fsanitize={sanitizers}",
        "-fno-sanitize-recover=all",
        "stages.c",
        "main.c",
        "-o",
        "run",
    ]
    made = subprocess.run([*command, "-lm"], cwd=tmp_path, capture_output=True, text=True, check=False)
    if made.returncode != 0 and "cannot find" in made.stderr:
        pytest.skip(f"-fsanitize={sanitizers} is not installed")
    assert made.returncode == 0, made.stderr
    # OpenMP's own barriers are not known to the thread sanitizer: teams of one thread each
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([tmp_path / "run"], env=environment, capture_output=True, text=True, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert (done.returncode, done.stderr) == (0, "")
