"""Kinds of random programs: how a seed makes one, and what each judge says of it.

The proof is compared with a judge that enumerates executions and uses no isl. What is proven runs on the adversarial
machine after each pass, and as compiled code: on the simulated GPU where it uses one, or as PTX on a machine for that.
`evaluate()` says what is right.
Programs with ranks have no code here: it needs mpirun.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.oracle.agreeing import (
    agreement,
    block_agreement,
    cooperative_agreement,
    gpu_agreement,
    gradient_agreement,
    ptx_agreement,
    rank_agreement,
    whole_agreement,
)
from tests.oracle.agreeing.after_passes import wrong_after_a_pass
from tests.oracle.agreeing.agreement import Call, Verdict
from tests.oracle.agreeing.cooperative_agreement import splits
from tests.oracle.agreeing.cooperative_ranks import is_damaged, random_ranked_script, wrong_on_ranks
from tests.oracle.agreeing.fact_judge import calls, compiled_facts, of_facts
from tests.oracle.agreeing.one_source import kernels
from tests.oracle.agreeing.rank_agreement import RankCall
from tests.oracle.generators.block_random import random_block_script
from tests.oracle.generators.cooperative_random import random_cooperative_script
from tests.oracle.generators.cpu_random import random_cpu_script
from tests.oracle.generators.fact_random import random_fact_script
from tests.oracle.generators.gpu_random import random_gpu_script
from tests.oracle.generators.gradient_random import random_gradient_script
from tests.oracle.generators.group_random import random_group_script
from tests.oracle.generators.lane_random import random_lane_script
from tests.oracle.generators.random_programs import random_script
from tests.oracle.generators.rank_patterns import random_pattern_script
from tests.oracle.generators.rank_random import random_derived_script, random_rank_script
from tests.oracle.generators.row_random import random_row_script
from tests.oracle.generators.run_random import random_run_script
from tests.oracle.generators.script import Script, Seed
from tests.oracle.generators.stage_random import random_stage_script
from tests.oracle.generators.sum_random import random_sum_script
from tests.oracle.generators.whole.scripts import random_whole_script
from tests.oracle.judges.cpu_judge import judged
from tests.oracle.judges.judge import judge, sizes
from tests.oracle.judges.plain import points
from tiramisu_py.ir import LoopFunction

#: The bytes of a vector: of AVX-512, of AVX2, and of other processors.
REGISTERS = (64, 32, 16)
#: Sizes at which strips, windows and tiles are full, by one element too few or too many, or exactly.
LARGER = ((9, 11, 7, 9), (17, 8, 5, 6), (4, 16, 9, 5))


@dataclass
class Drawn:
    """A random program, and its calls: what `evaluate()` says is worked out once for the loops and the code."""

    seed: int
    script: Script
    calls: dict[tuple[int, ...], Call] = field(default_factory=dict)

    def call(self, params: Mapping[str, int]) -> Call:
        """The call at one size."""
        return self.calls.setdefault(tuple(params.values()), Call(self.script, params, self.seed))


#: What the compiled code of several programs computes wrong, in their order.
OfCode = Callable[[Sequence[Drawn]], Sequence[str]]


@dataclass(frozen=True)
class Kind:
    """Programs of a kind.

    `compared` is the proof beside the judge; `wrong` are the verdicts that no program may have. Of what is proven,
    `wrong_loops` and `wrong_code` say what is computed wrong. `runs` and `compiles` tell programs of which they
    have something to say.
    """

    made: Callable[[Seed], Script]
    compared: Callable[[Script, int], Verdict]
    wrong_loops: Callable[[Drawn], str]
    wrong_code: OfCode | None = None
    runs: Callable[[Script], bool] = lambda _: True
    compiles: Callable[[Script], bool] = lambda _: True
    wrong: tuple[str, ...] = ("unsound", "strict")


# -- cores


def small(script: Script) -> list[dict[str, int]]:
    """All small sizes for which a program is defined."""
    return sizes(script.program, {1: 5, 2: 3}.get(len(script.program.algorithm.params), 2))


def larger(script: Script) -> list[dict[str, int]]:
    """Larger sizes for which a program is defined."""
    names = script.program.algorithm.params
    context = script.program.context.params().from_params()
    return [params for params in (dict(zip(names, sizes, strict=False)) for sizes in LARGER) if points(context, params)]


def of_any(script: Script, _seed: int) -> Verdict:
    """Where both refuse, the judge should find a failure of the kind that the proof reports first."""
    found = agreement.compared(script)
    if found.kind == "refused" and not agreement.kind_agrees(script):
        return Verdict("another kind", str(script.function.check().violations[0]))
    return found


def is_padded(script: Script) -> bool:
    """Whether lanes past the end of a loop may load what nothing has written: they are no executions of the program."""
    return "remainder='pad'" in script.text


def of_cores(script: Script, _seed: int) -> Verdict:
    """The judge knows nothing of lanes past the end."""
    if is_padded(script):
        return Verdict("accepted" if script.function.check().ok else "refused")
    return agreement.verdict(script, judged, small(script))


def of_stages(script: Script, _seed: int) -> Verdict:
    """The judge knows nothing of the form that a call asks of its arrays."""
    return agreement.verdict(script, lambda s, params: judge(s.program, params, tries=1), small(script))


def any_loops(drawn: Drawn) -> str:
    """At every other small size, and two larger ones."""
    return _wrong_at(drawn, [*small(drawn.script)[::2], *larger(drawn.script)[:2]])


def core_loops(drawn: Drawn) -> str:
    """For the vectors of one of several processors, at a few sizes."""
    choice, few = random.Random(drawn.seed), small(drawn.script)
    register = choice.choice(REGISTERS)
    chosen = [*choice.sample(few, min(3, len(few))), *larger(drawn.script)]
    return _wrong_at(drawn, chosen[:4], register)


def _wrong_at(drawn: Drawn, where: Sequence[Mapping[str, int]], register: int = 64) -> str:
    def wrong(function: LoopFunction) -> str:
        return next(filter(None, (drawn.call(params).wrong_loops(function) for params in where)), "")

    return wrong_after_a_pass(drawn.script, wrong, register)


def compiled_together(programs: Sequence[Drawn]) -> list[str]:
    """At all small sizes and the larger ones, from one source."""
    made = kernels({f"f_{number}_{each.seed}": each.script for number, each in enumerate(programs)})
    found = []
    for each, kernel in zip(programs, made.values(), strict=True):
        if isinstance(kernel, str):
            found.append(kernel)
            continue
        calls = map(each.call, [*small(each.script), *larger(each.script)])
        found.append(next(filter(None, (call.wrong_kernel(kernel) for call in calls)), ""))
    return found


# -- values as places and bounds


def fact_loops(drawn: Drawn) -> str:
    """With arrays as the facts say, each at a time of its own."""
    given = list(calls(drawn.script, drawn.seed))

    def wrong(function: LoopFunction) -> str:
        timings = enumerate(given, drawn.seed)
        return next(filter(None, (call.wrong_loops(function, timing) for timing, call in timings)), "")

    return wrong_after_a_pass(drawn.script, wrong)


def fact_code(programs: Sequence[Drawn]) -> list[str]:
    """With the same arrays."""
    return compiled_facts([(each.seed, each.script) for each in programs])


# -- GPUs


def gpu_loops(drawn: Drawn) -> str:
    """At every other small size."""
    return _wrong_at(drawn, gpu_agreement.small(drawn.script)[::2])


def cooperative_loops(drawn: Drawn) -> str:
    """At a few sizes and splits."""
    return _wrong_at(drawn, splits(drawn.script, drawn.seed + 1, 3))


def simulated(programs: Sequence[Drawn]) -> list[str]:
    """One after the other."""
    return [cooperative_agreement.wrong_kernel(each.script, each.seed) for each in programs]


def on_machine(programs: Sequence[Drawn]) -> list[str]:
    """What nvcc or NVRTC makes of their kernels, on the machine for PTX, beside the simulator."""
    return ptx_agreement.wrong_on_machine([each.script for each in programs], [each.seed for each in programs])


# -- block programs


def block_loops(drawn: Drawn) -> str:
    """At a few of the sizes at which programs are interpreted."""
    return _wrong_at(drawn, random.Random(drawn.seed).sample(block_agreement.small(drawn.script), 3))


def block_code(programs: Sequence[Drawn]) -> list[str]:
    """On cores from one source, and on simulated GPUs."""
    cores = [each for each in programs if not gpu_agreement.uses_gpu(each.script)]
    found = {id(each): said for each, said in zip(cores, compiled_together(cores) if cores else [], strict=True)}
    return [
        found[id(each)] if id(each) in found else cooperative_agreement.wrong_kernel(each.script, each.seed, 3)
        for each in programs
    ]


# -- ranks


def rank_loops(drawn: Drawn) -> str:
    """At every third small size, each with three timings."""
    calls = [RankCall(drawn.script, params, drawn.seed) for params in rank_agreement.small(drawn.script)[1::3]]

    def wrong(function: LoopFunction) -> str:
        seeds = enumerate(calls, drawn.seed)
        runs = (call.wrong_loops(function, 3 * seed + timing) for seed, call in seeds for timing in range(3))
        return next(filter(None, runs), "")

    return wrong_after_a_pass(drawn.script, wrong)


def derived(script: Script, _seed: int) -> Verdict:
    """Derived exchanges are proven, and bring what is missing and nothing more.

    That is as many elements as each rank reads and has not; more where ranks compute some twice.
    """
    if not rank_agreement.communicates(script):
        return rank_agreement.compared(script)
    report = script.function.check()
    if not report.ok:
        return Verdict("not proven", str(report))
    for params in rank_agreement.small(script) if "derive_transfers()" in script.text else ():
        sent, least = script.function.cost("communication", **params).elements, rank_agreement.needed(script, params)
        if sent != least:
            return Verdict("unneeded", f"at {params}: {sent} elements are sent, {least} needed")
    return rank_agreement.compared(script)


def ranked(script: Script, _seed: int) -> Verdict:
    """What is derived is proven, unless it has been damaged."""
    report = script.function.check()
    if report.ok:
        return Verdict("accepted")
    return Verdict("refused") if is_damaged(script) else Verdict("not proven", str(report))


def ranked_loops(drawn: Drawn) -> str:
    """At two sizes; what has been damaged and is proven all the same, at several times."""
    return wrong_on_ranks(drawn.script, drawn.seed, 2, 4 if is_damaged(drawn.script) else 1)


def _of_ranks(made: Callable[[int], Script], compared: Callable[[Script, int], Verdict], *wrong: str) -> Kind:
    return Kind(made, compared, rank_loops, runs=rank_agreement.communicates, wrong=("unsound", *wrong))


def _rank_verdict(script: Script, _seed: int) -> Verdict:
    """A few are refused that are right: the proof asks for what holds on any number of ranks."""
    return rank_agreement.compared(script)


# -- all targets


def whole_loops(drawn: Drawn) -> str:
    """For the vectors of one of several processors."""
    return whole_agreement.wrong_loops(drawn.script, drawn.seed, random.Random(drawn.seed).choice(REGISTERS))


def whole_code(programs: Sequence[Drawn]) -> list[str]:
    """On cores by one of several compilers, for one of several processors; kernels on simulated GPUs."""
    on = whole_agreement.machine(random.Random(programs[0].seed).randrange(1000))
    cores = [each for each in programs if not gpu_agreement.uses_gpu(each.script)]  # it may still wait for none
    wrong = whole_agreement.wrong_code([each.script for each in cores], [each.seed for each in cores], on)
    found = {id(each): said for each, said in zip(cores, wrong, strict=True)}
    return [
        found[id(each)] if id(each) in found else whole_agreement.wrong_on_simulator(each.script, each.seed)
        for each in programs
    ]


def runs_whole(script: Script) -> bool:
    """Whether the adversarial machine knows all of it, though a judge may not."""
    return whole_agreement.runs(script)


def compiles_whole(script: Script) -> bool:
    """Code of ranks needs mpirun."""
    return runs_whole(script) and whole_agreement.target_of(script) != "ranks"


KINDS: Mapping[str, Kind] = {
    "whole": Kind(
        random_whole_script, whole_agreement.compared, whole_loops, whole_code,
        runs=runs_whole, compiles=compiles_whole, wrong=("unsound",),
    ),
    "any": Kind(random_script, of_any, any_loops, compiled_together),
    "cores": Kind(
        random_cpu_script, of_cores, core_loops, compiled_together, runs=lambda script: not is_padded(script)
    ),
    "lanes": Kind(
        random_lane_script, of_cores, core_loops, compiled_together,
        runs=lambda script: not is_padded(script), wrong=("unsound",),
    ),
    "sums": Kind(random_sum_script, of_any, any_loops, compiled_together, wrong=("unsound",)),
    "groups": Kind(random_group_script, of_any, any_loops, compiled_together, wrong=("unsound",)),
    "stages": Kind(random_stage_script, of_stages, any_loops, compiled_together, wrong=("unsound",)),
    "gradients": Kind(
        random_gradient_script, gradient_agreement.compared, any_loops, compiled_together,
        wrong=("unsound", "wrong gradient"),
    ),
    "facts": Kind(random_fact_script, of_facts, fact_loops, fact_code, wrong=("unsound",)),
    "runs": Kind(random_run_script, of_facts, fact_loops, fact_code, wrong=("unsound",)),
    "gpu": Kind(
        random_gpu_script, lambda s, _: gpu_agreement.compared(s), gpu_loops, simulated,
        runs=gpu_agreement.uses_gpu, compiles=gpu_agreement.uses_gpu,
    ),
    "cooperative": Kind(
        random_cooperative_script, cooperative_agreement.compared, cooperative_loops, simulated,
        runs=cooperative_agreement.copies, compiles=cooperative_agreement.copies,
    ),
    "ptx": Kind(
        ptx_agreement.random_ptx_script, cooperative_agreement.compared, cooperative_loops, on_machine,
        runs=gpu_agreement.uses_gpu, compiles=ptx_agreement.has_kernels,
    ),
    "blocks": Kind(random_block_script, block_agreement.compared, block_loops, block_code, wrong=("unsound",)),
    "rows": Kind(random_row_script, block_agreement.compared, block_loops, block_code, wrong=("unsound",)),
    "ranks": _of_ranks(random_rank_script, _rank_verdict),
    "patterns": _of_ranks(random_pattern_script, _rank_verdict),
    "derived": _of_ranks(random_derived_script, derived, "not proven", "unneeded"),
    "ranked": Kind(random_ranked_script, ranked, ranked_loops, wrong=("not proven",)),
}  # fmt: skip
