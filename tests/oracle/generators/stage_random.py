"""Random programs with a call of a C function over whole arrays, and random commands."""

from __future__ import annotations

import random

from tests.oracle.generators.random_algorithms import COMMON_TYPES, ITERATORS, PARAMS, Algorithms, Source
from tests.oracle.generators.random_programs import Commands
from tests.oracle.generators.script import Script, Seed, choices


class Stages(Algorithms):
    """Algorithms of which one computation is a stage: of the whole domain, or of each row."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__(choice)
        self.dtype = choice.choice(COMMON_TYPES)
        self.stage = choice.choice("ppq")

    def _computation(self, name: str) -> None:
        if name != self.stage:
            super()._computation(name)
            return
        fitting = [s for s in self.sources if s.rank in (1, 2) and self._type_of(s) == self.dtype]
        source = self.choice.choice(fitting[-2:])
        flat = [s for s in fitting if s.rank == 1] or [None]
        self._call(name, source, self.choice.choice(flat))

    def _type_of(self, source: Source) -> str:
        return str(self.script.names[source.name].dtype)

    def _call(self, name: str, source: Source, beside: Source | None) -> None:
        """The values of a source turned around, with what is large in another one."""
        rank, choice = source.rank, self.choice
        in_place = choice.random() < 0.35 and source.name not in ("a", "b") and source is not beside
        offsets = [0 if in_place else choice.choice((-1, 0, 0, 1)) for _ in range(rank)]
        low = [max(0, source.low[d] - offsets[d]) for d in range(rank)]
        more = [min(2, source.more[d] - offsets[d]) for d in range(rank)]
        if in_place and (tuple(low), tuple(more)) != (source.low, source.more):
            in_place = False
        rows = rank == 2 and choice.random() < 0.4
        own = ITERATORS[1:rank] if rows else ITERATORS[:rank]
        sizes = [f"{PARAMS[d]} + {more[d] - low[d]}" for d in range(rank)]
        at = ", ".join(f"{ITERATORS[d]} + {offsets[d]}" if offsets[d] else ITERATORS[d] for d in range(rank))
        whole = beside if beside is not None and choice.random() < 0.7 and beside is not source else None
        terms = f"N + {whole.more[0] - whole.low[0]}" if whole else "1"
        second = f"{whole.name}[k]" if whole else f"{self._first()}[{', '.join(['k', '0'][: self._rank_of_first()])}]"
        over = f"k: ({whole.low[0]}, N + {whole.more[0]})" if whole else "k: 1"
        given = [*(sizes[1:] if rows else sizes), *([] if in_place else [f"{source.name}[{at}]"]), terms, second]
        given += [f"{source.name}[{at}]"] if in_place else []
        self.script.do("from tests.oracle.generators.stage_functions import turned")
        call = f"turned({len(own)}, '{self.dtype}', {in_place})({', '.join(given)})"
        each = ", each=[i]" if rows else ""
        self.script.do(f"{name} = f.stage('{name}', {{{self._dims(low, more)}}}, {call}, over={{{over}}}{each})")
        if in_place and choice.random() < 0.85:
            self.in_place = f"{name}.store_in({source.name}, [{', '.join(ITERATORS[:rank])}])"
        self.sources.append(Source(name, tuple(low), tuple(more)))

    def _first(self) -> str:
        return self.sources[0].name

    def _rank_of_first(self) -> int:
        return self.sources[0].rank

    in_place = ""


def random_stage_script(seed: Seed) -> Script:
    """A random algorithm with a stage, and random commands; the same for the same seed."""
    choice = choices(seed)
    made = Stages(choice)
    script = made.written()
    if made.in_place:
        script.attempt(made.in_place)
    return Commands(choice, script).write(choice.choice((0, 0, 1, 2, 3, 4)))
