"""The public entry: an algorithm, its schedule, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self, overload

import islpy as isl
import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm.arguments import extents
from tiramisu_py.algorithm.declarations import Algorithm, Operator
from tiramisu_py.algorithm.declare import declare_computation, declare_input, declare_reduction
from tiramisu_py.algorithm.domain import parse_context
from tiramisu_py.algorithm.evaluate import evaluate
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Operand, Param
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.references import Owner
from tiramisu_py.algorithm.slices import declare_slice
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c import emit
from tiramisu_py.backends.cuda.kernels import kernel_names, signatures
from tiramisu_py.build import Kernel, Resources, compile_function, processor_for
from tiramisu_py.derive.barriers import with_barriers
from tiramisu_py.derive.communication import Communication, communication
from tiramisu_py.derive.transfers import derived_transfers
from tiramisu_py.errors import CommandError, DeclarationError, LegalityError
from tiramisu_py.function.handles import Computation, Input, Reduction
from tiramisu_py.function.operations import Barrier, Exchange, Half, Operation, Transfer, Wait
from tiramisu_py.function.script import as_written, caller
from tiramisu_py.function.selection import Selection
from tiramisu_py.lower import lower, optimise
from tiramisu_py.lower.ir import LoopFunction
from tiramisu_py.program.program import Command, Program
from tiramisu_py.program.ranks import spread
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Memory, as_memory
from tiramisu_py.proof import Report, check
from tiramisu_py.schedule import messages, order, transfers, waits
from tiramisu_py.schedule.initial import caught_up, initial_program, with_computation, with_input, with_outputs
from tiramisu_py.schedule.messages import Property
from tiramisu_py.schedule.order import Root
from tiramisu_py.schedule.selection import free_name
from tiramisu_py.schedule.transfers import Direction, Mode
from tiramisu_py.view import KernelFacts, annotated, kernel_facts, pseudocode


class Function:
    """An algorithm over symbolic sizes, and the schedule that says how it runs.

    ::

        R, C = tm.params("R C")
        r, c = tm.iters("r c")
        f = tm.Function("twice", params=[R, C], assume="R >= 1")
        a = f.input("a", tm.float32, [R, C])
        b = f.computation("b", {r: R, c: C}, 2 * a[r, c])
        f.outputs(b)
        kernel = f.compile()

    `params` are symbolic sizes, at least 0; `assume` is what else holds of them (isl text or a condition), checked
    when the compiled function is called. Raises `DeclarationError` for names that C does not take, or twice.
    """

    def __init__(self, name: str, params: Sequence[Param] = (), assume: str | Expr | None = None) -> None:
        self.name = check_name(name, "a function", linked=True)
        self.owner = Owner(self.name)
        names = tuple(_param_name(given) for given in params)
        if len(set(names)) < len(names):
            raise DeclarationError(f"{name} names a parameter twice: {', '.join(names)}")
        context = isl.Context()
        algorithm = Algorithm(name, context, names, parse_context(context, names, assume))
        self._program = initial_program(algorithm)
        self._completed: tuple[Program, Program] | None = None
        self._checked: tuple[Program, Report] | None = None

    def __repr__(self) -> str:
        return f"<function {self.name}>"

    @property
    def program(self) -> Program:
        """The scheduled program as it stands: an immutable value."""
        return self._program

    @property
    def completed(self) -> Program:
        """The program with the barriers that its kernels need: what is proven and emitted."""
        if self._completed is None or self._completed[0] is not self._program:
            self._completed = (self._program, with_barriers(self._program))
        return self._completed[1]

    @property
    def algorithm(self) -> Algorithm:
        """What the values are: Layer I."""
        return self._program.algorithm

    # -- declarations

    def input(
        self,
        name: str,
        dtype: DType,
        shape: Sequence[Operand],
        *,
        values: tuple[Operand, Operand] | None = None,
        monotone: bool = False,
        permutation: bool = False,
        memory: Memory | str = Memory.HOST,
        device: int = 0,
    ) -> Input:
        """Declare an array that the caller passes, row-major, of `shape` (affine in the parameters).

        `values` = (low, high) declares that every element x has ``low <= x < high``; `monotone` that elements do not
        decrease along the last dimension; `permutation` that they are 0 to n - 1 in some order. Such facts sharpen
        proofs; they are verified when a kernel is called from Python. With ``memory=tm.GPU`` the array is in the
        memory of the GPU `device`. Raises `DeclarationError`.
        """
        if as_memory(memory) not in (Memory.HOST, Memory.GPU):
            pinned = "; an array of tm.pinned_empty is page-locked" if as_memory(memory) is Memory.PINNED else ""
            raise DeclarationError(f"memory={memory!r}: an input is in tm.HOST or in tm.GPU memory{pinned}")
        if isinstance(device, bool) or not isinstance(device, int) or device < 0:
            raise DeclarationError(f"device={device!r}: GPUs are numbered 0, 1, ...")
        declared = declare_input(
            self.algorithm, name, dtype, shape, values=values, monotone=monotone, permutation=permutation,
            owner=self.owner, location=caller(),
        )  # fmt: skip
        self._program = with_input(self._program, declared, device if as_memory(memory) is Memory.GPU else None)
        return Input(self, name)

    def scalar(self, name: str, dtype: DType) -> Expr:
        """Declare a scalar that the caller passes; the result is an expression."""
        declared = declare_input(self.algorithm, name, dtype, (), scalar=True, owner=self.owner, location=caller())
        self._program = with_input(self._program, declared)
        return Access(name, (), declared.dtype, self.owner)

    def computation(
        self,
        name: str,
        domain: Any,
        expr: Operand | Callable[[Any], Operand],
        *,
        where: Expr | None = None,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
    ) -> Computation:
        """Declare a set of values: `expr` for each point of `domain`.

        `domain` is a dict of iterator to extent or to (low, high), high excluded, with bounds affine in the parameters
        and in outer iterators; or isl text; or a list of such dicts (several pieces). `where` is a further condition.
        A recurrence is given by a function of the computation itself: ``lambda h: h[i - 1] + a[i]``. `dtype` defaults
        to the type of the expression; `shape` to the smallest array from index 0. Raises `DeclarationError`.
        """
        declared = declare_computation(
            self.algorithm, name, domain, expr, where=where, dtype=dtype, shape=shape, owner=self.owner,
            location=caller(),
        )  # fmt: skip
        self._program = with_computation(self._program, declared)
        return Computation(self, name)

    def reduction(
        self,
        name: str,
        domain: Any,
        over: Any,
        op: Operator,
        expr: Operand,
        *,
        where: Expr | None = None,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
        ordered: bool = False,
    ) -> Reduction:
        """Declare ``name[i] = op of expr over all points of `over```, for each point of `domain`.

        `over` may depend on the iterators of `domain`. `op` is ``tm.sum``, ``tm.product``, ``tm.min``, ``tm.max``,
        ``tm.logical_and``, ``tm.logical_or`` or a `tm.operator` of the user's. The order of terms is free for commands;
        ``ordered=True`` locks it to the lexicographic order of `over`. Raises `DeclarationError`.
        """
        declared = declare_reduction(
            self.algorithm, name, domain, over, op, expr, where=where, dtype=dtype, shape=shape, ordered=ordered,
            owner=self.owner, location=caller(),
        )  # fmt: skip
        self._program = with_computation(self._program, declared)
        return Reduction(self, name)

    def outputs(self, *results: Computation | Expr) -> None:
        """Say what the function returns, in order: computations, or slices of them such as ``heat[T, i]``.

        A slice becomes a computation of its own, called after its source with ``_out`` behind, that copies the values.
        Raises `DeclarationError` for anything else, or the same result twice.
        """
        if not results:
            raise DeclarationError(f"{self.name} needs at least one output")
        names = [self._output(result) for result in results]
        if len(set(names)) < len(names):
            raise DeclarationError(f"an output is named twice: {', '.join(names)}")
        self._program = with_outputs(self._program, tuple(names))

    def _output(self, result: object) -> str:
        if isinstance(result, Computation):
            if result._function is not self:
                raise DeclarationError(f"{result} belongs to the function {result._function.name}, not to {self.name}")
            return result.name
        if isinstance(result, Access) and result.owner is self.owner and result.source in self.algorithm.computations:
            return self._slice(result)
        raise DeclarationError(f"{result!r} cannot be an output: give computations of {self.name}, or slices of them")

    def _slice(self, result: Access) -> str:
        declared = declare_slice(self.algorithm, result, self.owner, caller())
        self._program = with_computation(self._program, declared)
        return declared.name

    def __getitem__(self, name: str) -> Any:
        """What has this name: an input, a computation, a transfer, a wait or a barrier, derived ones too.

        ``f["image_to_gpu"]`` is the handle of a transfer that `derive_transfers` has added. Raises `DeclarationError`.
        """
        if name in self.algorithm.inputs:
            return Input(self, name)
        if name in self.algorithm.computations:
            kind = Reduction if self.algorithm.computations[name].is_reduction else Computation
            return kind(self, name)
        statement = self.completed.statements.get(name)
        if statement is not None and statement.transfer is not None:
            return Transfer(self, statement.source, name)
        if statement is not None and statement.waits is not None:
            return Wait(self, statement.waits.of, name)
        if statement is not None and statement.role is Role.BARRIER:
            return Barrier(self, "", name)
        raise DeclarationError(f"{self.name} has nothing called {name!r}")

    # -- the schedule

    def apply(self, command: str, change: Callable[[Program, str], Program]) -> None:
        """Apply a command; where it raises, the program stays as it was."""
        try:
            changed = change(self._program, command)
            changed.positions  # noqa: B018  (orders that contradict each other are refused now)
        except isl.Error as error:
            raise CommandError(f"{command}: isl cannot do this ({error})") from None
        except (CommandError, DeclarationError) as error:
            raise type(error)(f"{command}: {error}") from None
        self._program = changed.after(self._program, Command(command, caller()))

    def _check_own(self, handle: object, kinds: Any) -> None:
        if not isinstance(handle, kinds):
            raise CommandError(f"{handle!r} is not a computation of {self.name}")
        if handle._function is not self:
            raise CommandError(
                f"{handle!r} is not a computation of {self.name}, but of another function, {handle._function.name}"
            )

    def order(self, *handles: Selection | Operation, at: Iter | Root) -> None:
        """Put computations in order, each after the one before, in shared loops up to `at` (whole nests at root)."""
        if len(handles) < 2:
            raise CommandError(f"{self.name}.order needs at least two computations")
        for handle in handles:
            self._check_own(handle, Selection | Operation)
        names = [handle.statement_names() for handle in handles]

        def change(program: Program, text: str) -> Program:
            for first, second in pairwise(names):
                program = order.place_after(program, first, second, at, True, text)
            return program

        self.apply(as_written(self.name, "order", handles, {"at": at}), change)

    @overload
    def create_xfer(
        self,
        domain: Any,
        access: Expr,
        direction: Direction,
        mode: Mode = Mode.SYNC,
        *,
        stream: int = 0,
        device: int = 0,
        to_device: int | None = None,
        name: str | None = None,
    ) -> Transfer: ...

    @overload
    def create_xfer(
        self,
        domain: Expr,
        *,
        send: Any,
        to: Any,
        recv: Any,
        source: Any,
        send_props: Sequence[Mode | Property] = (),
        recv_props: Sequence[Mode | Property] = (),
        name: str | None = None,
    ) -> Exchange: ...

    def create_xfer(
        self,
        domain: Any,
        access: Expr | None = None,
        direction: Direction | None = None,
        mode: Mode = Mode.SYNC,
        *,
        stream: int = 0,
        device: int = 0,
        to_device: int | None = None,
        name: str | None = None,
        send: Any = None,
        to: Any = None,
        recv: Any = None,
        source: Any = None,
        send_props: Sequence[Mode | Property] = (),
        recv_props: Sequence[Mode | Property] = (),
    ) -> Transfer | Exchange:
        """Copy values between the memories of the host and of GPUs: ``access`` for each point of `domain`.

        ::

            f.create_xfer({r: R, c: C}, image[r, c], tm.CPU2GPU, tm.ASYNC, stream=1)
                -->   for r in 0..R:
                          for c in 0..C:
                              copy image[r, c] from the host to the GPU, on operation sequence 1

        `direction` is ``tm.CPU2GPU``, ``tm.GPU2CPU`` or ``tm.GPU2GPU`` (from `device` to `to_device`). After a
        ``tm.SYNC`` transfer the host goes on when the values have arrived; a ``tm.ASYNC`` one is only put on operation
        sequence `stream` of the GPU `device`, and `Transfer.wait` waits for it. Each point is an operation, until
        `Transfer.collapse_many` makes whole rows, or all, one. Returns the transfer, to be scheduled like a
        computation; it comes after what computes the values, and otherwise where `order` says.
        Source: TIRAMISU, ``create_xfer``, in its one-sided form.
        """
        if access is None:
            given = {
                "send": send, "to": to, "recv": recv, "source": source,
                "send_props": send_props, "recv_props": recv_props,
            }  # fmt: skip
            return self._exchange(domain, name, given)
        taken = transfers.source_of(access, self.owner)
        between = transfers.between(direction, mode, stream, device, to_device)
        made = free_name(self._program, transfers.default_name(taken, between)) if name is None else name

        def change(program: Program, _: str) -> Program:
            return transfers.one_sided(program, made, domain, access, between, self.owner)

        shown = {
            "mode": None if mode is Mode.SYNC else mode, "stream": stream or None, "device": device or None,
            "to_device": to_device, "name": name,
        }  # fmt: skip
        self.apply(as_written(self.name, "create_xfer", (domain, access, direction), shown), change)
        return Transfer(self, taken, made)

    def _exchange(self, access: Expr, name: str | None, given: Mapping[str, Any]) -> Exchange:
        """Messages between ranks: the two-sided form of `create_xfer`."""
        source = transfers.source_of(access, self.owner)
        made = free_name(self._program, f"{source}_exchange") if name is None else name

        def change(program: Program, _: str) -> Program:
            algorithm, owner = program.algorithm, self.owner
            send = messages.half(algorithm, made, given["send"], access, given["to"], given["send_props"], owner)
            receive = messages.half(algorithm, made, given["recv"], access, given["source"], given["recv_props"], owner)
            return messages.exchange(program, made, send, receive)

        shown = {
            key: None if isinstance(value, tuple) and not value else value
            for key, value in {**given, "name": name}.items()
        }
        self.apply(as_written(self.name, "create_xfer", (access,), shown), change)
        return Exchange(Half(self, source, f"{made}_send"), Half(self, source, f"{made}_receive"))

    def derive_transfers(self) -> None:
        """Add the transfers, and the waits, that the program lacks: of what one device computes and another reads.

        ::

            for r, c0, c1 on the GPU: p[..] = f(a)   -->   copy to the GPU what p reads of a
            for r, c: q[..] = g(p)                         for r, c0, c1 on the GPU: p[..] = f(a)
                                                           copy to the host what q reads of p
                                                           for r, c: q[..] = g(p)

        Transfers of the user are kept, and values that are on the device already are not moved. Called again, after
        other commands, it derives its transfers and waits anew.
        """
        self.apply(f"{self.name}.derive_transfers()", derived_transfers)

    def communication(self, **params: int) -> Communication:
        """What the transfers move at these sizes: elements, bytes and operations, together and of each transfer."""
        return communication(self._program, params)

    def barrier(self, first: Selection, second: Selection, *, at: Iter, name: str | None = None) -> Barrier:
        """Let all threads of a block come to a point between two statements of a kernel before any goes on.

        ::

            for k on each thread:   -->   for k on each thread:
                p[..]                         p[..]
                q[..]                         barrier
                                              q[..]                       (f.barrier(p, q, at=k))

        The barrier is in the loops that both share, up to `at`; where `second` comes first, it separates an iteration
        of this loop from the next. Barriers that dependences need are placed anyway, unless `tag_gpu` was told not to.
        """
        made = free_name(self._program, "barrier") if name is None else name
        for handle in (first, second):
            self._check_own(handle, Selection)
        before, after = first.statement_names(), second.statement_names()
        self.apply(as_written(self.name, "barrier", (first, second), {"at": at, "name": name}),
                   lambda p, text: waits.barrier(p, made, before, after, at, text))  # fmt: skip
        return Barrier(self, "", made)

    def remove(self, handle: Operation | Selection) -> None:
        """Take away a transfer, a wait, a barrier, or a copy that nothing reads."""
        if not isinstance(handle, Selection | Operation) or handle._function is not self:
            raise CommandError(
                f"{handle!r} is nothing that {self.name} could remove: give a transfer, wait, barrier or copy of it"
            )
        names = handle.statement_names()

        def change(program: Program, _: str) -> Program:
            for name in names:
                program = waits.removed(program, name)
            return program

        self.apply(as_written(self.name, "remove", (handle,), {}), change)

    def undo(self) -> None:
        """Take the last command back; raises `CommandError` where there is none."""
        if self._program.parent is None:
            raise CommandError(f"{self.name} has no command to undo")
        self._program = caught_up(self._program.parent, self._program)

    def copy(self) -> Self:
        """A function with the same algorithm and schedule, to be scheduled apart; ``copy["by"]`` is its by."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that made the schedule, as text, in order."""
        return tuple(command.text for command in self._program.log)

    # -- what comes of it

    def check(self) -> Report:
        """Prove that the scheduled program computes what the algorithm says, or say what is wrong with it."""
        if self._checked is None or self._checked[0] is not self._program:
            self._checked = (self._program, check(spread(self.completed), completion=_spread_out))
        return self._checked[1]

    def lowered(self, vector_bytes: int = 64) -> LoopFunction:
        """The loops that will be emitted, for a processor with vectors of this size.

        Raises `LegalityError` for a program that the proof refuses.
        """
        self._require_outputs()
        report = self.check()
        if not report.ok:
            raise LegalityError(report.violations)
        return annotated(optimise(lower(self.completed), vector_bytes))

    def _require_outputs(self) -> None:
        if not self.algorithm.outputs:
            raise DeclarationError(f"{self.name} has no outputs: say what it returns with {self.name}.outputs(...)")

    def source(self) -> dict[str, str]:
        """The generated source text, by file name, for vectors of 64 bytes; `Kernel.source` is what was compiled."""
        return emit(self.lowered())

    def facts(self, kernel: Kernel | None = None) -> tuple[KernelFacts, ...]:
        """What is known of each GPU kernel before it runs: threads, shared memory, what a warp's accesses cost.

        With a compiled `kernel` of this function, also the registers of a thread that the CUDA compiler reported.
        Raises `LegalityError` for a program that the proof refuses.
        """
        function = self.lowered()
        names, reported = kernel_names(function), {} if kernel is None else kernel.resources
        return tuple(kernel_facts(each, _registers(reported.get(names[each.name], {}))) for each in function.kernels)

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
    ) -> Kernel:
        """Prove, emit, compile and load; the result is called with NumPy arrays.

        `target` is a processor (default: this one); `compiler` a C compiler (default: ``$CC``, gcc or clang); `fast`
        names liberties with floating point ("contract", "reassociate", "reciprocal"; none by default); `sanitize`
        names sanitizers; `threads` limits OpenMP threads; `verify_values` checks declared facts of inputs at each
        call. Raises `LegalityError` with the smallest counterexample, or `ToolchainError`.

        A program with GPU parts runs on `device`: "gpu" (the default), "gpu:1" (its first GPU is number 1), or
        "simulator". `architectures` are those of real GPUs that kernels are compiled for, such as "sm_90" (default:
        the GPUs of this machine). In the simulator, ``sanitize=True`` finds accesses out of bounds, races and reads of
        what was not written; `seed` shuffles what may run in any order, and `timing` ("eager", "lazy", "shuffled",
        "threads") says when streams do their work.
        """
        function = self.lowered(processor_for(target, compiler).vector_bytes)
        return compile_function(
            function, emit(function), self.algorithm, target=target, compiler=compiler, fast=fast,
            sanitize=sanitize, threads=threads, verify_values=verify_values, kernels=signatures(function),
            device=device, seed=seed, timing=timing, architectures=architectures,
        )  # fmt: skip

    def evaluate(self, /, *positional: Any, **named: Any) -> Any:
        """The outputs, computed directly in NumPy from the algorithm alone: the oracle of every schedule.

        Takes arguments as a compiled kernel does, and never modifies them. Results are equal bit for bit, but for
        elementary functions (`exp`, `sin`, ...): those of NumPy and of the C library differ in the last bits.
        """
        self._require_outputs()
        arguments, params = self._arguments(positional, named)
        self._add_in_place(arguments)
        results = evaluate(self.algorithm, arguments, params)
        ordered = [results[name] for name in self.algorithm.outputs]
        return ordered[0] if len(ordered) == 1 else tuple(ordered)

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

    def _add_in_place(self, arguments: dict[str, Any]) -> None:
        """An output stored over an input keeps, where nothing is computed, what the input holds."""
        for name in self.algorithm.outputs:
            storage = self._program.storages[name]
            over = storage.buffer
            over_input = over in self.algorithm.inputs and over in arguments and name not in arguments
            if over_input and sets.is_identity(storage.index) and self._has_shape_of(name, over):
                arguments[name] = arguments[over]

    def _has_shape_of(self, output: str, over: str) -> bool:
        own = extents(self.algorithm, self.algorithm.computations[output])
        shape = self.algorithm.inputs[over].shape
        return len(own) == len(shape) and all(a.same_as(b) for a, b in zip(own, shape, strict=True))

    def pseudocode(self) -> str:
        """The scheduled loops as text, to be read."""
        self._require_outputs()
        return pseudocode(lower(self.completed))


def _spread_out(program: Program) -> Program:
    """A program as it is proven: with its barriers, and the coordinates of its rank in every instance."""
    return spread(with_barriers(program))


def _param_name(given: object) -> str:
    if not isinstance(given, Param):
        raise DeclarationError(f"{given!r} is not a parameter: make parameters with tm.params")
    return check_name(given.name, "a parameter")


def params(names: str) -> tuple[Param, ...]:
    """Parameters by name: ``R, C = tm.params("R C")``; symbolic sizes, at least 0."""
    return tuple(Param(check_name(name, "a parameter")) for name in names.replace(",", " ").split())


def iters(names: str) -> tuple[Iter, ...]:
    """Iterators by name: ``i, j = tm.iters("i j")``."""
    return tuple(Iter(check_name(name, "an iterator")) for name in names.replace(",", " ").split())


def _registers(reported: Mapping[str, Resources]) -> dict[int, int]:
    """The registers of a thread by architecture: 90 for "sm_90"."""
    return {int(name.partition("_")[2]): found.registers for name, found in reported.items() if name.startswith("sm_")}
