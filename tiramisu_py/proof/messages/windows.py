"""Conditions about messages between ranks whose blocks have individual bounds.

All other conditions are proven for one rank. These concern the other end too: they are proven for three ranks in a row
(see `program.ranks.block_windows`), about the messages to and from the middle one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial, wraps

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.proof.violations.condition import Findings
from tiramisu_py.proof.violations.findings import Finding, Key, Spot
from tiramisu_py.sets import smallest


def in_window(condition: Findings) -> Findings:
    """The findings of a condition about messages, in programs with and without such blocks."""

    @wraps(condition)
    def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
        shown = windowed(flow)
        for finding in condition(shown, sought):
            yield finding if shown is flow else Finding(finding.key, partial(_in_words, finding))

    return findings


def windowed(flow: Flow) -> Flow:
    """The dataflow of a rank and its neighbours; the same one if blocks have no individual bounds."""
    ranks = told_ranks(flow.accesses.program)
    return flow.kept("window", lambda: Flow(MemoryAccesses(ranks.around()))) if ranks.unnumbered else flow


def _in_words(finding: Finding) -> Violation:
    message = f"{finding.violation.message} (ranks are counted from the one in the middle of three)"
    return replace(finding.violation, message=message)


def of_another_block(program: Program, spot: Spot, where: str) -> Violation | None:
    """A value that a rank misses although the algorithm has it: other ranks compute it, and no message brings it."""
    bounds = told_ranks(program).bounds
    if not bounds or not _exists(program, spot):
        return None
    lower, upper = (spot.params.get(name, 0) for name in bounds)
    witness = Witness(spot.params, spot.named, spot.computed(program), spot.element)
    message = (
        f"{where} on the rank with the block from {bounds[0]}={lower} up to {bounds[1]}={upper}, but it is only "
        f"on another rank: no message brings it, {witness}"
    )
    name, indices = spot.named
    dims = ", ".join(f"i{k}" for k in range(len(indices)))
    by_hand = f"create_exchange({name}[{dims}], send=..., to=tm.rank + 1, recv=..., source=tm.rank - 1)"
    repair = f"{by_hand}, or derive_transfers()"
    return Violation("communication", message, witness, repair=repair)


def _exists(program: Program, spot: Spot) -> bool:
    name, indices = spot.named
    if name not in program.algorithm.computations:
        return name in program.algorithm.inputs
    domain: isl.Set = sets.fixed(program.algorithm.computations[name].domain, spot.params)
    return not domain.intersect(smallest.singleton(domain.get_space(), indices)).is_empty()
