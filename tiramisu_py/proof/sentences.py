"""The facts that a proof takes on trust: assumptions, declared values, properties of the user's functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tiramisu_py import sets
from tiramisu_py.algorithm import declarations
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.declare.soundness import Values
from tiramisu_py.algorithm.domains.conditions import in_words
from tiramisu_py.algorithm.expressions import Call
from tiramisu_py.algorithm.traversal import accesses, walk
from tiramisu_py.dependence.whole_vectors import padded_loop
from tiramisu_py.program.loops import Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.collectives import collectives
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.messages.small_sizes import relevant_params

_KNOWN = (
    declarations.sum_, declarations.product, declarations.min_, declarations.max_,
    declarations.logical_and, declarations.logical_or,
)  # fmt: skip


def trusted(program: Program, values: Values, asserted: Collection[str] = ()) -> tuple[str, ...]:
    """What the proof of a program relies on without proving it, in words; `asserted` are conditions it left out."""
    facts = [*_assumed(program.algorithm), *_of_blocks(program), *_declared(program.algorithm, values)]
    facts += _alike(program)
    for computation in program.algorithm.computations.values():
        facts += _functions(computation)
    return tuple(dict.fromkeys([*facts, *(f"asserted: {fact}" for fact in asserted)]))


def _assumed(algorithm: Algorithm) -> Iterator[str]:
    context = algorithm.context.params()
    at_least_zero = sets.nonnegative(algorithm.param_space)
    if not at_least_zero.is_subset(context):
        yield f"assumed: {in_words(context.gist(at_least_zero).coalesce())}"


def _of_blocks(program: Program) -> Iterator[str]:
    blocks = program.blocks
    if blocks is not None:
        lower, upper = blocks.bounds
        yield (
            f"agreed before any message: the blocks {lower}..{upper} of ranks 0, 1, ... follow one another from 0 to "
            f"{blocks.extent}, and where there are several each has {blocks.least} at least"
        )


def _alike(program: Program) -> Iterator[str]:
    """What the caller passes to all ranks alike."""
    algorithm, blocks = program.algorithm, program.blocks
    whole = [name for name in algorithm.inputs if name not in program.distributions]
    names = [name for name in (*algorithm.params, *whole) if blocks is None or name not in blocks.bounds]
    if (program.rank_axes or blocks is not None) and names:
        yield f"every rank is passed the same {', '.join(names)}"


def _declared(algorithm: Algorithm, values: Values) -> Iterator[str]:
    for computation in algorithm.computations.values():
        for reading in values.of(computation):
            yield from _ranges(algorithm, reading.facts)
            if reading.narrow:
                yield f"the 32-bit index arithmetic of {reading.access} in {computation.name} does not overflow"

        # bounds that are values: the points are enclosed by what is declared of them
        read = [access.source for guard in computation.guards for access in accesses(guard)]
        yield from _ranges(algorithm, read)


def _ranges(algorithm: Algorithm, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        declared = algorithm.inputs.get(name)
        if declared is not None and declared.values is not None:
            low, high = declared.values
            yield f"declared: {low} <= {name} < {high}"


def _functions(computation: Computation) -> Iterator[str]:
    for expression in (computation.expr, *computation.guards):
        for node in walk(expression):
            if isinstance(node, Call) and node.extern is not None:
                yield f"the C function {node.function} is pure, and returns what its Python form does"
    if computation.op is not None and not any(computation.op is known for known in _KNOWN):
        yield f"the operator {computation.op.name} is associative and commutative"


def proven(program: Program, asserted: Collection[str] = ()) -> tuple[str, ...]:
    """What a check without violations has shown, in words; `asserted` are the conditions that it has not."""
    return tuple(fact for condition, fact in _conditions(program) if condition not in asserted)


def _conditions(program: Program) -> Iterator[tuple[str, str]]:
    """What each condition says of a program."""
    yield "algorithm", "every read is inside its array, and every recurrence ends"
    yield "values", "every read sees the value it names"
    if program.algorithm.outputs:
        outputs = ", ".join(program.algorithm.outputs)
        yield "values", f"the caller finds every value of {outputs}, and its other arrays unchanged"
    reductions = [name for name, c in program.algorithm.computations.items() if c.is_reduction]
    if reductions:
        yield "reductions", f"every term is in {', '.join(reductions)} once, and only complete results are read"
    if program.rank_axes or program.blocks is not None:
        yield "values", "each rank reads only what it computes, receives, or has in its arrays"
    everywhere = [s.source for s in program.storing if s.message is None and _is_on_all(program, s)]
    if everywhere:
        yield "values", f"every rank computes {', '.join(dict.fromkeys(everywhere))}"
    pending = [s.message.exchange for s in program.acting if s.message is not None and s.message.asynchronous]
    if pending:
        exchanges = ", ".join(dict.fromkeys(pending))
        yield "waits", f"what the messages of {exchanges} use is left alone until they are complete"
    talking = ", ".join(dict.fromkeys(s.message.exchange for s in program.acting if s.message is not None))
    if talking:
        yield "messages", f"every message of {talking} meets its receive, with the same values in the same order"
        yield "deadlock", f"no deadlock is possible {_on_ranks(program)}, whatever MPI puts aside or does not"
    together = ", ".join(one.name for one in collectives(program))
    if together:
        yield "collectives", f"each call of {together} takes and stores values in any order, and all ranks take part"
    queues = sorted({queue for s in program.storing if (queue := program.queue_of(s)) is not None})
    if queues:
        yield "waits", f"everything waits for the operations that it needs, on {_sequences(queues)} and on the host"
    if any(statement.role is Role.BARRIER for statement in program.statements.values()):
        yield "threads", "all threads of a block come to every barrier"
    loops = [loop for loop in program.loops.values() if loop.is_concurrent and program.with_this_loop(loop.id)]
    if loops:
        names = ", ".join(dict.fromkeys(loop.name for loop in loops))
        yield "races", f"no two iterations of the concurrent loops {names} conflict"
    again = [loop for loop in loops if isinstance(loop.tag, Vector) and loop.tag.remainder == "overlap"]
    if again:
        names = ", ".join(dict.fromkeys(loop.name for loop in again))
        yield "repeats", f"running iterations of {names} twice, where vectors overlap, changes nothing"
    whole = [loop for s in program.storing if (loop := padded_loop(program, s)) is not None]
    if whole:
        names = ", ".join(dict.fromkeys(loop.name for loop in whole))
        yield "padding", f"what vectors of {names} compute past the end goes where nothing is kept"


def _is_on_all(program: Program, statement: Statement) -> bool:
    """Whether a computation has no loop over ranks: each rank executes it (`program.ranks.spread`)."""
    loops = [program.loops[loop] for loop in statement.loops if program.loops[loop].is_rank]
    return bool(program.rank_axes) and all(loop.name.startswith("rank") for loop in loops)


def _sequences(queues: list[tuple[int, int]]) -> str:
    several = len({device for device, _ in queues}) > 1
    names = [f"{stream} of GPU {device}" if several else f"{stream}" for device, stream in queues]
    return f"operation sequence{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _on_ranks(program: Program) -> str:
    """How many ranks there are: numbers, or any."""
    if program.blocks is not None or program.ranks is None:
        return "on any number of ranks"
    if relevant_params([program.ranks], program.context):
        return "on any number of ranks"
    extents = [1 + (sets.largest_value(program.ranks, axis) or 0) for axis in range(program.rank_axes)]
    if len(extents) == 1:
        return f"on {extents[0]} rank{'s' if extents[0] != 1 else ''}"
    return f"on a grid of {' x '.join(map(str, extents))} ranks"
