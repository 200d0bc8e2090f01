"""Whether the proof and the judge agree about a program, and whether its loops compute what the algorithm says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.oracle.generators.script import Script
from tests.oracle.judges.events import Execution, misplaced
from tests.oracle.judges.judge import Failure, judge, kinds, sizes
from tests.oracle.judges.plain import Point, integers
from tests.oracle.judges.values import Values
from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.derive.completion import as_proven
from tiramisu_py.errors import Violation
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.proof import requested_code
from tiramisu_py.proof.memory import whole_calls
from tiramisu_py.proof.report import PRESERVED

#: What is said of a program of which no judge knows all.
NO_JUDGE = "no judge knows all of it"
#: The greatest size at which executions are enumerated.
MOST = 64
Array = np.ndarray[Any, np.dtype[Any]]
#: What a judge finds in a program at some sizes.
Judged = Callable[[Script, Mapping[str, int]], list[Failure]]


@dataclass(frozen=True)
class Verdict:
    """What came of comparing: `kind` is one of

    - ``accepted``, ``refused``: the two agree;
    - ``unknown``: the proof gave up, whatever the judge finds;
    - ``unsound``: accepted, and yet the judge finds a failure;
    - ``strict``: refused, and the judge finds nothing, neither at the counterexample nor at small sizes;
    - ``other reason``: refused, and the judge finds nothing at the counterexample, but something elsewhere;
    - ``not judged``: refused for sizes at which there is too much to enumerate;
    - ``not smallest``: refused for a counterexample that is not the smallest.
    """

    kind: str
    text: str = ""


def verdict(script: Script, judged: Judged, small: Sequence[Mapping[str, int]]) -> Verdict:
    """The proof's verdict beside that of a judge, at all small sizes and at the proof's counterexamples.

    Memory that cannot be reached, and partial results that are kept apart, are properties of a program at all sizes;
    the former of branches too that are never taken.
    """
    report = script.function.check()
    if report.ok:
        for params in small:
            failures = judged(script, params)
            if failures:
                return Verdict("unsound", f"accepted, but at {params}: {failures[0]}")
        return Verdict("accepted")
    code = of_the_code(script)
    known = [violation for violation in report.violations if violation.kind != "unknown"]
    if not known:
        return Verdict("unknown", str(report.violations[0]))
    known = [violation for violation in known if max(violation.witness.params.values(), default=0) <= MOST]
    if not known:
        return Verdict("not judged", NO_JUDGE)
    for violation in (each for each in known if each.message not in code):
        at_all_sizes = small if violation.kind in ("reach", "reduction") else []
        counterexample = {**small[0], **violation.witness.params}
        if violation.kind == "reach" and misplaced(script.program):
            continue
        if not any(judged(script, params) for params in (counterexample, *at_all_sizes)):
            wrong = any(judged(script, params) for params in small)
            return Verdict("other reason" if wrong else "strict", f"the judge finds nothing: {violation}")
    return Verdict("refused")


def of_the_code(script: Script) -> set[str]:
    """The messages about prefetches, repeated loops, versions and the form of arrays that calls take, of which a judge
    of values knows nothing.
    """
    flow = Flow(MemoryAccesses(as_proven(script.program)))
    forms = (finding for finding in whole_calls.findings(flow) if finding.violation.kind == "reach")
    return {finding.violation.message for finding in (*requested_code.findings(flow), *forms)}


def compared(script: Script) -> Verdict:
    """The proof's verdict beside the judge's, at all small sizes and at the proof's counterexamples."""
    program = script.program
    small = sizes(program, 5 if len(program.algorithm.params) == 1 else 3)
    report = script.function.check()
    if report.ok:
        for params in small:
            failures = judge(program, params, tries=1)
            if failures:
                return Verdict("unsound", f"accepted, but at {params}: {failures[0]}")
        return Verdict("accepted")
    known = [violation for violation in report.violations if violation.kind != "unknown"]
    if not known:
        return Verdict("unknown", str(report.violations[0]))
    for violation in known:
        if not _confirmed(script, violation, small):
            return Verdict("strict", f"the judge finds nothing: {violation}")
    least = min(known, key=lambda violation: sum(violation.witness.params.values()))
    if least.kind == "reach":  # wrong for every size; the counterexample is the first one with an execution
        return Verdict("refused")
    for params in small:
        if sum(params.values()) < sum(least.witness.params.values()) and _wrong(script, params, least):
            return Verdict("not smallest", f"already wrong at {params}, but {least}")
    return Verdict("refused")


def _confirmed(script: Script, violation: Violation, small: Sequence[Mapping[str, int]]) -> bool:
    """Whether the judge finds something wrong at a counterexample.

    Private copies are a property of a loop at all sizes, so that a reduction may be refused where its loop is still
    right; and a buffer must be reachable in a branch too that is never taken.
    """
    if judge(script.program, {**small[0], **violation.witness.params}):
        return True
    if violation.kind == "reach":
        return misplaced(script.program)
    larger = sizes(script.program, 5) if violation.kind == "reduction" else []
    return any(judge(script.program, params) for params in larger)


def _wrong(script: Script, params: Mapping[str, int], violation: Violation) -> bool:
    """Whether the program (or its algorithm, where that is at fault) is wrong at these parameters."""
    if Values(script.program.algorithm, violation.witness.params).faults():
        return bool(Values(script.program.algorithm, params).faults())
    return bool(judge(script.program, params))


def kind_agrees(script: Script) -> bool:
    """Whether the judge finds a failure of the kind that the proof reports first, at its counterexample."""
    first = script.function.check().violations[0]
    params = {**sizes(script.program, 3)[0], **first.witness.params}
    return first.kind in kinds(judge(script.program, params))


# -- results


def inputs(script: Script, params: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Random inputs: small whole numbers, so that sums are exact in every order, unless all bits are preserved."""
    rng = np.random.default_rng(seed)
    algorithm = script.program.algorithm
    values = Values(algorithm, params)
    found: dict[str, Array] = {}
    for name, source in algorithm.inputs.items():
        shape = values.shape(source)
        if source.values is not None:
            found[name] = as_declared(rng, source, values.range_of(source), shape)
        elif source.dtype.is_float and script.function.check().bits == PRESERVED:
            found[name] = rng.standard_normal(shape).astype(source.dtype.numpy)
        else:
            found[name] = rng.integers(-3, 4, size=shape).astype(source.dtype.numpy)
    return found


def as_declared(rng: np.random.Generator, source: Input, allowed: range, shape: Point) -> Array:
    """Values as their facts say."""
    if source.permutation:
        return rng.permutation(int(np.prod(shape))).astype(source.dtype.numpy).reshape(shape)
    found = rng.integers(allowed.start, allowed.stop, size=shape).astype(source.dtype.numpy)
    return np.sort(found) if source.monotone else found


@dataclass(frozen=True)
class Call:
    """One call of a proven program: its inputs, and what `evaluate()` says of its outputs, for all who run it."""

    script: Script
    params: Mapping[str, int]
    seed: int

    @cached_property
    def given(self) -> dict[str, Array]:
        """The inputs, which nobody may change."""
        return inputs(self.script, self.params, self.seed)

    @cached_property
    def expected(self) -> dict[str, Array]:
        """The outputs, by name."""
        outputs = self.script.program.algorithm.outputs
        found = self.script.function.evaluate(**self.given, **self.params)
        return dict(zip(outputs, found if len(outputs) > 1 else (found,), strict=True))

    @cached_property
    def _outputs(self) -> list[tuple[str, Point, Point, str]]:
        """Each value of an output: its name and index, and its element of a buffer."""
        values = Values(self.script.program.algorithm, self.params)
        execution = Execution(self.script.program, self.params, values)
        found = []
        for name in self.script.program.algorithm.outputs:
            for index in sorted(values.exist[name]):
                buffer, _, element = execution.outside_any_loop(name, index)
                found.append((name, index, element, buffer))
        return found

    def wrong_loops(self, function: LoopFunction, timing: int | None = None) -> str:
        """What is wrong with loops, run by the adversarial machine; empty where nothing is."""
        arrays: dict[str, Array] = {}
        for declared in function.arguments:
            assert isinstance(declared, ArrayArgument)
            shape = tuple(max(0, n) for n in integers(declared.extents, self.params))
            given = self.given[declared.name].copy().reshape(shape) if declared.is_input else None
            arrays[declared.name] = _garbage(shape, declared) if given is None else given
        try:
            run(function, arrays, self.params, self.seed if timing is None else timing)
        except InterpretError as error:
            return f"at {dict(self.params)}: {error}"
        return self.wrong_values({name: array.reshape(self._shape(name)) for name, array in arrays.items()})

    def _shape(self, buffer: str) -> Point:
        """The shape of a buffer in the program: passes may have joined its dimensions."""
        return tuple(max(0, n) for n in integers(self.script.program.buffers[buffer].extents, self.params))

    def wrong_kernel(self, kernel: tm.Kernel) -> str:
        """What is wrong with compiled code; empty where nothing is."""
        storages, outputs = self.script.program.storages, self.script.program.algorithm.outputs
        got = kernel(**{name: np.copy(array) for name, array in self.given.items()}, **self.params)
        results = zip(outputs, got if isinstance(got, tuple) else (got,), strict=True)
        host = {name: array.get() if isinstance(array, tm.DeviceArray) else array for name, array in results}
        return self.wrong_values({storages[name].buffer: np.asarray(array) for name, array in host.items()})

    def wrong_values(self, arrays: Mapping[str, Array]) -> str:
        """The first value of an output that is not what `evaluate()` says; `arrays` are by buffer.

        Bit for bit, where the report says so: the order of terms can change the sign of a zero even where sums are
        exact.
        """
        preserved = self.script.function.check().bits == PRESERVED
        for name, index, element, buffer in self._outputs:
            got, wanted = arrays[buffer][element], self.expected[name][index]
            same = got.tobytes() == wanted.tobytes() if preserved else got == wanted
            if not same and not (np.isnan(got) and np.isnan(wanted)):
                return f"at {dict(self.params)}: {name}{list(index)} is {got}, not {wanted}"
        return ""


def _garbage(shape: tuple[int, ...], declared: ArrayArgument) -> Array:
    return np.full(shape, 77, dtype=declared.dtype.numpy)


def wrong_results(script: Script, function: LoopFunction, params: Mapping[str, int], seed: int) -> str:
    """What is wrong with the loops at one size, run by the adversarial machine; empty where nothing is."""
    return Call(script, params, seed).wrong_loops(function)
