"""One operation sequence for each direction: kernels keep theirs, uploads and downloads get one each.

Copies to a GPU, its kernels, and copies from it can then overlap. A copy from one GPU to another is on the sequence of
the first GPU's downloads.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tiramisu_py.program.program import Program


def on_own_sequences(program: Program, names: Collection[str]) -> Program:
    """The program with these transfers on the first unused sequences: uploads, then downloads."""
    others = (program.queue_of(s) for s in program.acting if s.name not in names)
    used = [queue for queue in others if queue is not None]
    changed = []
    for name in names:
        statement = program.statements[name]
        transfer = statement.transfer
        if transfer is not None:
            last = max((stream for device, stream in used if device == transfer.device), default=0)
            stream = last + 1 if transfer.source is None else last + 2
            changed.append(replace(statement, transfer=replace(transfer, stream=stream)))
    return program.with_statement(*changed)
