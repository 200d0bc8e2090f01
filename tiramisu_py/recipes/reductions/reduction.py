"""The recipe for reductions over any dimensions, on cores, GPUs and ranks."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py import Combine, Computation, Cores, GpuThreads, Reduction, Target, cores
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Role, not_combined, reductions_behind, rounds
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, checked_gpu, processor
from tiramisu_py.recipes.reductions.forms import Options, ReductionForm, Stages
from tiramisu_py.recipes.reductions.on_cores import CoreReductionSizes, ReductionOnCores, ReductionsOnCores
from tiramisu_py.recipes.reductions.on_gpu import ReductionsOnGpu, sizes_on_gpu
from tiramisu_py.recipes.reductions.on_ranks import ReductionOnRanks

GRADES = ("ordered", "everywhere", "run_to_run", "not_guaranteed", "gpu_to_gpu")
#: The GPU whose blocks are counted, where the user names none.
GPU = "A100"


@own_call_of("tm.recipes")
def reduction(
    *reductions: Computation,
    on: Cores | GpuThreads | None = None,
    determinism: str | None = None,
    cpu: Cpu | Target | str | None = None,
    gpu: str | int = GPU,
    across: Combine | None = None,
    coalesce: bool = True,
    sizes: Mapping[str, int] | None = None,
) -> AppliedCommands:
    """Schedule reductions over any dimensions for cores, a GPU or ranks, with what comes before and after.

    ::

        print(tm.recipes.reduction(total))          # total[h] += image[h, x, y], of 10 x 5
            -->   x, y, j, h = tm.iters("x y j h")
                  total = f["total"]
                  total.update.coalesce(x, y, into=j)
                  total.update.after(total.init, h)
                  total.update.parallelize(h)
                  total.update.vectorize(j, 64, combine=tm.PRIVATE)

    The loops over terms become one loop where their extents allow (`coalesce`). What then runs along contiguous memory
    decides: terms of one value are combined in lanes, values side by side. Values of several dimensions, in constant
    numbers and contiguous beyond a page, become one loop as well: strips of it, as many for each core of `cpu`, stay in
    the second-level cache while the terms are added, few rows in turn. For one core, ``replace(tm.target(), cores=1)``,
    all values are one strip, if they fit, and arrays are read from one end to the other. The bits of the result depend
    on the sizes only (`everywhere`); with ``determinism="ordered"`` terms are combined one by one, and with
    ``"not_guaranteed"`` in any order where that is faster.

    Reductions of the same values that are given together share loops on cores, and kernels on a GPU: independent ones,
    which may have different lengths there, and those that read each other at their own values. So does what is computed
    from them for each value or each term: give the last result, such as that of ``tm.mean``, ``tm.logsumexp`` or
    softmax, and all stages behind it are scheduled. Outputs that a reduction reads point by point are computed in its
    loops, too; other elementwise stages are inlined::

        print(tm.recipes.reduction(soft, on=tm.gpu()))      # soft[r, k] = exp(x[r, k] - top[r]) / total[r]
            -->   r, r0, r1, k, k1, k2 = tm.iters("r r0 r1 k k1 k2")
                  ...
                  f.order(top.init, top.update, total.init, total.update, soft, at=r1)
                  soft.tag_gpu(blocks=[r0], threads=[r1, k2])
                  top.update.tag_gpu(threads=[r1, k2], combine=tm.TREE)
                  ...

    On ``tm.cores()`` threads share the values, or blocks of terms of a single value or of a few columns. On
    ``tm.gpu()`` a thread, a warp or a block has the terms of each value, and loads 16 bytes at once where rows begin at
    multiples of them (by a fact such as ``assume="C % 4 == 0"``). Where facts about sizes show that the values do not
    fill `gpu` (a name, or an architecture), several blocks share each, and combine in a second kernel
    (``across=tm.TWO_PASS``), or as `across` says: ``tm.LAST_BLOCK``, or ``tm.ATOMIC`` with
    ``determinism="not_guaranteed"``. Give `derive_transfers` afterwards.
    On ``tm.cores(ranks=range(4))`` each rank has a block of the values, or of the terms of a single value, which ranks
    combine in a tree; inputs that are not distributed yet are, alike.

    `sizes` are given by name, instead of those that follow from sizes and machine; `reduction_space` has values to
    choose among with `tune`. With ``coalesce=False`` loops stay as they are declared. Returns the commands that were
    applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for what depends on no reduction, or has been scheduled, and the error of a command that is
    refused; then none of the commands is applied.
    """
    recipe = Recipe("reduction", list(reductions))
    target = checked_target("reduction", on)
    if determinism is not None and determinism not in GRADES:
        raise ArgumentError(f"reduction: determinism={determinism!r}: give one of {', '.join(GRADES)}")
    machine, options = processor("reduction", cpu), Options(determinism == "ordered", bool(coalesce))
    stages = Stages.of(recipe)
    ranks = target.ranks if isinstance(target, Cores) else None
    checked = [_checked(recipe, each) for each in (stages.reductions if ranks is None else recipe.stages)]
    with recipe.together():
        if isinstance(target, GpuThreads):
            ReductionsOnGpu(recipe, target, gpu, _across(across, determinism), options, sizes or {}).apply(stages)
        elif isinstance(ranks, range):
            for each in checked:
                form = ReductionForm(recipe, each, options)
                plan = ReductionOnCores(form, CoreReductionSizes.of(form, machine).replaced(sizes or {}))
                ReductionOnRanks(form, plan, ranks, _over_ranks(form, determinism)).apply()
                form.inline_chain()
        else:
            ReductionsOnCores(recipe, machine, options, sizes or {}).apply(stages)
    return recipe.commands()


@own_call_of("tm.recipes")
def reduction_space(
    of: Computation,
    *,
    on: Cores | GpuThreads | None = None,
    cpu: Cpu | Target | str | None = None,
    gpu: str | int = GPU,
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
    recipe = Recipe("reduction_space", [of])
    target = checked_target("reduction_space", on)
    form = ReductionForm(recipe, _checked(recipe, of))
    if isinstance(target, GpuThreads):
        return sizes_on_gpu(form, gpu).space(form)
    return CoreReductionSizes.of(form, processor("reduction_space", cpu)).space(form)


def checked_target(recipe: str, on: object) -> Cores | GpuThreads:
    """The target that a recipe schedules for; raises `ArgumentError`."""
    if on is None:
        return cores()
    if isinstance(on, GpuThreads):
        return checked_gpu(recipe, on)
    if isinstance(on, Cores) and on == Cores(ranks=on.ranks):
        ranks = on.ranks
        if ranks is None or (isinstance(ranks, range) and ranks == range(max(len(ranks), 1))):
            return on
    raise ArgumentError(
        f"{recipe}: on={on!r}: it schedules for tm.cores(), tm.gpu(), or tm.cores(ranks=range(4)) for four ranks"
    )


def _across(asked: Combine | None, determinism: str | None) -> Combine:
    """How blocks combine their parts of a value; raises `ArgumentError`."""
    any_order = determinism == "not_guaranteed"
    if asked is None:
        return Combine.ATOMIC if any_order else Combine.TWO_PASS
    if asked not in (Combine.TWO_PASS, Combine.LAST_BLOCK, *((Combine.ATOMIC,) if any_order else ())):
        advice = "" if any_order else ', or tm.ATOMIC with determinism="not_guaranteed"'
        raise ArgumentError(f"reduction: across={asked!r}: choose tm.TWO_PASS or tm.LAST_BLOCK{advice}")
    return asked


def _over_ranks(form: ReductionForm, determinism: str | None) -> Combine:
    """How ranks combine: by MPI where its order changes no bit, or where any order will do; else in a tree."""
    any_order = determinism == "not_guaranteed" or not rounds(form.declared)
    return Combine.PRIVATE if any_order and not not_combined(form.declared) else Combine.TREE


def _checked(recipe: Recipe, given: Computation) -> Reduction:
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
