"""The parts of an algorithm: inputs, computations, reductions, outputs. Immutable; no memory, no order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import (
    Access,
    Binary,
    Expr,
    Iter,
)
from tiramisu_py.algorithm.operators import Determinism, Operator
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import DType, array_names, bool_
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Location:
    """A place in the user's script."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, eq=False)
class Input:
    """An array (or, with an empty shape, a scalar) that the caller passes.

    `shape` gives the extents, affine in the parameters. `values` (low, high) is a declared fact: each element x
    has ``low <= x < high``; so are `monotone` (non-decreasing along the last dimension), `permutation`, and `injective`
    (no two elements are equal; the user says ``distinct=True``). One that `covers` E positions begins at 0 and ends at
    E: its runs have each position once, and the run of a position is looked up in an array, or found by a `search`. One
    that `inverts` another one has, run by run, the positions at which that has the number of the run, in their order.
    One of `distinct` has for each position the number of its combination of keys; one that is the `run_of` an input has
    the number of the run, of those that this begins, that it is in.
    `device` says where the caller has it: the number of a GPU, or None for the host; if it is `mapped`, GPUs address it
    there. `strides` are the distances of neighbours in each dimension, in elements; None for an array that is
    contiguous, row by row. If the caller's array has extents that are products, ``[N * M]``, they are `passed`, and
    each factor is an extent of `shape`.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    scalar: bool = False
    values: tuple[Expr, Expr] | None = None
    monotone: bool = False
    permutation: bool = False
    injective: bool = False
    device: int | None = None
    location: Location | None = None
    strides: tuple[Expr, ...] | None = None
    passed: tuple[Expr, ...] | None = None
    covers: Expr | None = None
    search: bool = False
    inverts: InverseOf | None = None
    distinct: DistinctOf | None = None
    run_of: str = ""
    mapped: bool = False

    @property
    def is_injective(self) -> bool:
        """Whether a declared fact says that no two elements are equal."""
        return self.permutation or self.injective

    @property
    def passed_shape(self) -> tuple[Expr, ...]:
        """The extents of the array that the caller passes."""
        return self.shape if self.passed is None else self.passed


@dataclass(frozen=True)
class InverseOf:
    """An inverse: of the input `of`, in the runs that the input `start` says; the user calls both `name`."""

    name: str
    of: str
    start: str


@dataclass(frozen=True)
class DistinctOf:
    """Distinct combinations of the inputs `keys`: element k of each of the inputs `columns` is a key of combination k.

    A key that is where runs begin stands for the run of a position: its column is where the combinations of each begin.
    The user calls all of it `name`.
    """

    name: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Written:
    """The points of a computation as the user wrote them: a `domain`, what a reduction is `over`, and a condition.

    A slice that is an output has none: its points are those at which its expression exists. A domain that is a list of
    iterators is inferred from what is read: the box around that, or `exact`.
    """

    domain: Any = None
    over: Any = None
    where: Any = None
    is_slice: bool = False
    exact: bool = False
    each: tuple[Iter, ...] = ()

    @property
    def is_inferred(self) -> bool:
        """Whether the domain follows from what is read."""
        given = self.domain
        return isinstance(given, list | tuple) and bool(given) and all(isinstance(each, Iter) for each in given)


@dataclass(frozen=True, eq=False)
class StagePart:
    """The part of an array that a call over whole arrays reads.

    It is ``access`` at all `points` over `iterators`, those of the call first. `varying` is, for each index of the
    access, the iterator that moves along it, or "" for an index that is the same in one call.
    """

    access: Access
    iterators: tuple[str, ...]
    points: isl.Set
    varying: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class StageSets:
    """The sets of the calls of a stage: one for each value of its first `each` iterators, which computes all values
    that have these.

    `ranges` has the values of each other iterator within a call, over the iterators of the call and this one; `parts`
    are what a call reads, in the order of its array arguments.
    """

    each: int
    ranges: Mapping[str, isl.Set]
    parts: tuple[StagePart, ...]


@dataclass(frozen=True)
class Origin:
    """The line of a block program that a computation comes from."""

    kernel: str
    location: Location
    text: str

    def __str__(self) -> str:
        """``line gemm.py:12 of matmul, `a = tl.load(...)` ``."""
        return f"line {self.location} of {self.kernel}, `{self.text}`"


@dataclass(frozen=True, eq=False)
class StoreSite:
    """One store of a block program: ``[programs, loops, axes] -> array[element]``, where its mask holds.

    The first `programs` dimensions are the number of the program.
    """

    elements: isl.Map
    programs: int
    origin: Origin


@dataclass(frozen=True, eq=False)
class LoadSite:
    """One load of a block program from an array: ``[programs, loops, axes] -> source[element]``, where its mask holds.

    Of loads whose values are used for indices and conditions alone, where an expression has what it needs of them.
    """

    source: str
    elements: isl.Map
    programs: int
    origin: Origin


@dataclass(frozen=True, eq=False)
class Stored:
    """Who stores the elements of an array that programs fill: each is stored once, and all are unless it is `partial`.

    Of elements that programs `accumulate`, each may be stored many times. `loads` are some of the same programs.
    """

    sites: tuple[StoreSite, ...]
    partial: bool = False
    accumulate: bool = False
    loads: tuple[LoadSite, ...] = ()


@dataclass(frozen=True, eq=False)
class Computation:
    """A set of values ``name[iterators]``, each given by an expression over other values.

    `domain` is the value set (an isl set over `iterators`, in the tuple `name`). If bounds are values, it is an
    over-approximation and `guards` are the exact conditions. A reduction has further iterators `over`, an
    operator, and one term for each element of `points` (over ``iterators + over``, in the tuple `name`); for other
    computations `points` is `domain`. `shape` is the array that holds the values by default, if the user gave one.
    `written` is what domain, points and guards were made of. While `is_open`, the domain is to be inferred.
    Computations that may read each other have one `group`, the name of its first member. Those that calls of a C
    function compute have a `stage`; their expression is the call. `values` (low, high) is a claim, ``low <= x < high``
    for each value x, which the proof of the algorithm shows. `determinism` is the least that a schedule has to keep of
    a reduction's bits, if the user has asked for it. Values that are the runs of positions name the input that says
    where these begin, `run_of`.
    a reduction's bits, if the user has asked for it. Those of a block program have an `origin`, and arrays that it
    fills are `stored`.
    """

    name: str
    dtype: DType
    iterators: tuple[str, ...]
    domain: isl.Set
    points: isl.Set
    expr: Expr
    guards: tuple[Expr, ...] = ()
    over: tuple[str, ...] = ()
    op: Operator | None = None
    ordered: bool = False
    shape: tuple[Expr, ...] | None = None
    location: Location | None = None
    written: Written | None = None
    is_open: bool = False
    group: str = ""
    stage: StageSets | None = None
    values: tuple[Expr, Expr] | None = None
    determinism: Determinism | None = None
    run_of: str = ""
    origin: Origin | None = None
    stored: Stored | None = None

    @property
    def sources(self) -> frozenset[str]:
        """The names of what its values are computed from."""
        read = [access for e in (self.expr, *self.guards) for access in accesses(e)]
        read += [part.access for part in self.stage.parts] if self.stage is not None else []
        return frozenset(access.source for access in read)

    @property
    def is_inferred(self) -> bool:
        """Whether the domain follows from what is read."""
        return self.written is not None and self.written.is_inferred

    @property
    def is_reduction(self) -> bool:
        return self.op is not None

    @property
    def in_order(self) -> bool:
        """Whether its terms are combined in their order: one by one, or in ranges of neighbours."""
        return self.ordered or (self.op is not None and not self.op.commutative)

    @property
    def loop_iterators(self) -> tuple[str, ...]:
        """The iterators of its values that have loops before any command: of a stage those of its calls."""
        return self.iterators if self.stage is None else self.iterators[: self.stage.each]

    @property
    def point_iterators(self) -> tuple[str, ...]:
        """The names of the dimensions of `points`."""
        return self.iterators + self.over


@dataclass(frozen=True, eq=False)
class DealtTerms:
    """How the terms of a reduction are dealt out, by the number of each in a box of `numbered` iterators.

    `part` is a form of iterators that were `added` to those of the `whole`, and a term counts in the one iteration of
    these for which ``selector == part``; the selector is the number of the term modulo `parts`, or divided by a length.
    """

    whole: Computation
    numbered: tuple[str, ...]
    added: tuple[str, ...]
    parts: int
    selector: Expr
    part: Expr

    @property
    def guard(self) -> Expr:
        """The condition of a term."""
        return Binary("==", self.selector, self.part, bool_)


def value_names(source: Input | Computation) -> tuple[str, ...]:
    """Names for the value indices of a source: a computation's iterators, or d0, d1, ... for an input."""
    if isinstance(source, Computation):
        return source.iterators
    return tuple(f"d{k}" for k in range(len(source.shape)))


@dataclass(frozen=True, eq=False)
class Algorithm:
    """Layer I of one function: the complete definition of its outputs.

    `context` is the set of parameter values for which the function is defined (each at least 0, and what the user
    assumes). `outputs` names computations, in order. Accesses of its values have its `owner`, by which they are told
    from those of other functions. `assume` is what the user assumes, as it was written. `wholes` are the reductions
    that `rfactor` has taken apart, as they were before, by the names of their partial results. Terms of some reductions
    are `dealt` out; scatters that are `gathered` are kept as they were. What computes the same values otherwise is kept
    in `rewritten`, as it was declared, and what was added for that as None; `reassociated` are the sums that round in
    another way for it, each with the product of its weights. Ranges of floats are known only where
    arithmetic `rounds_as_written`. By default values in runs are kept by position (see `domains.runs`), but those of
    the computations in `by_index` as all others.
    """

    name: str
    isl_context: isl.Context
    params: tuple[str, ...]
    context: isl.Set
    inputs: Mapping[str, Input] = field(default_factory=dict)
    computations: Mapping[str, Computation] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    owner: object = None
    assume: str | Expr | None = None
    wholes: Mapping[str, Computation] = field(default_factory=dict)
    dealt: Mapping[str, DealtTerms] = field(default_factory=dict)
    gathered: Mapping[str, Computation] = field(default_factory=dict)
    rewritten: Mapping[str, Computation | None] = field(default_factory=dict)
    reassociated: Mapping[str, str] = field(default_factory=dict)
    rounds_as_written: bool = True
    by_index: frozenset[str] = frozenset()

    @cached_property
    def as_declared(self) -> Algorithm:
        """The algorithm as the user has declared it: without the partial results of factored reductions."""
        found = self._unscheduled
        if not self.rewritten:
            return found
        computations: dict[str, Computation] = {}
        for name, declared in found.computations.items():
            original = self.rewritten.get(name, declared)
            if original is not None:
                computations[name] = original
        return replace(found, computations=computations, rewritten={}, reassociated={})

    @cached_property
    def as_rewritten(self) -> Algorithm:
        """The algorithm as rewritten: what is computed in place of what was declared, as if that had been declared."""
        if not self.rewritten:
            return self._unscheduled
        found = replace(self._unscheduled, rewritten={}, reassociated={})
        waiting, read = [*self.outputs], set[str]()
        while waiting:
            name = waiting.pop()
            if name in found.computations and name not in read:
                read.add(name)
                waiting += found.computations[name].sources
        return replace(found, computations={name: c for name, c in found.computations.items() if name in read})

    @cached_property
    def _unscheduled(self) -> Algorithm:
        """The algorithm before commands, but for what they have rewritten."""
        if not self.wholes and not self.dealt and not self.gathered:
            return self
        computations = dict(self.computations)
        for partial, whole in reversed([*self.wholes.items()]):
            computations[whole.name] = whole
            del computations[partial]
        computations |= {name: each.whole for name, each in self.dealt.items() if name in computations}
        computations |= {name: whole for name, whole in self.gathered.items() if name in computations}
        return replace(self, computations=computations, wholes={}, dealt={}, gathered={})

    @cached_property
    def known_values(self) -> list[Any]:
        """Facts that have been found about the values that are computed; kept here, where they cannot get stale."""
        return []

    @cached_property
    def output_arrays(self) -> tuple[str, ...]:
        """The names of the arrays of the outputs: one for each output, or for each component of it."""
        computed = self.computations
        found = [array_names(n, computed[n].dtype) if n in computed else (n,) for n in self.outputs]
        return tuple(name for names in found for name in names)

    @cached_property
    def param_space(self) -> isl.Space:
        """The parameter space, with all parameters in order."""
        return isl.Space.create_from_names(self.isl_context, set=[], params=list(self.params)).params()

    def frame(self, name: str | None, dims: tuple[str, ...] | list[str]) -> isl.Space:
        """The space of the tuple ``name[dims]`` over all parameters."""
        return sets.frame(self.isl_context, self.params, name, dims)

    def source(self, name: str) -> Input | Computation:
        """The input or computation called `name`; raises KeyError."""
        return self.inputs[name] if name in self.inputs else self.computations[name]

    def runs_numbered(self, name: str) -> str:
        """The input that begins the runs which the elements of a source are the numbers of, for each position its run.

        Empty for other sources, and for what is none.
        """
        found = self.inputs[name] if name in self.inputs else self.computations.get(name)
        return "" if found is None else found.run_of

    def together(self, group: str) -> tuple[Computation, ...]:
        """The computations of a group, in the order of declaration."""
        return tuple(each for each in self.computations.values() if each.group == group)

    def with_input(self, declared: Input) -> Algorithm:
        """The algorithm with an additional input."""
        return replace(self, inputs={**self.inputs, declared.name: declared})

    def with_computation(self, *declared: Computation) -> Algorithm:
        """The algorithm with additional computations."""
        return replace(self, computations={**self.computations, **{each.name: each for each in declared}})

    def with_computations(self, computations: Mapping[str, Computation]) -> Algorithm:
        """The algorithm with other computations."""
        return replace(self, computations=computations)

    def with_outputs(self, names: tuple[str, ...]) -> Algorithm:
        """The algorithm with other outputs."""
        return replace(self, outputs=names)

    def with_dealt(self, changed: Computation, dealt: DealtTerms) -> Algorithm:
        """The algorithm with the terms of a reduction dealt out."""
        computations = {**self.computations, changed.name: changed}
        return replace(self, computations=computations, dealt={**self.dealt, changed.name: dealt})

    def with_gathered(self, changed: Computation) -> Algorithm:
        """The algorithm with a scatter as sums over the positions of an inverse."""
        whole = self.computations[changed.name]
        computations = {**self.computations, changed.name: changed}
        return replace(self, computations=computations, gathered={**self.gathered, changed.name: whole})

    def with_rewritten(self, change: Callable[[Computation], Computation], added: Sequence[Computation]) -> Algorithm:
        """The algorithm with computations changed, also as they were before commands, and some `added` before these.

        The values of those that keep their names are the same, as real numbers.
        """
        old = self.as_declared.computations
        made: dict[str, Computation] = {}
        for name, each in self.computations.items():
            changed = change(each)
            if changed is not each:
                made |= {one.name: one for one in added}
            made[name] = changed
        new = {name for name, each in self._unscheduled.computations.items() if change(each) is not each}
        rewritten = {**{name: old[name] for name in new if name in old}, **self.rewritten}
        return replace(
            self,
            computations=made,
            wholes={name: change(each) for name, each in self.wholes.items()},
            dealt={name: replace(each, whole=change(each.whole)) for name, each in self.dealt.items()},
            gathered={name: change(each) for name, each in self.gathered.items()},
            rewritten={**rewritten, **dict.fromkeys(each.name for each in added)},
        )

    def factored(self, partial: Computation, combined: Computation) -> Algorithm:
        """The algorithm with a reduction in two steps: to partial results, and of these."""
        whole = self.computations[combined.name]
        computations: dict[str, Computation] = {}
        for name, declared in self.computations.items():
            if name == whole.name:
                computations[partial.name] = partial
            computations[name] = combined if name == whole.name else declared
        return replace(self, computations=computations, wholes={**self.wholes, partial.name: whole})
