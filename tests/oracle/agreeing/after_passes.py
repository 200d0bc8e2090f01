"""The loops of a proven program after each pass: sound, and right in every run of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.oracle.generators.script import Script
from tiramisu_py.ir import LoopFunction
from tiramisu_py.lower import lower
from tiramisu_py.passes import PassFailedError, optimise, shape, stages


def wrong_after_a_pass(script: Script, wrong: Callable[[LoopFunction], str], register: int = 64) -> str:
    """The first pass after which loops are not sound, or not right, and what is wrong; empty where there is none.

    A stage that is equal to the one before is not run again. Versions for constant sizes have a run of their own,
    after all passes.
    """
    program = script.function.completed
    before: Any = None
    try:
        for stage in stages(partial(lower, program), register):
            said = next(stage.faults(), "")
            now = shape(stage.function)
            if not said and now != before:
                said = wrong(stage.function)
            if said:
                return f"after {stage.name}: {said}"
            before = now
    except PassFailedError as error:
        return str(error)
    if not program.calls.specialized:
        return ""
    said = wrong(optimise(lower(program), register))
    return said and f"with versions: {said}"
