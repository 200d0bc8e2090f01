"""`tm.autotune`: the fastest of a list of configurations, measured once for each key, on copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tiramisu_py.language import autotuned
from tiramisu_py.tuning.learned.samples.clocks import package_files

BLOCKS = [tm.Config({"BLOCK": 16}), tm.Config({"BLOCK": 64}, num_warps=8), tm.Config({"BLOCK": 256})]


@tm.jit
def doubled(X, Y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y[at], 2 * tl.load(X[at], mask=at < n, other=0), mask=at < n)


def grid(n: int) -> Callable[[Any], Any]:
    return lambda meta: (tl.cdiv(n, meta["BLOCK"]),)


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Seconds of each block size, in place of the clock."""
    seconds = {16: 3.0, 64: 1.0, 256: 2.0}

    def measured(self: Any, calls: Any, rivals: Any, known: Any = (), control: Any = None) -> Any:
        calls.before[0]()
        return autotuned.Measured(((seconds[_blocks[-1]],),), False)

    _blocks: list[int] = []
    original = autotuned.Autotuned._launch

    def launched(self: Any, config: tm.Config, *rest: Any) -> None:
        _blocks.append(config.kwargs["BLOCK"])
        original(self, config, *rest)

    monkeypatch.setattr(autotuned.Stopwatch, "measured", measured)
    monkeypatch.setattr(autotuned.Autotuned, "_launch", launched)
    return seconds


def arrays(n: int) -> tuple[Any, Any]:
    return np.arange(n, dtype=np.float32), np.full(n, -1, np.float32)


def test_the_fastest_is_launched_and_kept(samples: dict[int, float], tmp_path: Path) -> None:
    def tuned() -> tm.Autotuned:
        return tm.autotune(BLOCKS, key=["n"], database=tmp_path / "kept.sqlite")(doubled)

    first = tuned()
    for n, measured in ((100, 3), (100, 3), (200, 6)):
        x, y = arrays(n)
        first[grid(n)](x, y, n)
        assert np.array_equal(y, 2 * x)
        assert first.best_config is BLOCKS[1] and first.measured == measured
    again = tuned()  # another process, say
    x, y = arrays(100)
    again[grid(100)](x, y, n=100)
    assert np.array_equal(y, 2 * x) and again.measured == 0 and again.best_config is BLOCKS[1]
    samples[16] = 0.5
    x, y = arrays(300)
    again[grid(300)](x, y, 300)
    assert again.measured == 3 and again.best_config is BLOCKS[0]


def test_nothing_of_a_trial_stays(samples: dict[int, float], tmp_path: Path) -> None:
    tuned = tm.autotune(BLOCKS[:1], key=["n"], database=tmp_path / "kept.sqlite")(doubled)
    x, y = arrays(40)
    before = y.copy()
    tuned._best({"X": x, "Y": y, "n": 40}, grid(40), None)
    assert tuned.measured == 1 and np.array_equal(y, before)


def test_configurations_that_do_not_fit_are_left_out(samples: dict[int, float], tmp_path: Path) -> None:
    tuned = tm.autotune(BLOCKS, key=["n"], database=tmp_path / "kept.sqlite")(doubled)
    x, y = arrays(400)
    tuned[(4,)](x, y, 400)  # four programs fill 400 elements only in blocks of 256
    assert tuned.best_config is BLOCKS[2] and np.array_equal(y, 2 * x)
    with pytest.raises(tm.TuningError, match=r"no configuration of doubled can run: .*give others"):
        tuned[(1,)](*arrays(1000), 1000)


def test_pruning_is_as_in_triton(samples: dict[int, float], tmp_path: Path) -> None:
    seen: list[Any] = []

    def early(configs: list[tm.Config], given: dict[str, Any]) -> list[tm.Config]:
        seen.append(sorted(given))
        return [each for each in configs if each.kwargs["BLOCK"] > 16]

    pruning = {"early_config_prune": early, "perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 1}
    tuned = tm.autotune(BLOCKS, ["n"], prune_configs_by=pruning, database=tmp_path / "kept.sqlite")(doubled)
    x, y = arrays(50)
    tuned[grid(50)](x, y, 50)
    assert tuned.best_config is BLOCKS[2] and tuned.measured == 1 and seen == [["X", "Y", "n"]]
    none = tm.autotune(BLOCKS, ["n"], prune_configs_by={"early_config_prune": lambda *_: []})(doubled)
    with pytest.raises(tm.TuningError, match="early_config_prune of doubled returned nothing"):
        none[grid(50)](x, y, 50)


def test_it_measures_with_a_clock(tmp_path: Path) -> None:
    tuned = tm.autotune(BLOCKS[:2], key=["n"], database=tmp_path / "kept.sqlite")(doubled)
    x, y = arrays(1000)
    tuned[grid(1000)](x, y, 1000)
    assert np.array_equal(y, 2 * x) and tuned.best_config in BLOCKS[:2]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tm.autotune([], ["n"])(doubled), "tm.autotune of doubled has no configs"),
        (lambda: tm.autotune(BLOCKS, ["n"])(len), "tm.autotune is for kernels: write @tm.jit below it"),
        (lambda: tm.autotune([tm.Config({"BLOKC": 8})], ["n"])(doubled), "doubled has no constant BLOKC"),
        (lambda: tm.autotune([{"BLOCK": 8}], ["n"])(doubled), "give tm.Config"),
        (lambda: tm.autotune(BLOCKS, ["m"])(doubled), "the key of doubled has m: name some of X, Y, n"),
        (lambda: tm.autotune(BLOCKS, ["n"], prune_configs_by={"top": 1})(doubled), "prune_configs_by has top"),
        (lambda: tm.autotune([*BLOCKS, tm.Config({})], ["n"])(doubled), "name other constants"),
    ],
)
def test_what_cannot_be_tuned_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(tm.DeclarationError) as refusal:
        make()
    assert words in str(refusal.value)


def test_calls_that_do_not_fit_are_refused() -> None:
    tuned = tm.autotune(BLOCKS, key=["n"])(doubled)
    x, y = arrays(8)
    with pytest.raises(tm.CallError, match="BLOCK of doubled is chosen by its configurations"):
        tuned[(1,)](x, y, 8, BLOCK=8)
    with pytest.raises(tm.CallError, match="doubled takes X, Y, n; 4 arguments"):
        tuned[(1,)](x, y, 8, 8)
    with pytest.raises(tm.CallError, match="doubled lacks n, which is in its key"):
        tuned[(1,)](x, y)
    f = tm.Function("f", params=tm.params("N"))
    handle = f.input("x", tm.float32, [tm.Param("N") if hasattr(tm, "Param") else f.params[0]])
    with pytest.raises(tm.DeclarationError, match="call it with arrays"):
        tuned[(1,)](handle, handle, 8)


def test_outcomes_hold_for_the_whole_package() -> None:
    names = {path.name for path in package_files()}
    assert {"expressions.py", "tm_gpu.c", "autotuned.py", "lowering.py"} <= names
