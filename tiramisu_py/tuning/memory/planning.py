"""`tm.plan`: for each value that is read late, whether to keep it, compute it again, or put it in a file.

The cheapest choices whose peak is within a budget, found exactly.

Each value has some options, with the seconds that each adds. Combinations are tried in the order of their sums, so that
the first one whose peak is within the budget is the cheapest; among equals, the one whose options come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from tiramisu_py import Function
from tiramisu_py.errors import ArgumentError, CommandError
from tiramisu_py.public_calls import own_call, own_class
from tiramisu_py.queries import Command
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.machine_model import Machine
from tiramisu_py.tuning.memory.options import MemoryOption, options_of, step_time
from tiramisu_py.tuning.storage_rates import Storage


@own_class
@dataclass(frozen=True)
class MemoryPlan:
    """The choice of `tm.plan`: the `commands` to apply, and what they are predicted to do at its sizes.

    `peak` are the bytes of temporaries at a time, as `f.cost("memory")` counts them. `seconds` are those of a call,
    estimated; `added` are those that keeping everything would not take. `written` and `read` are the bytes of a call
    that go to files and come from them.
    """

    name: str
    budget: int
    peak: int
    seconds: float
    added: float
    choices: tuple[MemoryOption, ...]
    storage: Storage | None = None

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands, for `Function.apply`."""
        return tuple(command for each in self.choices for command in each.commands)

    @property
    def written(self) -> int:
        """The bytes that a call writes to files."""
        return sum(each.written for each in self.choices)

    @property
    def read(self) -> int:
        """The bytes that a call reads from files."""
        return sum(each.read for each in self.choices)

    @property
    def rate(self) -> float:
        """The bytes a second that are written, call after call."""
        return self.written / self.seconds if self.seconds else 0.0

    @property
    def years(self) -> float:
        """The years after which the disk is worn out, if calls follow one another; raises `ArgumentError` for a disk
        whose endurance is not known.
        """
        if self.storage is None:
            raise ArgumentError("the plan has no disk: give machine=tm.Machine.here(storage=tm.Storage(..))")
        return self.storage.years(self.written, self.seconds)

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.peak} of {self.budget} bytes, {self.seconds:.3g} s a call ({self.added:.3g} more)"
        ]
        lines += [f"  {each}" for each in self.choices]
        if self.written and self.storage is not None:
            worn = f", worn out after {self.years:.1f} years" if self.storage.endurance else ""
            price = f", price {self.storage.price:g}" if self.storage.price else ""
            lines.append(f"  files: {self.rate / 1e9:.3g} GB/s written{worn}{price}")
        return "\n".join(lines)


@own_call
def plan(f: Function, sizes: Mapping[str, int], *, budget: int, machine: Machine | None = None) -> MemoryPlan:
    """Choose for each value that is read late to keep it, compute it again, or put it in a file: the fastest way.

    ::

        found = tm.plan(g.step, {"T": 200, "N": 4096}, budget=2**23)
        print(found)
        for command in found.commands:
            g.step.apply(command)

    `budget` are bytes of temporaries, as `f.cost("memory")` counts them. Times are estimated from the counts of
    operations and bytes, and the rates of the `machine` (default: `tm.Machine.here()`); files are a choice where that
    has a `storage`. The choice is exact: no other combination within the budget has a shorter estimate. Raises
    `ArgumentError` for a budget that no choice meets, naming the least that one does.
    """
    if not isinstance(f, Function):
        raise ArgumentError(f"tm.plan takes a function of tiramisu_py, not {f!r}")
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise ArgumentError(f"tm.plan: budget is {budget!r}: give a number of bytes, such as 2**30")
    rates = Machine.here() if machine is None else machine
    options = options_of(f, sizes, rates)
    known: dict[tuple[int, ...], tuple[Function, int]] = {}

    def peak(chosen: tuple[int, ...]) -> int | None:
        changed = with_options(f, [listed[k] for listed, k in zip(options, chosen, strict=True)])
        if changed is None:
            return None
        known[chosen] = (changed, changed.cost("memory", **sizes).peak)
        return known[chosen][1]

    try:
        chosen = cheapest([[each.seconds for each in listed] for listed in options], peak, budget)
    except ArgumentError as error:
        raise ArgumentError(f"tm.plan({f.name}): {error}") from None
    changed, most = known[chosen]
    seconds, base = (step_time(each, sizes, rates).seconds for each in (changed, f))
    choices = tuple(listed[k] for listed, k in zip(options, chosen, strict=True))
    return MemoryPlan(f.name, budget, most, seconds, max(0.0, seconds - base), choices, rates.storage)


def with_options(f: Function, options: Sequence[MemoryOption]) -> Function | None:
    """The function with the commands of some options; None if they do not go together."""
    changed = f.copy()
    try:
        for option in options:
            for command in option.commands:
                changed.apply(command)
    except CommandError:
        return None
    return changed if changed.check().ok else None


#: The bytes that a combination holds, by the positions of its options; None for options that do not go together.
Peak = Callable[[tuple[int, ...]], int | None]


def cheapest(seconds: Sequence[Sequence[float]], peak: Peak, budget: int) -> tuple[int, ...]:
    """The position of the option of each value; raises `ArgumentError`, with the least peak of all, if none fits."""
    least: int | None = None
    for chosen in in_order(seconds):
        found = peak(chosen)
        if found is None:
            continue
        if found <= budget:
            return chosen
        least = found if least is None else min(least, found)
    raise ArgumentError(f"budget={budget}: the least that any choice needs are {least} bytes")


def in_order(seconds: Sequence[Sequence[float]]) -> Iterator[tuple[int, ...]]:
    """All combinations of options, by the sum of their seconds; equal ones in the order of their positions.

    The options of each value are sorted once. A combination is followed by those in which one option is the next one,
    of the last value that is not at its first option or of those after it, so that each is reached once.
    """
    sorted_ = [[k for _, k in sorted((one, k) for k, one in enumerate(each))] for each in seconds]
    heap: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []

    def push(ranks: tuple[int, ...]) -> None:
        chosen = tuple(order[rank] for order, rank in zip(sorted_, ranks, strict=True))
        total = sum(each[k] for each, k in zip(seconds, chosen, strict=True))
        heappush(heap, (total, chosen, ranks))

    push((0,) * len(seconds))
    while heap:
        _, chosen, ranks = heappop(heap)
        yield chosen
        last = max((k for k, rank in enumerate(ranks) if rank), default=0)
        for k in range(last, len(ranks)):
            if ranks[k] + 1 < len(sorted_[k]):
                push((*ranks[:k], ranks[k] + 1, *ranks[k + 1 :]))
