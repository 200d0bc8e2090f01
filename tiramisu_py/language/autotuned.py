"""Constants of a kernel chosen by measuring: a list of configurations, tried once for each key, and kept on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tiramisu_py.errors import CallError, DeclarationError, LegalityError, TiramisuError, TuningError
from tiramisu_py.function.handles.computations import Indexed
from tiramisu_py.language.kernel import Grid, Interpretations, Jit
from tiramisu_py.public_calls import own_call, own_class
from tiramisu_py.queries import compiler_description, digest, machine_description, open_cache
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.learned.samples.clocks import package_key
from tiramisu_py.tuning.search.database import Database, Label, Outcome, database_path
from tiramisu_py.tuning.search.stopwatch import Measured, Rivals, Stopwatch, TimedCalls, seconds_of

#: The samples of a configuration that is not given up earlier.
REPEATS = 5
#: What `prune_configs_by` may have.
_PRUNING = ("early_config_prune", "perf_model", "top_k")


@own_class
@dataclass(frozen=True)
class Config:
    """Constants of a kernel by name, ``tm.Config({"BLOCK": 64}, num_warps=4)``; warps and stages are for GPUs."""

    kwargs: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 1

    def __str__(self) -> str:
        named = [f"{name}: {value}" for name, value in self.kwargs.items()]
        return ", ".join([*named, f"num_warps: {self.num_warps}", f"num_stages: {self.num_stages}"])

    @property
    def described(self) -> dict[str, Any]:
        """Its constants as plain data."""
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}


@own_call
def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    *,
    prune_configs_by: Mapping[str, Any] | None = None,
    database: Any = None,
) -> Callable[[Jit], Autotuned]:
    """Measure a list of configurations of a ``@tm.jit`` kernel, and launch it with the fastest one.

    ::

        @tm.autotune(configs=[tm.Config({"BLOCK": 64}), tm.Config({"BLOCK": 256}, num_warps=8)], key=["n"])
        @tm.jit
        def doubled(X, Y, n, BLOCK: tl.constexpr): ...

        doubled[lambda meta: (tl.cdiv(n, meta["BLOCK"]),)](x, y, n)

    They are measured once for each combination of the arguments named in `key` (of an array: its shape), of the types
    of all arguments, and of the device: one after another, on copies of the arrays, so that nothing of a trial stays.
    Results are kept on disk, in the database of `tm.tune` or in the file `database`. Configurations that the proof
    refuses, or whose sizes do not fit, are left out. ``prune_configs_by`` is as in Triton: its ``early_config_prune``
    returns some of the configurations, ``perf_model`` estimates each, and the best ``top_k`` are measured.
    Raises `DeclarationError` for names that the kernel does not have, and `TuningError` if no configuration can run.
    """

    def decorated(kernel: Jit) -> Autotuned:
        return Autotuned(kernel, configs, key, prune_configs_by or {}, database)

    return decorated


class Autotuned:
    """A kernel whose constants are chosen by measuring. `best_config` is that of the last launch."""

    def __init__(
        self, kernel: Jit, configs: Sequence[Config], key: Sequence[str], pruning: Mapping[str, Any], database: Any
    ) -> None:
        self.kernel, self.configs, self.key = kernel, tuple(configs), tuple(key)
        self.best_config: Config | None = None
        self.measured = 0
        self._pruning, self._database = pruning, database
        self._chosen: dict[str, Config] = {}
        _check(self, kernel)

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        def launch(*arguments: Any, device: str | None = None, **named: Any) -> None:
            given = self._bound(arguments, named)
            best = self.best_config = self._best(given, grid, device)
            self._launch(best, grid, given, device)

        return launch

    @property
    def interpret(self) -> Interpretations:
        """The kernel as plain Python, with constants that the caller gives."""
        return self.kernel.interpret

    def _launch(self, config: Config, grid: Grid, given: Mapping[str, Any], device: str | None) -> None:
        self.kernel[grid](
            **given, **config.kwargs, num_warps=config.num_warps, num_stages=config.num_stages, device=device
        )

    def _bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        source = self.kernel.__tiramisu_source__
        tuned = {name for config in self.configs for name in config.kwargs}
        free = [name for name in source.arguments if name not in tuned]
        if len(arguments) > len(free):
            raise CallError(f"{source.name} takes {', '.join(free)}; {len(arguments)} arguments were given")
        given = {**dict(zip(free, arguments, strict=False)), **named}
        twice = next((name for name in named if name in tuned), None)
        if twice is not None:
            raise CallError(f"{twice} of {source.name} is chosen by its configurations: leave it out")
        handle = next((name for name, each in given.items() if isinstance(each, Indexed)), None)
        if handle is not None:
            raise DeclarationError(
                f"{source.name} is tuned by running it: call it with arrays, or launch {source.name}.kernel on "
                f"{handle}, with constants"
            )
        missing = [name for name in self.key if name not in given and name not in source.defaults]
        if missing:
            raise CallError(f"{source.name} lacks {missing[0]}, which is in its key")
        return given

    # -- measuring

    def _best(self, given: Mapping[str, Any], grid: Grid, device: str | None) -> Config:
        workload = self._workload(given, device)
        kept = self._chosen.get(digest(workload))
        if kept is None:
            kept = self._chosen[digest(workload)] = self._searched(workload, given, grid, device)
        return kept

    def _workload(self, given: Mapping[str, Any], device: str | None) -> dict[str, Any]:
        source = self.kernel.__tiramisu_source__
        values = {**source.defaults, **given}
        key = {name: list(v.shape) if isinstance(v := values[name], np.ndarray) else repr(v) for name in self.key}
        return {
            "kernel": source.name,
            "text": "".join(source.lines),
            "key": key,
            "types": {name: _type_of(each) for name, each in given.items()},
            "device": device,
        }

    def _searched(self, workload: Any, given: Mapping[str, Any], grid: Grid, device: str | None) -> Config:
        cache = open_cache()
        compiler = {**compiler_description(cache, {}), "package": package_key()}
        database = Database(database_path(self._database, cache.root), machine_description(device), compiler, workload)
        try:
            rivals, found, reasons = Rivals(), list[tuple[float, Config]](), list[str]()
            control: TimedCalls | None = None
            for config in self._pruned(given):
                program, label = digest(config.described), Label(workload["kernel"], str(config), "")
                outcome, calls = database.known(program), None
                if outcome is None:
                    with database.running(program, label):
                        calls = self._calls(config, grid, given, device)
                        outcome = self._outcome(calls, rivals, control)
                    database.keep(program, label, outcome)
                seconds = seconds_of(outcome.samples) if outcome.kind == "measured" else None
                if outcome.samples:
                    rivals.met(outcome.samples)
                if seconds is None:
                    reasons += [outcome.reason] if outcome.reason else []
                    continue
                if calls is not None and all(seconds < each for each, _ in found):
                    control = calls
                found.append((seconds, config))
        finally:
            database.close()
        if not found:
            raise TuningError(_none_runs(workload["kernel"], reasons))
        return min(found, key=lambda each: each[0])[1]

    def _calls(self, config: Config, grid: Grid, given: Mapping[str, Any], device: str | None) -> TimedCalls:
        """A launch on copies of the arrays, which are made anew before each call."""
        arrays = {name: each for name, each in given.items() if isinstance(each, np.ndarray)}
        copies = {name: each.copy() for name, each in arrays.items()}

        def anew() -> None:
            for name, each in arrays.items():
                np.copyto(copies[name], each)

        return TimedCalls([lambda: self._launch(config, grid, {**given, **copies}, device)], [anew])

    def _outcome(self, calls: TimedCalls, rivals: Rivals, control: TimedCalls | None) -> Outcome:
        try:
            calls.run[0]()  # proven and compiled
            self.measured += 1
            made: Measured = Stopwatch(REPEATS).measured(calls, rivals, control=control)
        except LegalityError as error:
            return Outcome("pruned", str(error).splitlines()[0])
        except (TiramisuError, MemoryError) as error:
            return Outcome("failed", str(error).splitlines()[0])
        return Outcome("stopped" if made.stopped else "measured", "", made.samples, made.pace)

    # -- which are measured

    def _pruned(self, given: Mapping[str, Any]) -> Sequence[Config]:
        """The configurations that are measured, as `prune_configs_by` says."""
        found = list(self.configs)
        early, model = self._pruning.get("early_config_prune"), self._pruning.get("perf_model")
        if early is not None:
            found = list(early(found, dict(given)))
            unknown = next((each for each in found if not isinstance(each, Config)), None)
            if unknown is not None or not found:
                name, returned = self.kernel.__tiramisu_source__.name, "nothing" if unknown is None else repr(unknown)
                raise TuningError(
                    f"early_config_prune of {name} returned {returned}: let it return some of the configurations"
                )
        if model is not None:
            top = self._pruning.get("top_k", 1.0)
            count = top if isinstance(top, int) else int(len(self.configs) * top)
            found.sort(key=lambda each: float(model(**given, **each.described)))
            found = found[: max(count, 1)]
        return found


def _type_of(given: Any) -> str:
    return f"{given.dtype}, {given.ndim}" if isinstance(given, np.ndarray) else type(given).__name__


def _none_runs(name: str, reasons: Sequence[str]) -> str:
    counted = "; ".join(f"{text} ({count})" for text, count in Counter(reasons).most_common(3))
    return f"no configuration of {name} can run: {counted}; give others, or make the kernel right for them"


def _check(tuned: Autotuned, kernel: Any) -> None:
    """Raise `DeclarationError` for what no kernel can be tuned by."""
    if not isinstance(kernel, Jit):
        raise DeclarationError(f"tm.autotune is for kernels: write @tm.jit below it, not {kernel!r}")
    source = kernel.__tiramisu_source__
    if not tuned.configs:
        raise DeclarationError(f"tm.autotune of {source.name} has no configs: give a list of tm.Config")
    for config in tuned.configs:
        if not isinstance(config, Config) or not isinstance(config.kwargs, Mapping):
            raise DeclarationError(f"configs of {source.name} has {config!r}: give tm.Config({{name: constant}})")
        wrong = next((name for name in config.kwargs if name not in source.constants), None)
        if wrong is not None:
            known = ", ".join(sorted(source.constants)) or "none"
            raise DeclarationError(f"{source.name} has no constant {wrong}: those annotated tl.constexpr are {known}")
    unlike = next((each for each in tuned.configs if set(each.kwargs) != set(tuned.configs[0].kwargs)), None)
    if unlike is not None:
        raise DeclarationError(f"configs of {source.name} name other constants: {tuned.configs[0]}, and {unlike}")
    free = [name for name in source.arguments if name not in tuned.configs[0].kwargs]
    strange = next((name for name in tuned.key if name not in free), None)
    if strange is not None:
        raise DeclarationError(f"the key of {source.name} has {strange}: name some of {', '.join(free)}")
    odd = next((name for name in tuned._pruning if name not in _PRUNING), None)
    if odd is not None:
        raise DeclarationError(f"prune_configs_by has {odd}: it takes {', '.join(_PRUNING)}")
