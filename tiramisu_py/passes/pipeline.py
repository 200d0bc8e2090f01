"""The passes of each target, in their order: from scheduled loops to the loops that are emitted.

A pass list is a tuple, with the reason for each pass's place beside it. `PIPELINE` has them all; another target is
another tuple. `optimise` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeVar

from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import KernelFunction, LoopFunction, Node
from tiramisu_py.ir.arithmetic.facts import Facts, facts_of
from tiramisu_py.ir.rewriting import Names, names, with_children
from tiramisu_py.ir.uniform_control import check_uniform
from tiramisu_py.passes.base import About, FunctionPass, NestPass, Pass, around_nests
from tiramisu_py.passes.constant_folding import Decide, Simplify
from tiramisu_py.passes.join_dimensions import JoinDimensions
from tiramisu_py.passes.kernels.fragment_matrices import FragmentMatrices
from tiramisu_py.passes.kernels.full_blocks import FullBlocks
from tiramisu_py.passes.kernels.launch_constants import LaunchConstants
from tiramisu_py.passes.kernels.readability import NameValues, WriteRemainders
from tiramisu_py.passes.kernels.swizzle_rows import SwizzleRows
from tiramisu_py.passes.kernels.tensor_fragments import TensorFragments
from tiramisu_py.passes.loops.collapse import CollapseLoops
from tiramisu_py.passes.loops.count_steps import CountSteps
from tiramisu_py.passes.loops.full_tiles import FullTiles, UnrollRegisters
from tiramisu_py.passes.loops.merge_guards import MergeGuards, MergeHostGuards
from tiramisu_py.passes.loops.peel import Peel
from tiramisu_py.passes.loops.unroll import KeepUnrolled, UnrollLoops
from tiramisu_py.passes.loops.walk_bundles import WalkBundles
from tiramisu_py.passes.memory.keep_memory import KeepMemory
from tiramisu_py.passes.memory.share_memory import ShareMemory
from tiramisu_py.passes.rank_parameters import DefineRankParameters
from tiramisu_py.passes.registers.promote import Promote
from tiramisu_py.passes.share_expressions import ShareExpressions
from tiramisu_py.passes.shrink_device_arrays import ShrinkDeviceArrays
from tiramisu_py.passes.unread import RemoveUnread
from tiramisu_py.passes.vectors.align import Align
from tiramisu_py.passes.vectors.epilogue import ShareMasks
from tiramisu_py.passes.vectors.loads_first import LoadsFirst
from tiramisu_py.passes.vectors.matrix_tiles import MatrixTiles
from tiramisu_py.passes.vectors.narrow import Narrow
from tiramisu_py.passes.vectors.plain_remainders import PlainRemainders
from tiramisu_py.passes.vectors.vectorize import Vectorize
from tiramisu_py.passes.vectors.vectorize_rows import VectorizeRows
from tiramisu_py.passes.vectors.whole_lines import WholeLines
from tiramisu_py.records import dataclass

P = TypeVar("P", FunctionPass, NestPass)
#: Sees a function between two passes: the pass that is done (None: it has just been lowered), the function, and what
#: passes know of it.
Between = Callable[[Pass[Any] | None, LoopFunction, About], None]

#: The most bytes that one instruction of a GPU loads or stores.
GPU_VECTOR = 16

#: Over every function as soon as it is lowered; `pseudocode` shows their result.
FIRST: tuple[FunctionPass, ...] = (
    CollapseLoops(),  # before any loop changes: the schedule determines which loops are adjacent
    MergeHostGuards(),  # neighbouring nests of one rank become one, whose code one definition below can serve
    ShrinkDeviceArrays(),  # its code uses parameters of a rank, which are defined next
    DefineRankParameters(),  # last, when every use of a parameter is there
)

#: Over a function before its nests.
BEFORE_NESTS: tuple[FunctionPass, ...] = (
    RemoveUnread(),  # first, so that no later pass works on stores that are not needed
    JoinDimensions(),  # while indices are as isl gives them: one copy of each
    WalkBundles(),  # before any loop changes: it looks for the loops of a bundle with a test just inside
)

#: Over each nest of the host.
HOST: tuple[NestPass, ...] = (
    UnrollRegisters(),  # only tags loops; all later passes look at tags
    CountSteps(),  # peeling, full tiles, unrolling and strips need step 1
    Peel(),  # before `FullTiles`, so that a tile's test need not exclude the first iterations
    FullTiles(),  # constant extents: without them no loop is unrolled, and each strip has iterations left over
    VectorizeRows(),  # before `UnrollLoops`, which copies vectors faster than `Vectorize` makes them from copies
    UnrollLoops(),  # before `Vectorize`, which turns short loops inside a strip into straight-line code
    ShareExpressions(),  # after most of the copying: all later passes work on few different expressions
    Narrow(),  # while loops are still tagged: it changes only vector loops
    Simplify(),  # drops guards that unrolling made constant: they would keep `Align` and `Vectorize` from whole vectors
    Align(),  # cuts vector loops in two, so before they become strips
    Vectorize(),  # the last to change loops
    WholeLines(),  # after strips and unrolled loops, whose stores side by side are one place
    ShareMasks(),  # after strips, which bring masks; before registers, while a mask is a statement of its own
    Promote(),  # after all copying: every index is as constant as it will be
    ShareExpressions(after="promote"),  # elements are variables now: the emitter prints few different expressions
    LoadsFirst(),  # after all that changes stores, and after windows in registers, which are no arrays any more
    Decide(),  # last: bounds and tests that all other passes have left
)

#: Over a function when its own nests are done, before those of its kernels.
AFTER_NESTS: tuple[FunctionPass, ...] = (
    MergeHostGuards(after="decide"),  # guards of neighbouring nests are equal once both are folded
    PlainRemainders(),  # after all nests, whose copies it counts
    LaunchConstants(),  # after the host is folded, so that launches pass numbers; before kernels are folded
    MatrixTiles(),  # after all copying and folding: tiles are found by their constant extents and indices
    ShareMemory(),  # late: lifetimes are no scopes, so no pass has to know them; and small arrays are variables by now
    KeepMemory(),  # last: what arrays of an iteration share stays in one block from iteration to iteration
)

#: Over each nest of a kernel. The kernel's compiler unrolls its loops, so that the text remains short.
KERNEL: tuple[NestPass, ...] = (
    UnrollRegisters(),  # only tags; `FullBlocks` keeps those in the version with guards
    CountSteps(),  # as on the host
    Peel(after="count_steps", early=True),  # as on the host, so that the loops left need not look for their first ones
    FullBlocks(),  # in place of `Peel` and `FullTiles`: a uniform test, where a loop of the host is cut
    Decide(after="full_blocks"),  # with the facts of full blocks; `Vectorize` looks for constant extents
    KeepUnrolled(),  # in place of `UnrollLoops`, and as early: strips repeat the loops inside
    Vectorize(on_host=False),  # the last to change loops
    TensorFragments(),  # after the last folding of guards, and before registers become variables, whose names it takes
    FragmentMatrices(),  # after products are found; before registers become variables, and rows are swizzled
    Promote(),  # as on the host
    Decide(),  # as on the host
    SwizzleRows(),  # after all that looks at indices: neighbours are no longer side by side
    WriteRemainders(),  # after all folding, which works on quotients, not remainders
    MergeGuards(),  # after the last folding, which makes guards equal
    NameValues(),  # last, since no pass looks through a name
)


@dataclass(frozen=True)
class Pipeline:
    """The pass lists of a function and its kernels, in the order in which they run, and who looks between passes.

    `between` is called with the main function, when it is lowered and after each pass; what is packed, and versions
    for constant sizes, it does not see. A pass has changed all nests before the next one changes any.
    """

    first: tuple[FunctionPass, ...] = FIRST
    before_nests: tuple[FunctionPass, ...] = BEFORE_NESTS
    host: tuple[NestPass, ...] = HOST
    after_nests: tuple[FunctionPass, ...] = AFTER_NESTS
    kernel: tuple[NestPass, ...] = KERNEL
    between: Between | None = None

    @property
    def passes(self) -> tuple[FunctionPass | NestPass, ...]:
        """All passes in their order."""
        return (*self.first, *self.before_nests, *self.host, *self.after_nests, *self.kernel)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the passes in their order, each once."""
        return tuple(dict.fromkeys(each.name for each in self.passes))

    def until(self, name: str) -> Pipeline:
        """The passes up to the one of this name, and that pass.

        A pass of both the host and kernels is the last one for each of them; the kernels of a function are rewritten
        after its own nests. Raises `ArgumentError`, with all names, if there is no such pass.
        """
        if name not in self.names:
            close = get_close_matches(name.lower(), self.names, n=1) if isinstance(name, str) else []
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ArgumentError(f"there is no pass {name!r}{hint}: the passes are {', '.join(self.names)}")
        found = False

        def cut(passes: tuple[P, ...]) -> tuple[P, ...]:
            nonlocal found
            last = next((position for position, each in enumerate(passes) if each.name == name), None)
            kept = passes[: last + 1] if last is not None else () if found else passes
            found = found or last is not None
            return kept

        first, before, host = cut(self.first), cut(self.before_nests), cut(self.host)
        return Pipeline(first, before, host, cut(self.after_nests), cut(self.kernel), self.between)

    @property
    def unseen(self) -> Pipeline:
        """These passes, with nobody who looks between them."""
        return replace(self, between=None)

    def over(self, function: LoopFunction, passes: Iterable[FunctionPass], about: About) -> LoopFunction:
        """The function after these passes."""
        for each in passes:
            function = each.apply(function, about)
            self._show(each, function, about)
        return function

    def over_first(self, function: LoopFunction, about: About) -> LoopFunction:
        """A function that has just been lowered, after the first passes."""
        self._show(None, function, about)
        return self.over(function, self.first, about)

    def over_nests(self, function: LoopFunction, about: About) -> LoopFunction:
        """The function with each nest of the host after its passes."""
        nests = _nests(function.body)
        for each in self.host:
            nests = [each.apply(nest, about) for nest in nests]
            if self.between is not None:
                self.between(each, replace(function, body=_with_nests(function.body, nests)), about)
        return replace(function, body=_with_nests(function.body, nests))

    def over_kernels(self, function: LoopFunction, about: About) -> LoopFunction:
        """The function with each nest of its kernels after their passes."""
        kernels = function.gpus.kernels
        nests = [_nests(kernel.body) for kernel in kernels]
        known = [_about_kernel(kernel, about.facts) for kernel in kernels]

        def whole() -> LoopFunction:
            bodies = [_with_nests(kernel.body, own) for kernel, own in zip(kernels, nests, strict=True)]
            made = (replace(kernel, body=body) for kernel, body in zip(kernels, bodies, strict=True))
            return replace(function, gpus=replace(function.gpus, kernels=tuple(made)))

        for each in self.kernel if kernels else ():
            nests = [[each.apply(nest, its) for nest in own] for own, its in zip(nests, known, strict=True)]
            if self.between is not None:
                self.between(each, whole(), about)
        return whole()

    def _show(self, done: Pass[Any] | None, function: LoopFunction, about: About) -> None:
        if self.between is not None:
            self.between(done, function, about)


PIPELINE = Pipeline()


def optimise(function: LoopFunction, register: int = 64, pipeline: Pipeline = PIPELINE) -> LoopFunction:
    """The function with full tiles separated, loops unrolled and vectorised, and small buffers in registers.

    `register` is the size of the processor's vectors in bytes (64 with AVX-512, 32 with AVX2, 16 otherwise): the code
    is correct on every processor, and fast on one with this size. Afterwards only parallel loops are tagged.
    """
    taken = Names({*names(function.body), *function.params, *(argument.name for argument in function.arguments)})
    about = About(taken, facts_of(function), register)
    function = pipeline.over(function, pipeline.before_nests, about)
    function = pipeline.over_nests(function, about)
    function = pipeline.over(function, pipeline.after_nests, about)
    function = pipeline.over_kernels(function, about)
    for kernel in function.gpus.kernels:
        check_uniform(kernel.body, kernel.name)
    own = pipeline.unseen
    versions = tuple(
        replace(each, function=optimise(each.function, register, own)) for each in function.companions.versions
    )
    return replace(
        function,
        companions=replace(
            function.companions,
            versions=versions,
            packs=tuple(optimise(each, register, own) for each in function.companions.packs),
        ),
    )


def _about_kernel(kernel: KernelFunction, facts: Facts) -> About:
    """The names and facts of a kernel; its vectors have the size that one instruction loads or stores."""
    declared = (*kernel.params, *(scalar.name for scalar in kernel.scalars), *(array.name for array in kernel.arrays))
    inside = facts.in_blocks(kernel.threads).nonnegative_variables(kernel.nonnegative)
    return About(Names({*names(kernel.body), *declared}), inside, GPU_VECTOR, kernel.threads)


def _nests(body: Node) -> list[Node]:
    """The nests of a body, in their order."""
    found: list[Node] = []

    def kept(nest: Node) -> Node:
        found.append(nest)
        return nest

    _over_nests(body, kept)
    return found


def _with_nests(body: Node, nests: Sequence[Node]) -> Node:
    """The body with others in place of its nests, in their order."""
    left = iter(nests)
    return _over_nests(body, lambda _: next(left))


def _over_nests(node: Node, change: Callable[[Node], Node]) -> Node:
    return with_children(node, lambda child: _over_nests(child, change)) if around_nests(node) else change(node)
