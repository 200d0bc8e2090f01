"""Programs of all targets: the proof beside the target's judge, the loops after each pass, the code of each compiler.

Arrays have special values wherever the report promises all bits: not a number, infinities, -0.0, the ends of integers.
"""

from __future__ import annotations

import random
import resource
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from tests.oracle.agreeing import cooperative_agreement, gpu_agreement, rank_agreement
from tests.oracle.agreeing.after_passes import wrong_after_a_pass
from tests.oracle.agreeing.agreement import NO_JUDGE, Array, Call, Verdict, as_declared, verdict
from tests.oracle.generators.script import Script
from tests.oracle.judges.cpu_judge import judged as judged_on_cores
from tests.oracle.judges.given import GivenValues
from tests.oracle.judges.judge import Failure, judge, sizes
from tests.oracle.judges.plain import points
from tests.oracle.judges.values import Values
from tests.targets.machines import TARGETS, Target
from tests.targets.programs import Call as TargetCall
from tests.targets.programs import Program, printed
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.program.loops import Rank
from tiramisu_py.program.statement import Role
from tiramisu_py.proof.report import PRESERVED

#: Sizes beyond the small ones: a vector and one more, a prime, one size much larger than the other.
LARGER = ((17, 5), (8, 19), (33, 2))
#: The least and most of what is judged at each program: all small sizes where there are not more.
MOST_SIZES = 9
#: Of what judges know nothing: lanes past the end, what callers keep, messages of all ranks together.
UNRUN = ("remainder='pad'", ".keep()", "collectives=True")
#: Nor of the block of a kernel that comes last; machines do.
UNJUDGED = (*UNRUN, "across=tm.LAST_BLOCK")
#: Refusals of which judges know nothing: which terms are neighbours, what one operation can copy, that a tree is of
#: all threads of a block and of one value, and that registers are a thread's own.
UNKNOWN_REASONS = (
    "is not commutative", "is collapsed to one operation, but", "combines what all threads of a block",
    "which is for one value, and", "which is in registers, but exists once",
)  # fmt: skip
#: Compilers and processors whose code is tried, in turn.
MACHINES = (
    "gcc-avx512",
    "clang-avx512",
    "gcc-sse2",
    "clang-generic",
    "gcc-avx2",
    "gcc-generic",
    "gcc-neon",
    "clang-neon",
)


def target_of(script: Script) -> str:
    """Where a program runs."""
    program = script.program
    if (
        program.ranks.grid
        or program.ranks.distributions
        or any(isinstance(loop.tag, Rank) for loop in program.loops.values())
    ):
        return "ranks"
    waits = any(statement.role in (Role.WAIT, Role.BARRIER) for statement in program.statements.values())
    return "gpu" if waits or gpu_agreement.uses_gpu(script) else "cores"


def has_values(script: Script) -> bool:
    """Whether values decide which executions there are."""
    return any(computation.guards for computation in script.program.algorithm.computations.values())


def is_judged(script: Script) -> bool:
    """Whether a judge knows all of the program: see `UNJUDGED`. That of ranks knows nothing of their GPUs."""
    of_both = target_of(script) == "ranks" and gpu_agreement.uses_gpu(script)
    return not of_both and not any(word in script.text for word in UNJUDGED)


def runs(script: Script) -> bool:
    """Whether machines know all of it: but for what `UNRUN` names, and values that decide what ranks execute."""
    target = target_of(script)
    if target == "ranks":
        return not any(word in script.text for word in UNJUDGED) and not has_values(script)
    return is_judged(script) or (target == "gpu" and not any(word in script.text for word in UNRUN))


def small(script: Script) -> list[dict[str, int]]:
    """All small sizes for which a program is defined."""
    return sizes(script.program, 5 if len(script.program.algorithm.params) == 1 else 3)


def larger(script: Script) -> list[dict[str, int]]:
    """Larger sizes for which it is defined."""
    names, context = script.program.algorithm.params, script.program.context.params().from_params()
    found = (dict(zip(names, each, strict=False)) for each in LARGER)
    return [params for params in found if points(context, params)]


def some(script: Script, seed: int, count: int = MOST_SIZES) -> list[dict[str, int]]:
    """Some of the small sizes, the least and the greatest among them."""
    every = small(script)
    if len(every) <= count:
        return every
    inner = random.Random(seed).sample(every[1:-1], count - 2)
    return [every[0], *inner, every[-1]]


# -- the proof beside the judge


def compared(script: Script, seed: int) -> Verdict:
    """The proof's verdict beside that of the target's judge; what is refused is looked at at every small size."""
    report = script.function.check()
    if not is_judged(script):
        return Verdict("accepted" if report.ok else "not judged", NO_JUDGE)
    if has_values(script):
        return _of_values(script, seed)
    by = {"ranks": rank_agreement.judged, "gpu": gpu_agreement.judged, "cores": judged_on_cores}[target_of(script)]
    if report.ok:
        return verdict(script, by, some(script, seed))
    found = verdict(script, by, small(script))
    unknown = found.kind == "strict" and any(reason in found.text for reason in UNKNOWN_REASONS)
    return Verdict("refused") if unknown else found


def _of_values(script: Script, seed: int) -> Verdict:
    """A few arrays that are as their facts say; a refusal may be for arrays that are not among them."""
    report = script.function.check()
    for params in some(script, seed, 6):
        call = WholeCall(script, params, seed)
        failures = judged_with(script, params, call.given)
        if failures:
            return Verdict("unsound" if report.ok else "refused", f"accepted, but at {params}: {failures[0]}")
    return Verdict("accepted" if report.ok else "not confirmed", "" if report.ok else str(report.violations[0]))


def judged_with(script: Script, params: Mapping[str, int], arrays: Mapping[str, Array]) -> list[Failure]:
    """What the target's judge finds at given arrays."""
    target, values = target_of(script), GivenValues(script.program.algorithm, params, arrays)
    if target == "cores":
        return judge(script.program, params, given=values)
    return (rank_agreement if target == "ranks" else gpu_agreement).judged(script, params, values)


# -- values


@dataclass(frozen=True)
class WholeCall(Call):
    """A call with special values, where they change nothing but what `evaluate()` says they do."""

    @cached_property
    def given(self) -> dict[str, Array]:
        """The inputs, as their facts say."""
        rng = np.random.default_rng([self.seed, *self.params.values()])
        algorithm = self.script.program.algorithm
        values = Values(algorithm, self.params)
        exact = self.script.function.check().bits != PRESERVED
        found: dict[str, Array] = {}
        for name, source in algorithm.inputs.items():
            shape = values.shape(source)
            if source.values is not None:
                found[name] = as_declared(rng, source, values.range_of(source), shape)
            else:
                found[name] = _special(rng, source.dtype.numpy, shape, exact)
        return found

    @cached_property
    def expected(self) -> dict[str, Array]:
        """The outputs; what overflows on the way does so everywhere."""
        with np.errstate(all="ignore"):
            outputs = self.script.program.algorithm.outputs
            found = self.script.function.evaluate(**self.given, **self.params)
            return dict(zip(outputs, found if len(outputs) > 1 else (found,), strict=True))

    def wrong_loops(self, function: LoopFunction, timing: int | None = None) -> str:
        """As for any call."""
        with np.errstate(all="ignore"):
            return super().wrong_loops(function, timing)


def _special(rng: np.random.Generator, dtype: object, shape: tuple[int, ...], exact: bool) -> Array:
    """Small whole numbers; where all bits are kept, now and then any number, or a special one."""
    kind = np.dtype(dtype)  # type: ignore[call-overload]
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    is_integer = kind.kind in "iu"
    low = 0 if kind.kind == "u" else -3
    plain = rng.integers(low, 5, size=shape)
    if is_integer:
        info = np.iinfo(kind)
        ends = np.array([info.min, info.max, info.min + 1, info.max // 2 + 1, 0, 1], kind)
        few = rng.random(shape) < rng.choice((0, 0.1, 0.5))
        return np.where(few, rng.choice(ends, shape), plain.astype(kind)).astype(kind)
    if exact:
        return plain.astype(kind)
    with np.errstate(all="ignore"):
        ends = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3.3e38, 65504.0, 0.1], np.float64).astype(kind)
        few = rng.random(shape) < rng.choice((0, 0.1, 0.5))
        return np.where(few, rng.choice(ends, shape), rng.standard_normal(shape).astype(kind)).astype(kind)


# -- loops and code


def wrong_loops(script: Script, seed: int, register: int) -> str:
    """What loops compute wrong after a pass, at a few sizes, for the vectors of one processor."""
    where = [*some(script, seed, 3), *larger(script)[:1]]
    if target_of(script) == "ranks":
        calls = [rank_agreement.RankCall(script, params, seed) for params in where[:3]]
        return wrong_after_a_pass(
            script, lambda loops: next(filter(None, (call.wrong_loops(loops, seed) for call in calls)), "")
        )
    own = [WholeCall(script, params, seed) for params in where]
    return wrong_after_a_pass(
        script, lambda loops: next(filter(None, (call.wrong_loops(loops) for call in own)), ""), register
    )


def machine(turn: int) -> Target:
    """One of the compilers and processors that are here."""
    known = [each for each in TARGETS if each.name in MACHINES and not each.missing]
    chosen = known[turn % len(known)]
    return replace(chosen, flags=(*chosen.flags, "-Wno-unused-but-set-variable"))  # of values that nothing reads


def wrong_code(scripts: Sequence[Script], seeds: Sequence[int], on: Target) -> list[str]:
    """What the code of several programs in one source computes wrong, on one machine."""
    functions = [script.function.show("lowered", on.register) for script in scripts]
    with tempfile.TemporaryDirectory() as folder:
        program = Program(on, printed(functions), Path(folder))
        calls: list[tuple[int, WholeCall, TargetCall]] = []
        for which, (script, seed) in enumerate(zip(scripts, seeds, strict=True)):
            for params in [*some(script, seed, 3), *larger(script)]:
                call = WholeCall(script, params, seed)
                calls.append((which, call, TargetCall(which, params, _arguments(call, functions[which]))))
        answers = program([call for _, _, call in calls])
    found = [""] * len(scripts)
    for (which, call, _), answer in zip(calls, answers, strict=True):
        said = found[which] or call.wrong_values(answer)
        found[which] = said and (said if str(on) in said else f"{on}: {said}")
    return found


def wrong_on_simulator(script: Script, seed: int) -> str:
    """What the kernels of a program compute wrong as they are printed, on simulated GPUs with all checks.

    These reserve more addresses than they use: a limit of this process on its memory is lifted.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    kernel = script.function.compile(device="simulator", sanitize=True)
    for params in some(script, seed, 3):
        call = WholeCall(script, params, seed)
        for number, timing in cooperative_agreement.RUNS[1:3]:
            wrong = call.wrong_kernel(kernel.seeded(number, timing))
            if wrong:
                return f"on simulated GPUs, {timing}: {wrong}"
    return ""


def _arguments(call: WholeCall, function: LoopFunction) -> dict[str, Array]:
    """The arguments of a function: inputs, and arrays in which nothing has been stored."""
    found: dict[str, Array] = {}
    for declared in function.arguments:
        if not isinstance(declared, ArrayArgument):
            raise AssertionError(f"{declared.name} is no array")
        shape = call._shape(declared.name) if declared.name in call.script.program.buffers else ()
        if declared.is_input:
            found[declared.name] = call.given[declared.name].copy()
        else:
            found[declared.name] = np.full(shape, 77, declared.dtype.numpy)
    return found
