"""Generated C under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import pytest

from tests.sanitizers import check_clean

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_every_command_is_clean_under_the_sanitizers(part):
    check_clean("tests.schedule.under_sanitizers", str(part), str(PARTS))


def test_time_tiles_are_clean_under_the_sanitizers():
    _clean("tests.schedule.tiles_under_sanitizers")


def test_sparse_programs_are_clean_under_the_sanitizers():
    _clean("tests.schedule.sparse_under_sanitizers")


def _clean(module, *arguments):
    runtimes = [_runtime("libasan.so"), _runtime("libubsan.so")]
    if not all(runtimes):
        pytest.skip("gcc has no sanitizer runtimes on this machine")
    environment = {
        **os.environ,
        "CC": "gcc",
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "OMP_NUM_THREADS": "2",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", module, *arguments]
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert "clean" in result.stdout
