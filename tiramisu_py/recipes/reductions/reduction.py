"""The recipe for reductions over any dimensions, on cores, GPUs and ranks."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py.build.target_processor import Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function import Computation, Reduction
from tiramisu_py.function.handles.computations import reductions_behind
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.ranks.combined_reductions import not_combined
from tiramisu_py.program.statement import Role
from tiramisu_py.program.targets import Cores, Gpu
from tiramisu_py.proof.reductions.bits import rounds
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recorded import Recorded, processor
from tiramisu_py.recipes.reductions.reduction_form import ReductionForm
from tiramisu_py.recipes.reductions.reduction_on_cores import CoreReductionSizes, ReductionOnCores
from tiramisu_py.recipes.reductions.reduction_on_gpu import ReductionOnGpu, sizes_on_gpu
from tiramisu_py.recipes.reductions.reduction_on_ranks import ReductionOnRanks
from tiramisu_py.recipes.reductions.strips import StripLoops
from tiramisu_py.schedule.instances.target_kinds import cores

GRADES = ("ordered", "everywhere", "run_to_run", "not_guaranteed", "gpu_to_gpu")
#: The GPU whose blocks are counted, where the user names none.
GPU = "A100"


def reduction(
    *reductions: Computation,
    on: Cores | Gpu | None = None,
    determinism: str | None = None,
    cpu: Cpu | Target | None = None,
    gpu: str | int = GPU,
    sizes: Mapping[str, int] | None = None,
) -> str:
    """Schedule reductions over any dimensions for cores, a GPU or ranks, and inline what they read.

    ::

        print(tm.recipes.reduction(total))          # total[h] += image[h, x, y], of 10 x 5
            -->   j, = tm.iters("j")
                  total.update.coalesce(x, y, into=j)
                  total.update.after(total.init, h)
                  total.update.parallelize(h)
                  total.update.vectorize(j, 64, combine=tm.PRIVATE)

    The loops over terms become one loop where their extents allow (`coalesce`). What then runs along contiguous memory
    decides: terms of one value are combined in lanes, values side by side. The bits of the result depend on the sizes
    only (`everywhere`); with ``determinism="ordered"`` terms are combined one by one, and with ``"not_guaranteed"`` in
    any order where that is faster.

    On ``tm.cores()`` threads share the values, or blocks of terms of a single value or of a few columns. On
    ``tm.gpu()`` a thread, a warp or a block has the terms of each value, and loads 16 bytes at once where rows begin at
    multiples of them (by a fact such as ``assume="C % 4 == 0"``). Where facts about sizes show that the values do not
    fill `gpu` (a name, or an architecture), several blocks share each, and combine in a second kernel
    (``across=tm.TWO_PASS``). Give `derive_transfers` afterwards. On ``tm.cores(ranks=range(4))`` each rank has a block
    of the values, or of the terms of a single value, which ranks combine in a tree; inputs that are not distributed yet
    are, alike.

    `sizes` are given by name, instead of those that follow from sizes and machine; `reduction_space` has values to
    choose among with `tune`. Returns the commands that were applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for what is no reduction, or has been scheduled, and the error of a command that is refused;
    then none of the commands is applied.
    """
    recipe = Recorded("reduction", list(reductions))
    target = checked_target("reduction", on)
    if determinism is not None and determinism not in GRADES:
        raise ArgumentError(f"reduction: determinism={determinism!r}: give one of {', '.join(GRADES)}")
    machine, checked = processor("reduction", cpu), [_checked(recipe, each) for each in reductions]
    with recipe.together():
        strips: StripLoops | None = None
        for each in checked:
            form = ReductionForm(recipe, each, determinism == "ordered")
            if isinstance(target, Gpu):
                any_order = determinism == "not_guaranteed" and form.has_one_value
                across = Combine.ATOMIC if any_order else Combine.TWO_PASS
                ReductionOnGpu(form, target, sizes_on_gpu(form, gpu).replaced(sizes or {}), across).apply()
            else:
                plan = ReductionOnCores(form, CoreReductionSizes.of(form, machine).replaced(sizes or {}))
                if isinstance(target.ranks, range):
                    ReductionOnRanks(form, plan, target.ranks, _over_ranks(form, determinism)).apply()
                else:
                    strips = plan.apply(strips)
            form.inline_chain()
    return recipe.text()


def reduction_space(
    of: Computation, *, on: Cores | Gpu | None = None, cpu: Cpu | Target | None = None, gpu: str | int = GPU
) -> dict[str, list[int]]:
    """Values of the `sizes` of `reduction` around those that follow from sizes and machine, for `tune`.

    ::

        def make(**sizes):
            f, total = sums()
            tm.recipes.reduction(total, sizes=sizes)
            return f

        tm.tune(make, tm.recipes.reduction_space(sums()[1]), sizes={"N": 1 << 20})

    Four numbers on cores, ``{"lanes": [...], "block": [...], "rows": [...], "strip": [...]}``, or on a GPU,
    ``{"threads": [...], "group": [...], "vector": [...], "loads": [...]}``, of which `group` divides `threads`; a
    number that the form of the reduction does not use has one value. Raises `ArgumentError`.
    """
    recipe = Recorded("reduction_space", [of])
    target = checked_target("reduction_space", on)
    form = ReductionForm(recipe, _checked(recipe, of))
    if isinstance(target, Gpu):
        return sizes_on_gpu(form, gpu).space(form)
    return CoreReductionSizes.of(form, processor("reduction_space", cpu)).space(form)


def checked_target(recipe: str, on: object) -> Cores | Gpu:
    """What a recipe schedules for; raises `ArgumentError`."""
    if on is None:
        return cores()
    if isinstance(on, Gpu) and on == Gpu(on.device, stream=on.stream):
        return on
    if isinstance(on, Gpu):
        repair = "tm.gpu(device, stream=...), and sizes="
        raise ArgumentError(f"{recipe}: on={on!r}: it chooses the threads itself: give {repair}")
    if isinstance(on, Cores) and on == Cores(ranks=on.ranks):
        ranks = on.ranks
        if ranks is None or (isinstance(ranks, range) and ranks == range(max(len(ranks), 1))):
            return on
    raise ArgumentError(
        f"{recipe}: on={on!r}: it schedules for tm.cores(), tm.gpu(), or tm.cores(ranks=range(4)) for four ranks"
    )


def _over_ranks(form: ReductionForm, determinism: str | None) -> Combine:
    """How ranks combine: by MPI where its order changes no bit, or where any order will do; else in a tree."""
    any_order = determinism == "not_guaranteed" or not rounds(form.declared)
    return Combine.PRIVATE if any_order and not not_combined(form.declared) else Combine.TREE


def _checked(recipe: Recorded, given: Computation) -> Reduction:
    """A reduction that nothing has scheduled; raises `ArgumentError` for anything else."""
    if not isinstance(given, Reduction):
        behind = [f'f["{each}"]' for each in reductions_behind(recipe.function.program, given.name)]
        raise ArgumentError(
            f"reduction: {given} is not a reduction: name those that it is computed from" + ", ".join(["", *behind])
        )
    declared = recipe.function.algorithm.computations[given.name]
    program = recipe.function.program
    loops = {statement.role: program.loop_names(statement) for statement in program.statements_of(given.name)}
    if not any(program.loops[x].tag for s in program.statements_of(given.name) for x in s.loops) and (
        declared.guards and loops.get(Role.UPDATE) == (*declared.over, *declared.iterators)
    ):
        raise ArgumentError(f"reduction: {given} is a scatter, whose terms say where they go: see f.auto_schedule()")
    tagged = any(program.loops[x].tag for s in program.statements_of(given.name) for x in s.loops)
    if tagged or loops != {Role.INIT: declared.iterators, Role.UPDATE: declared.point_iterators}:
        raise ArgumentError(f"reduction: {given} has been scheduled already, or cut: give the recipe before")
    if declared.group:
        raise ArgumentError(f"reduction: {given} was declared together with others, which share its loops")
    return given
