"""The facts that a proof takes on trust (assumptions, declared values, properties of functions), and those it shows.

Loops that statements share by position, though they count different things: this is right, but may not be meant.

Iterators and parameters that wrap around: beside a value of a narrow type they take that type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.conditions import in_words
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Access, Binary, Call, Const, Expr
from tiramisu_py.algorithm.traversal import accesses, iterators, walk
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.dependence.exclusions import Fact
from tiramisu_py.program.kernels import kernels
from tiramisu_py.program.loops import Loop
from tiramisu_py.program.machine.gpu_target import CUDA
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.violations.condition import Condition
from tiramisu_py.proof.violations.repairs import divisors

_ALGORITHM = "every read is inside its array, and every recurrence ends"

_KNOWN = (
    operators.sum_, operators.product, operators.min_, operators.max_,
    operators.logical_and, operators.logical_or,
)  # fmt: skip


def trusted(
    program: Program, values: ValueSets, asserted: Collection[str] = (), relied: Iterable[Fact] = ()
) -> tuple[str, ...]:
    """The parts that the proof of a program relies on without proving them, in words.

    `asserted` are conditions that it left out, `relied` declared facts that ruled out conflicts.
    """
    facts = [*_assumed(program.algorithm), *_of_blocks(program), *_declared(program.algorithm, values)]
    facts += [f"declared: {fact}" for fact in (*relied, *_searched(program))]
    facts += [*_alike(program), *_of_gpus(program), *_gathered(program.algorithm)]
    for computation in program.algorithm.computations.values():
        facts += _functions(computation)
    return tuple(dict.fromkeys([*facts, *(f"asserted: {fact}" for fact in asserted)]))


def _assumed(algorithm: Algorithm) -> Iterator[str]:
    context = algorithm.context.params()
    at_least_zero = sets.nonnegative(algorithm.param_space)
    if not at_least_zero.is_subset(context):
        yield f"assumed: {in_words(context.gist(at_least_zero).coalesce())}"


def _of_blocks(program: Program) -> Iterator[str]:
    if agreed := told_ranks(program).agreed:
        yield f"agreed before any message: {agreed}"


def _alike(program: Program) -> Iterator[str]:
    """The arguments that have the same value on all ranks."""
    algorithm, bounds = program.algorithm, told_ranks(program).bounds
    whole = [name for name in algorithm.inputs if name not in program.ranks.distributions]
    names = [name for name in (*algorithm.params, *whole) if name not in bounds]
    if program.runs_on_ranks and names:
        yield f"every rank is passed the same {', '.join(names)}"


def _gathered(algorithm: Algorithm) -> Iterator[str]:
    """The runs of positions that are given, and the inverses by which scatters are gathered."""
    for each in algorithm.inputs.values():
        if each.run_of:
            yield f"declared: {each.name} has the run of {each.run_of} that each position is in"
    for name in algorithm.gathered:
        for guard in algorithm.computations[name].guards:
            starts = {access.source for access in accesses(guard)}
            for each in algorithm.inputs.values():
                if each.inverts is not None and each.inverts.start in starts:
                    yield f"declared: {each.inverts.name} is the inverse of {each.inverts.of}, in order"


def _of_gpus(program: Program) -> Iterator[str]:
    """A header of the user's defines what the kernels are made of."""
    target = program.targets.gpu
    if target.header != CUDA.header and kernels(program):
        yield f"the header of {target.name}, {target.header}, gives its names the meaning that tm_kernel.h gives them"


def _declared(algorithm: Algorithm, values: ValueSets) -> Iterator[str]:
    for computation in algorithm.computations.values():
        for reading in values.of(computation):
            yield from _ranges(algorithm, reading.facts)
            if reading.narrow:
                yield f"the 32-bit index arithmetic of {reading.access} in {computation.name} does not overflow"

        # bounds that are values: their declared ranges enclose the points
        read = [access.source for guard in computation.guards for access in accesses(guard)]
        yield from _ranges(algorithm, read)


def _ranges(algorithm: Algorithm, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        declared = algorithm.inputs.get(name)
        if declared is not None and declared.values is not None:
            low, high = declared.values
            yield f"declared: {low} <= {name} < {high}"
        elif declared is not None and declared.permutation:
            yield f"declared: {Fact(name, 'permutation')}"


def _searched(program: Program) -> Iterator[Fact]:
    """The inputs in which a loop may search the elements that hold a condition, since they never fall.

    Lowering searches (`lower/loops/monotone_search.py`) in a loop that runs over elements, where loops outside of it
    say something of what these are compared with.
    """
    inputs = program.algorithm.inputs
    for statement in program.acting:
        for condition in (part for guard in statement.guards for part in conjuncts(guard)):
            for access in accesses(condition):
                declared = inputs.get(access.source)
                is_known = declared is not None and declared.monotone and len(declared.shape) == 1
                if is_known and _is_compared_before(program, statement, condition, access):
                    yield Fact(access.source, "monotone")


def _is_compared_before(program: Program, statement: Statement, condition: Expr, access: Access) -> bool:
    """Whether some loops say what an element is compared with (or a part of it), and not which element it is."""
    forms = dict(zip(program.point_names(statement), sets.outputs(statement.point), strict=False))
    place = [forms[name] for name in iterators(access) if name in forms]
    compared = [forms[name] for name in iterators(condition) - iterators(access) if name in forms]
    if not place or not compared:
        return False
    places, values = (
        sets.graph(sets.function(statement.frame, None, each), statement.instances) for each in (place, compared)
    )
    for depth in range(1, len(statement.loops)):
        around = sets.graph(statement.prefix(depth), statement.instances).reverse()
        said = around.apply_range(values)
        is_free = isl.Map.from_domain_and_range(said.domain(), said.range()).is_subset(said)
        if not is_free and not around.apply_range(places).is_single_valued():
            return True
    return False


def _functions(computation: Computation) -> Iterator[str]:
    for expression in (computation.expr, *computation.guards):
        for node in walk(expression):
            if isinstance(node, Call) and node.extern is not None:
                yield f"the C function {node.function} is pure, and returns what its Python form does"
            if isinstance(node, StageCall):
                yield (
                    f"the C function {node.function} reads and writes the elements declared of {computation.name}, and "
                    "no others, and computes what its Python form does"
                )
    if computation.op is not None and not any(computation.op is known for known in _KNOWN):
        laws = "associative and commutative" if computation.op.commutative else "associative"
        yield f"the operator {computation.op.name} is {laws}"


def proven(program: Program, conditions: Iterable[Condition], asserted: Collection[str] = ()) -> tuple[str, ...]:
    """The facts that a check without violations has shown, in words; `asserted` are the conditions that it has not.

    Each condition has its own sentences; they are sorted by topic, then by the order of the conditions.
    """
    sentences = [sentence for c in conditions if c.name not in asserted for sentence in c.says]
    said = (sentence.text(program) for sentence in sorted(sentences, key=lambda sentence: sentence.topic))
    algorithm = () if "algorithm" in asserted else (_ALGORITHM,)
    turned = (f"before any command {turn}, since its values need it" for turn in program.origin.turned)
    return (*algorithm, *turned, *wrapped(program.algorithm.as_declared), *filter(None, said), *unlike(program))


def unlike(program: Program) -> Iterator[str]:
    """Pairs of statements whose shared loop was split by different sizes, or runs over another iterator of one."""
    seen = set[frozenset[str]]()
    for loop in program.loops.values():
        inside = [s for s in program.with_this_loop(loop.id) if s.acts and not loop.added]
        for statement in inside[1:]:
            pair = frozenset((inside[0].name, statement.name))
            said = _split(loop, inside[0], statement) or _turned(loop, statement)
            if said and pair not in seen:
                seen.add(pair)
                yield said


def _split(loop: Loop, first: Statement, second: Statement) -> str:
    sizes = [divisors(sets.outputs(s.coords)[s.depth(loop.id)]) for s in (first, second)]
    if not all(sizes) or sizes[0] == sizes[1]:
        return ""
    taken = [f"{', '.join(map(str, size))} in {s.handle}" for size, s in zip(sizes, (first, second), strict=True)]
    return f"loop {loop.name} is shared by its position, and was split by {taken[0]}, and by {taken[1]}"


def _turned(loop: Loop, statement: Statement) -> str:
    """The words for a loop that has the name of another iterator of a statement than the one it runs over."""
    form = sets.outputs(statement.coords)[statement.depth(loop.id)]
    if loop.name not in statement.dims:
        return ""
    for name, variable in zip(statement.dims, sets.variables(statement.frame), strict=True):
        if name != loop.name and form.plain_is_equal(variable):
            return f"loop {loop.name} is shared by its position, and runs over the {name} of {statement.handle}"
    return ""


#: Types of more bits hold the indices of most arrays.
NARROW = 16


def wrapped(algorithm: Algorithm) -> Iterator[str]:
    """For each computation the operands without a type of their own that are not always in the type that they take."""
    for computation in algorithm.computations.values():
        for node in walk(computation.expr):
            if isinstance(node, Binary) and node.dtype.is_integer and not node.dtype.weak and node.dtype.bits <= NARROW:
                for operand in (node.left, node.right):
                    if operand.dtype.weak and _exceeds(algorithm, computation, operand, node.dtype.limits):
                        yield (
                            f"{operand} wraps around in {node} of {computation.name}, since it is taken as "
                            f"{node.dtype}: tm.cast(tm.int32, ...) of the other operand keeps it"
                        )


def _exceeds(algorithm: Algorithm, computation: Computation, operand: Expr, limits: tuple[int, int]) -> bool:
    """Whether an operand is below or above the limits somewhere in the domain of a computation."""
    if isinstance(operand, Const):
        return False
    points = computation.points if computation.is_reduction else computation.domain
    points = points.intersect_params(algorithm.context.params())
    try:
        values = Affine(algorithm.frame(computation.name, computation.point_iterators)).value(operand)
    except NotAffine:
        return False
    low, high = (_bound(values, limit) for limit in limits)
    outside = sets.as_set(values.lt_set(low)).union(sets.as_set(values.gt_set(high)))
    return not points.is_disjoint(sets.named(outside, computation.name))


def _bound(like: isl.PwAff, value: int) -> isl.PwAff:
    return sets.constant(like.get_space().domain(), value).to_pw_aff()
