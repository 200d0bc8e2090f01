"""The results of a schedule: its proof, its source text, a compiled kernel, and the oracle.

Translation validation: the loops of a function after each pass, run beside what the algorithm says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import islpy as isl
import numpy as np
import numpy.typing as npt

from tiramisu_py import backends, interpret, ir, lower, passes, sets, toolchain, view
from tiramisu_py.algorithm.domains.extents import default_place
from tiramisu_py.algorithm.domains.runs import stored_axes
from tiramisu_py.algorithm.evaluate.evaluate import evaluate
from tiramisu_py.algorithm.evaluate.given_values import GivenValues, checked_arguments, extents
from tiramisu_py.derive.completion import as_proven
from tiramisu_py.errors import ArgumentError, CompilerDefect, DeclarationError, LegalityError
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.function.saving.files import write_certificate
from tiramisu_py.function.scheduled_values import checked_threads, in_scheduled_order, interpreted
from tiramisu_py.program.machine.pins import as_pin
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.progress import step
from tiramisu_py.proof import Budget, Report, check, given_up
from tiramisu_py.proof.certificates.certificate import certificate
from tiramisu_py.proof.report import PRESERVED
from tiramisu_py.proof.rounding import check_rounding
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html

#: The sizes of vectors that loops are lowered for.
VECTOR_BYTES = (8, 16, 32, 64)

_Found = TypeVar("_Found")


class Results(Scheduled):
    """The operations on a scheduled function: check, lower, compile and evaluate."""

    def check(self) -> Report:
        """Prove that the scheduled program computes the values of the algorithm, or report what is wrong with it."""
        if self._checked is None or self._checked[0] is not self._program:
            self._checked = (self._program, self._proven())
        return self._checked[1]

    def certificate(self, path: str | Path | None = None) -> dict[str, Any]:
        """The proven program and the evidence of its proof as plain data, written to `path` as JSON if that is given.

        ``scripts/verify_certificate`` checks it without this package, and ``scripts/verify_messages`` the messages of
        ranks: see [certificates](certificates.md). Raises `LegalityError` for a program that the proof refuses, and
        `UnsupportedError` for what no certificate covers yet: trees, partial results of ranks, calls over whole arrays,
        computations with conditions on values. `SavedError`: the path cannot be written.
        """
        self._require_outputs()
        report = self.check()
        if not report.ok or report.program is None:
            raise LegalityError(report.violations)
        found = certificate(report.program)
        if path is not None:
            write_certificate(path, found)
        return found

    def _proven(self) -> Report:
        if self._open_domains:
            raise DeclarationError(f"{self.name} cannot be checked: {self._open_domains}")
        try:
            with Budget(self.algorithm.isl_context):
                program = spread(self.completed)
        except isl.Error as error:
            return given_up(self.name, "completion", error)
        with step(f"{self.name}: proof", "fewer symbolic sizes (assume= fixes them) make simpler sets"):
            return check(program, completion=as_proven)

    def _lowered_loops(self, vector_bytes: int = 64, *, until: str | None = None) -> view.ReadableLoops:
        """The loops that are emitted, or those after a pass; kept until the program, or what is asked, changes."""
        asked, kept = (vector_bytes, until), self._lowered
        if kept is None or kept[0] is not self._program or kept[1] != asked:
            kept = self._lowered = (self._program, asked, self._loops(vector_bytes, until))
        return kept[2]

    def _loops(self, vector_bytes: int, until: str | None) -> view.ReadableLoops:
        self._require_outputs()
        self._require_vectors(vector_bytes)
        pipeline = passes.PIPELINE if until is None else passes.PIPELINE.until(until)
        report = self.check()
        if not report.ok:
            raise LegalityError(report.violations)
        with step(f"{self.name}: loops", "unrolled, masked and separated loops make copies of each statement"):
            function = passes.optimise(lower.lower(self.completed, pipeline), vector_bytes, pipeline)
        return view.readable(view.annotated(function) if until is None else function)

    def _require_vectors(self, vector_bytes: object) -> None:
        if vector_bytes not in VECTOR_BYTES:
            said = "name a pass by until=" if isinstance(vector_bytes, str) else "choose 8, 16, 32 or 64"
            raise ArgumentError(f'show("lowered"): vectors of {vector_bytes!r} bytes: {said}')

    def _require_outputs(self) -> None:
        if not self.algorithm.outputs:
            raise DeclarationError(f"{self.name} has no outputs: say what it returns with {self.name}.outputs(...)")
        if self._open_domains:
            raise DeclarationError(f"{self.name} is not complete: {self._open_domains}")

    def source(self, target: str | toolchain.Target | None = None) -> dict[str, str]:
        """The generated source text, by file name: for vectors of 64 bytes, whatever this machine has, or for those of
        the processor `target`, named as for `compile`. `Kernel.source` is what was compiled. Raises `ToolchainError`
        for a name that the compiler does not know.
        """
        vector_bytes = 64 if target is None else toolchain.target(target).vector_bytes
        return dict(backends.emit(self._lowered_loops(vector_bytes)))

    def compile(
        self,
        *,
        target: str | None = None,
        compiler: str | None = None,
        fast: Sequence[str] = (),
        sanitize: Sequence[str] | bool = (),
        threads: int | None = None,
        verify_values: bool = True,
        device: str | None = None,
        seed: int | None = None,
        timing: str | None = None,
        architectures: Sequence[str | int] | None = None,
        pin: str | Sequence[int] | None = None,
        trace: bool = False,
        page_lock: bool = False,
        graph: bool = False,
        storage: str | os.PathLike[str] | toolchain.SimulatedDisk | None = None,
    ) -> toolchain.Kernel:
        """Prove, emit, compile and load; the result is called with NumPy arrays.

        `target` is a processor (default: this one); `compiler` a C compiler (default: ``$CC``, gcc or clang), which may
        be a cross compiler: such a kernel is exported, not called. `fast` names permitted changes of floating-point
        results ("contract", "reassociate", "reciprocal"; none by default); `sanitize` names sanitizers; `threads`
        limits OpenMP threads; `verify_values` checks declared facts of inputs at each call. `pin` binds the threads,
        while the function runs, to cpus that the process may use: "close" together, "spread" over cores and memory
        nodes, to the cpus of a node ("node:0"), each rank of a distributed function to the node of its number on its
        machine ("node"), or thread t to entry t of a list, ``[0, 1]``; if there are more threads than cpus, they share
        them cyclically (see `Kernel.placement`). Raises `LegalityError` with the smallest counterexample, or
        `ToolchainError`.

        A program with GPU parts runs on `device`: "gpu" (the default), "gpu:1" (its first GPU is number 1), or
        "simulator". Unless the device has a number, each rank of a distributed program takes the GPU of its number
        among the ranks of its machine, modulo the number of GPUs. A call, or a rank, without work for a GPU needs none.
        `architectures` are those of the GPUs for which kernels are compiled, such as "sm_90" (default: the GPUs of this
        machine). In the simulator, ``sanitize=True`` finds accesses out of bounds, races and reads of uninitialized
        memory; `seed` shuffles work that may run in any order, and `timing` ("eager", "lazy", "shuffled", "threads")
        says when streams do their work.

        With `page_lock` the caller's arrays that GPUs copy are page-locked, from the first copy until the call ends:
        copies are then faster, and overlap with the host's own work. Locking takes time, too; it pays for arrays that
        are copied more than once, or during other work. Without it, downloads go through page-locked memory of the
        runtime, also during that work, and the host copies them once more when it waits for them; uploads may block the
        host until they are complete. Memory that the driver does not lock (locked already by `pinned_empty`, or
        read-only) is copied as without the option. Meanwhile no other thread may call a function with the array. A
        temporary that GPUs copy is page-locked with ``store_in(tm.PINNED)``.

        With `graph`, what a call gives its GPUs becomes CUDA graphs: one of all kernels, copies between devices and
        fills that lie between two points at which the host takes part (it waits, or copies its own arrays). Where
        arrays stay on the device (``memory=tm.GPU_MEMORY``) a call has one graph, and launches that in the place of
        each kernel. Each call captures its own addresses and sizes, and updates the graph of an earlier one. It pays
        for many short kernels; the program, its order and its values stay the same. `Kernel.launches` counts.

        A program that keeps values in files (`offload`, ``tm.CPU2FILE``) has them in the folder `storage`, on a disk:
        they have no names there, and none is left however a call ends. ``storage="simulator"`` is a disk in memory, for
        which `seed` and `timing` say when copies happen; a `SimulatedDisk` has a speed.

        With `trace` each call logs its actions and their times in ``kernel.trace`` (see `Trace`); without it the
        library contains no tracing code.
        """
        made = emission(
            self, target=target, compiler=compiler, fast=fast, sanitize=sanitize, threads=threads,
            verify_values=verify_values, device=device, seed=seed, timing=timing, architectures=architectures, pin=pin,
            trace=trace, page_lock=page_lock, graph=graph, storage=storage,
        )  # fmt: skip
        return made()

    def evaluate(self, /, *positional: Any, as_scheduled: bool = False, threads: int = 1, **named: Any) -> Any:
        """The outputs, computed directly in NumPy from the algorithm alone: the oracle of every schedule.

        Takes arguments as a compiled kernel does, and never modifies them. Each output is an array over the indices of
        its values, however a schedule stores it; a kernel gives the array of its buffer (`store_in`), such as one over
        the entries of rows, and so does `as_scheduled`. Results are equal bit for bit, except for
        elementary functions (`exp`, `sin`, ...): those of NumPy and of the C library differ in the last bits; and for
        sums of floating-point numbers that a schedule rounds in another order. With `as_scheduled` terms are combined
        in the order of the schedule: in its lanes, blocks and trees, and in the private copies of so many `threads`.
        Results of reductions that are `ordered`, `everywhere` or `run_to_run` are then those of a compiled kernel bit
        for bit. The loops are run in Python: many iterations at once in NumPy where the bits are the same (those whose
        elements others do not touch, and sums term by term). Others, and the threads of GPUs, run one step after
        another, which takes a thousand times as long as the kernel. Functions with ranks run on as many as they need,
        in this process, and take and return whole arrays.
        Raises `ArgumentError` for a reduction that is `not_guaranteed`, and for blocks with bounds of their own
        (`Function.blocks`).
        """
        self._require_outputs()
        arguments, params = self._arguments(positional, named)
        if as_scheduled:
            if what := told_ranks(self._program).unnumbered:
                raise ArgumentError(f"as_scheduled=True: {self.name} has {what}: run it under mpirun")
            given, count = checked_arguments(self.algorithm, arguments, params), checked_threads(threads)
            return in_scheduled_order(
                self.check(), lambda: self._interpreted(self._lowered_loops(), given, threads=count)
            )
        self._add_in_place(arguments, params)
        results = evaluate(self.algorithm, arguments, params)
        ordered = [results[name] for name in self.algorithm.output_arrays]
        return ordered[0] if len(ordered) == 1 else tuple(ordered)

    def validate(self, /, *positional: Any, vector_bytes: int = 64, **named: Any) -> tuple[str, ...]:
        """Run the loops as they are lowered, and again after each pass that changes them; compare with `evaluate()`.

        ::

            f.validate(x, N=9)          # ("lowering", "unroll_loops", "vectorize"): what made, and changed, the loops

        Takes arguments as a compiled kernel does, and never modifies them; small ones, since the loops are run in
        Python. Each time the loops must be sound, and compute the outputs that `evaluate()` does: bit for bit if the
        report says that bits are preserved, else within the rounding of their type. Raises `CompilerDefect`, which
        names the first pass after which that is not so; `LegalityError` for a program that the proof refuses; and
        `ArgumentError` for blocks with bounds of their own (`Function.blocks`).
        """
        self._require_outputs()
        self._require_vectors(vector_bytes)
        if what := told_ranks(self._program).unnumbered:
            raise ArgumentError(f"{self.name} has {what}: it is not validated")
        report = self.check()
        if not report.ok:
            raise LegalityError(report.violations)
        arguments, params = self._arguments(positional, named)
        given = checked_arguments(self.algorithm, arguments, params)
        wanted = self.evaluate(*positional, **named)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        exact = report.bits == PRESERVED
        stages = passes.stages(partial(lower.lower, self.completed), vector_bytes)
        return validated(stages, lambda each: self._interpreted(each, given), wanted, exact)

    def _interpreted(self, function: ir.LoopFunction, given: GivenValues, *, threads: int | None = None) -> list[Any]:
        """The outputs after the interpreter has run some loops."""
        return interpreted(function, given, threads)

    def _arguments(
        self, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, int]]:
        inputs = list(self.algorithm.inputs)
        if len(positional) > len(inputs):
            raise DeclarationError(f"{self.name} takes {len(inputs)} inputs, {len(positional)} were given")
        params = {name: value for name, value in named.items() if name in self.algorithm.params}
        arguments = dict(zip(inputs, positional, strict=False))
        for name, value in named.items():
            if name in params:
                continue
            if name in arguments:
                raise DeclarationError(f"{name} is given twice, by position and by name")
            arguments[name] = value
        return arguments, params

    def _add_in_place(self, arguments: dict[str, Any], params: Mapping[str, int]) -> None:
        """Let an output stored over an input keep the input's elements where nothing is computed."""
        algorithm = self.algorithm
        for name in algorithm.outputs:
            storage = self._program.storages[name]
            over = storage.buffer
            over_input = over in algorithm.inputs and over in arguments and name not in arguments
            declared = algorithm.computations[name]
            own = default_place(declared.domain, stored_axes(algorithm, declared))
            plain = sets.is_identity(storage.index) or storage.index.plain_is_equal(own)
            if over_input and plain and self._has_shape_of(name, over):
                in_rows = algorithm.inputs[over].passed is not None
                given = checked_arguments(algorithm, arguments, params).inputs if in_rows else arguments
                arguments[name] = given[over]

    def _has_shape_of(self, output: str, over: str) -> bool:
        own = extents(self.algorithm, self.algorithm.computations[output])
        shape = self.algorithm.inputs[over].shape
        return len(own) == len(shape) and all(a.same_as(b) for a, b in zip(own, shape, strict=True))

    def _repr_html_(self) -> str:
        """In a notebook: the loops."""
        return as_html(f"{self!r}\n{view.loop_nests(self._program)}\n")


@dataclass(frozen=True)
class Emission:
    """A program that is proven and emitted: its files, and the second half of `Results.compile`, which compiles and
    loads them. That makes no isl objects, so that it may be called in any thread.
    """

    sources: Mapping[str, str]
    compiled: Callable[[], toolchain.Kernel]

    def __call__(self) -> toolchain.Kernel:
        return self.compiled()


def emission(
    f: Results,
    *,
    target: str | None = None,
    compiler: str | None = None,
    pin: str | Sequence[int] | None = None,
    trace: bool = False,
    page_lock: bool = False,
    graph: bool = False,
    **options: Any,
) -> Emission:
    """The first half of `Results.compile`, with its options: the program is proven and emitted.

    Raises what `compile` raises before the C compiler is run.
    """
    fast = options.get("fast", ())
    toolchain.fast_flags(fast)  # refuses what is no name
    check_rounding(f.algorithm, fast)
    function: ir.LoopFunction = f._lowered_loops(toolchain.processor_for(target, compiler).vector_bytes)
    for option, given in (("trace", trace), ("page_lock", page_lock), ("graph", graph)):
        if not isinstance(given, bool):
            raise ArgumentError(f"{option}={given!r}: give True or False")
    if graph and not function.gpus.kernels:
        raise ArgumentError(f"graph=True, and {f.name} has no kernels of a GPU: leave it out")
    if graph and trace:
        raise ArgumentError("graph=True and trace=True: a graph has no times for its kernels; give one of them")
    function = passes.traced(function) if trace else function
    function = replace(
        function,
        options=replace(function.options, pin=as_pin(pin, function.grid is not None)),
        gpus=replace(function.gpus, page_lock=page_lock, graphs=graph),
    )
    with step(f"{f.name}: text"):
        sources = backends.emit(function)
    compiled = partial(
        toolchain.compile_function, function, sources, f.algorithm, target=target, compiler=compiler,
        kernels=backends.signatures(function), **options,
    )  # fmt: skip
    return Emission(sources, compiled)


Array = npt.NDArray[Any]


def validated(
    stages: Iterable[passes.Stage],
    run: Callable[[ir.LoopFunction], Sequence[Array]],
    wanted: Sequence[Array],
    exact: bool,
) -> tuple[str, ...]:
    """The names of the stages that changed the loops; all of them are sound, and `run` gives the outputs `wanted`.

    Raises `CompilerDefect` for the first one that is not. Outputs are compared bit for bit if they are to be `exact`.
    """
    changed, before = list[str](), None
    try:
        for stage in stages:
            said, now = next(stage.faults(), ""), passes.shape(stage.function)
            if not said and now != before:
                said = _wrong(stage.function, run, wanted, exact)
                changed.append(stage.name)
            if said:
                raise CompilerDefect(f"the loops are wrong after {stage.name}: {said}")
            before = now
    except passes.PassFailedError as error:
        raise CompilerDefect(f"a pass failed, {error}") from error
    return tuple(changed)


def _wrong(
    function: ir.LoopFunction, run: Callable[[ir.LoopFunction], Sequence[Array]], wanted: Sequence[Array], exact: bool
) -> str:
    """The first output that some loops do not compute; empty if there is none."""
    try:
        results = run(function)
    except interpret.InterpretError as error:
        return str(error)
    for name, found, expected in zip(function.outputs, results, wanted, strict=True):
        right = np.reshape(expected, found.shape)
        odd = np.argwhere(~_alike(found, right, exact))
        if len(odd):
            at = tuple(map(int, odd[0]))
            return f"{name}{list(at)} is {found[at]}, not {right[at]}"
    return ""


def _alike(found: Array, wanted: Array, exact: bool) -> npt.NDArray[np.bool_]:
    """The elements that are equal: in all bits, but for those of NaN, or within half the digits of their type."""
    if found.dtype.kind not in "fV" or not exact:
        near = _near(found, wanted) if found.dtype.kind == "f" else found == wanted
        return np.asarray(near)
    bits = [np.ascontiguousarray(each).view(f"u{each.dtype.itemsize}") for each in (found, wanted)]
    return np.asarray((bits[0] == bits[1]) | ((found != found) & (wanted != wanted)))


def _near(found: Array, wanted: Array) -> npt.NDArray[np.bool_]:
    digits = float(np.sqrt(np.finfo(found.dtype).eps))
    return np.isclose(found, wanted, rtol=digits, atol=digits, equal_nan=True)
