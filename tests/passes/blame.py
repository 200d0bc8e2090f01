"""Which pass is wrong: `verify` and the interpreter after each pass, beside `evaluate()`.

::

    wrong_pass(f, {"N": 9})     # "", or "peel: at {'N': 9}: y[3] is 0.0, not 1.5"

The functions between passes are those of a compilation: `Pipeline.between` is called after each pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import tiramisu_py as tm
from tests.oracle.agreeing.agreement import wrong_results
from tests.oracle.agreeing.rank_agreement import wrong_run
from tests.oracle.generators.script import Script
from tiramisu_py.ir import LoopFunction
from tiramisu_py.lower import lower
from tiramisu_py.passes import PIPELINE, PassFailedError, Pipeline, shape, stages


def wrong_pass(
    f: tm.Function,
    *sizes: Mapping[str, int],
    register: int = 64,
    pipeline: Pipeline = PIPELINE,
    seed: int = 0,
) -> str:
    """The first pass after which loops are not sound, or do not compute what the algorithm says, and what is wrong.

    Empty where there is none. A stage that is equal to the one before is not run again.
    """
    assert f.check().ok
    script = Script(names={"f": f})
    before: Any = None
    try:
        for stage in stages(partial(lower, f.completed), register, pipeline):
            said = next(stage.faults(), "")
            now = shape(stage.function)
            for params in sizes if now != before and not said else ():
                said = said or _wrong(script, stage.function, params, seed)
            if said:
                return f"{stage.name}: {said}"
            before = now
    except PassFailedError as error:
        return str(error)
    return ""


def _wrong(script: Script, function: LoopFunction, params: Mapping[str, int], seed: int) -> str:
    run = wrong_results if function.grid is None else wrong_run
    return run(script, function, params, seed)
