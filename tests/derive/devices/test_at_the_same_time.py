"""Operations of GPUs are started before work of the host that they need not follow, and waited for where that matters.

Order is read off the emitted text; each wait in it is needed, in the simulator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperating import Program, blur, chunked, cooperative, in_two_loops, on_gpu, r, steps, two_gpus
from tests.programs.gpu.cooperating import k as chunk
from tiramisu_py.backends import emit
from tiramisu_py.backends.cuda.kernel_text import signatures
from tiramisu_py.program.editing import removed
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.program.statement import Role
from tiramisu_py.proof import check
from tiramisu_py.toolchain import compile_function

needs_compiler = pytest.mark.skipif(without_cxx(), reason=CXX)
WAIT = re.compile(r"^ *TM_TRY\(tm_gpu_wait_\w+\([^;]*\)\);$", re.MULTILINE)
BLOCKING = re.compile(r"(TM_TRY\(tm_gpu_copy\([^;]*),\s+true\)\);")

MAKERS: dict[str, tuple[Callable[[], Program], dict[str, object]]] = {
    "cooperative": (cooperative, {}),
    "cooperative, cores first": (lambda: cooperative(cores_first=True), {}),
    "cooperative, overlapped": (cooperative, {"overlap": True}),
    "cooperative, a pipeline": (lambda: cooperative(4), {"pipeline": chunk}),
    "cooperative, cores first, a pipeline": (lambda: cooperative(4, cores_first=True), {"pipeline": chunk}),
    "two stages, a pipeline": (chunked, {"pipeline": chunk}),
    "two stages in two loops, a pipeline": (in_two_loops, {"pipeline": chunk}),
    "two GPUs, a pipeline": (two_gpus, {"pipeline": chunk}),
    "steps": (steps, {}),
    "steps at once": (lambda: steps(in_turn=False), {}),
    "steps at once, overlapped": (lambda: steps(in_turn=False), {"overlap": True}),
}


def derived(name: str) -> Program:
    make, options = MAKERS[name]
    f, given = make()
    f.derive_transfers(**options)  # type: ignore[arg-type]
    return f, given


def places(f: tm.Function, *patterns: str) -> list[int]:
    """Where the host's code, after its checks, first matches; each pattern is somewhere."""
    text = f.source()[f"{f.name}.c"].partition("tm_gpu_begin(")[2]
    found = [re.search(pattern, text) for pattern in patterns]
    assert all(found), (patterns, found)
    return [match.start() for match in found if match]


@pytest.mark.parametrize("cores_first", [False, True])
def test_copies_and_kernels_are_started_before_the_host_works_and_waited_for_after_it(cores_first: bool) -> None:
    f, _ = cooperative(cores_first=cores_first)
    f.derive_transfers()
    upload, download = (rf'"{name}"[^;]*false\)' for name in ("image_to_gpu", "by_to_cpu"))
    order = places(f, upload, r"tm_gpu_launch", download, r"omp parallel", r"tm_gpu_wait_host")
    assert order == sorted(order)
    assert f.check().ok


def test_what_the_host_needs_at_once_is_copied_in_one_call() -> None:
    """bx on the GPU, by on cores: nothing to do meanwhile."""
    f, bx, by = blur(stages=True)
    on_gpu(bx)
    by.parallelize(r)
    f.derive_transfers()
    places(f, r'"bx_to_cpu"[^;]*true\)')
    assert "tm_gpu_wait" not in f.source()["blur.c"]


def test_a_command_that_orders_a_kernel_after_the_host_is_kept() -> None:
    f, _, by = blur()
    cores, gpu = by.separate_at(r, [5])
    on_gpu(gpu)
    gpu.after(cores, tm.root)
    f.derive_transfers()
    host, launch = places(f, r"for \(int64_t r = 0", r"tm_gpu_launch")
    assert host < launch
    assert f.check().ok


def test_the_host_keeps_the_order_of_its_own_work() -> None:
    f, _ = cooperative(cores_first=True)
    before = [s.name for s in f.program.statements.values() if f.program.queue_of(s) is None]
    f.derive_transfers()
    positions = f.program.positions
    assert sorted(before, key=lambda name: positions[name]) == before
    once = f.show("pseudocode")
    f.derive_transfers()
    assert f.show("pseudocode") == once


def test_directions_have_operation_sequences_of_their_own() -> None:
    f, _ = cooperative()
    f.derive_transfers(overlap=True)
    found = {s.name: s.link.transfer.stream for s in f.program.storing if s.link.transfer is not None}
    assert found == {"image_to_gpu": 1, "by_to_cpu": 2}
    assert f.check().ok


@needs_compiler
@pytest.mark.parametrize("name", MAKERS)
def test_results_are_right_whatever_the_timing(name: str) -> None:
    f, given = derived(name)
    assert f.check().ok and f.check().superfluous == ()
    expected = f.evaluate(**given)
    kernel = f.compile(device="simulator", sanitize=True)
    for seed in range(50):
        timing = ("lazy", "shuffled", "eager", "threads")[seed % 4]
        np.testing.assert_array_equal(kernel.seeded(seed, timing)(**given), expected, err_msg=f"{timing} {seed}")


@pytest.mark.parametrize("name", MAKERS)
def test_the_proof_refuses_it_without_any_one_wait(name: str) -> None:
    f, _ = derived(name)
    waits = [s.name for s in f.program.statements.values() if s.role is Role.WAIT]
    assert waits
    for wait in waits:
        assert not check(spread(removed(f.program, f.program.statements[wait]))).ok, wait


@needs_compiler
@pytest.mark.parametrize("name", MAKERS)
def test_without_any_one_wait_in_its_text_the_simulator_fails(name: str) -> None:
    """At one of several splits: code for the smallest parts is apart in some of them."""
    f, given = derived(name)
    splits = (given["G"], 0, 1, *((20, 21) if "image" in given else (38, 39, 40)))
    cases = [({**given, "G": split}, f.evaluate(**{**given, "G": split})) for split in splits]
    function = f.show("lowered")
    sources = emit(function)
    host = f"{f.name}.c"
    for described, text in mutants(sources[host]):
        changed = replace(sources, files={**sources, host: text})
        kernel = compile_function(
            function, changed, f.algorithm, kernels=signatures(function), device="simulator", sanitize=True
        )
        runs = (
            is_right(kernel.seeded(seed, timing), at, expected)
            for at, expected in cases
            for seed in range(10)
            for timing in ("lazy", "shuffled")
        )
        assert not all(runs), described


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """The text without one wait, or with one copy that the host does not wait for; what was changed comes first."""
    for found in (*WAIT.finditer(text), *BLOCKING.finditer(text)):
        instead = f"{found[1]}, false));" if found.re is BLOCKING else ""
        line = text.count("\n", 0, found.start()) + 1
        yield f"{line}: {found[0].strip()}", text[: found.start()] + instead + text[found.end() :]


def is_right(kernel: tm.Kernel, given: Mapping[str, object], expected: object) -> bool:
    try:
        return bool(np.array_equal(kernel(**given), expected))
    except tm.KernelError:
        return False
