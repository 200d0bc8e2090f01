"""Declarations: inputs, computations, reductions and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from tiramisu_py.algorithm import declarations
from tiramisu_py.algorithm.declare.declare import declare_computation, declare_input, declare_reduction
from tiramisu_py.algorithm.declare.declare_scan import declare_scan
from tiramisu_py.algorithm.declare.declare_stage import declare_stage
from tiramisu_py.algorithm.declare.inferred import domain_line, inferred
from tiramisu_py.algorithm.declare.slices import declare_slice
from tiramisu_py.algorithm.evaluate.operator_laws import check_laws
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Operand
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import DType
from tiramisu_py.algorithm.words.scattering import ScatteredTerm, scatter
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.applying.caller import caller
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.function.arrays import ProgramArray, unfilled
from tiramisu_py.function.finished_reductions import Finished, accumulated, finished
from tiramisu_py.function.handles.computations import Computation, Input, Reduction
from tiramisu_py.function.together import Group
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.initial import initial_program, with_computation, with_group, with_input, with_outputs
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory, array_begin, as_memory


class Declarations(Scheduled):
    """The declarations of a function: its inputs, computations and results."""

    def input(
        self,
        name: str,
        dtype: DType,
        shape: Sequence[Operand],
        *,
        values: tuple[Operand, Operand] | None = None,
        monotone: bool = False,
        permutation: bool = False,
        distinct: bool = False,
        strides: Sequence[Operand] | None = None,
        memory: Memory | str = Memory.HOST,
        device: int = 0,
    ) -> Input:
        """Declare an array that the caller passes, row-major, of `shape` (affine in the parameters).

        An extent may be a product of such extents: of ``[N * M]``, ``x[i * M + j]`` is element j of row i.
        With `strides` its elements are elsewhere, and it is read where it is: neighbours in dimension d are
        ``strides[d]`` elements apart, numbers or affine in the parameters: ``[S, 1]`` for some columns of a wider
        array, ``[1, S]`` for a transposed one, ``[-S, 1]`` for rows upwards. A kernel takes the parameters from the
        array.
        `values` = (low, high) declares that every element x has ``low <= x < high``; `monotone` that elements do not
        decrease along the last dimension; `permutation` that they are 0 to n - 1 in some order; `distinct` that no two
        are equal. Such facts sharpen proofs: conditions such as ``start[i] <= p`` and ``p < start[i + 1]`` exclude each
        other in different rows if `start` is monotone, and ``order[i] == v`` in different i if `order` is distinct, or
        a permutation. They are verified when a kernel is called from Python. With ``memory=tm.GPU_MEMORY`` the array is
        in the memory of the GPU `device`. With ``memory=tm.HOST_MAPPED`` it is a unified array (of `pinned_empty`, or
        `to_unified`), which stays on the host, and GPUs read it in place. Raises `DeclarationError`.
        """
        if as_memory(memory) not in (Memory.HOST, Memory.GPU, Memory.HOST_MAPPED):
            pinned = "; an array of tm.pinned_empty is page-locked" if as_memory(memory) is Memory.PINNED else ""
            raise DeclarationError(
                f"memory={memory!r}: an input is in tm.HOST, tm.GPU_MEMORY or tm.HOST_MAPPED memory{pinned}"
            )
        if isinstance(device, bool) or not isinstance(device, int) or device < 0:
            raise DeclarationError(f"device={device!r}: GPUs are numbered 0, 1, ...")
        declared = declare_input(
            self._program.algorithm, name, dtype, shape, values=values, monotone=monotone, permutation=permutation,
            distinct=distinct, strides=strides, owner=self.owner, location=caller(),
        )  # fmt: skip
        if strides is not None and as_memory(memory) is Memory.GPU:
            raise DeclarationError(f"strides= of {name}: arrays in GPU memory are contiguous")
        mapped = as_memory(memory) is Memory.HOST_MAPPED
        if strides is not None and mapped:
            raise DeclarationError(f"strides= of {name}: unified arrays are contiguous (memory=tm.HOST_MAPPED)")
        declared = replace(declared, device=device if as_memory(memory) is Memory.GPU else None, mapped=mapped)
        self._program = with_input(self._program, declared)
        return Input(self, name)

    def scalar(self, name: str, dtype: DType, *, values: tuple[Operand, Operand] | None = None) -> Expr:
        """Declare a scalar that the caller passes; the result is an expression.

        `values` (low, high) is a fact about an integer, ``low <= name < high``, verified at each call from Python.
        """
        declared = declare_input(
            self._program.algorithm, name, dtype, (), values=values, scalar=True, owner=self.owner, location=caller()
        )
        self._program = with_input(self._program, declared)
        return Access(name, (), declared.dtype, self.owner)

    def computation(
        self,
        name: str,
        domain: Any,
        expr: Operand | tuple[Operand, ...] | Callable[[Any], Operand],
        *,
        where: Expr | None = None,
        exact: bool = False,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
        values: tuple[Operand, Operand] | None = None,
    ) -> Computation:
        """Declare a set of values: `expr` for each point of `domain`.

        `domain` is a dict of iterator to extent or to (low, high), high excluded, with bounds affine in the parameters
        and in outer iterators; or isl text; or a list of such dicts (several pieces). `where` is a further condition.
        A list of iterators leaves the domain open: once `outputs` is called, it is the smallest box around all that
        other computations read, or, if `exact`, what they read and nothing more. A recurrence is given by a function
        of the computation itself: ``lambda h: h[i - 1] + a[i]``. `dtype` defaults to the type of the expression;
        `shape` to the smallest array from index 0, or from the smallest index where that may be negative. `values`
        (low, high) is a claim about integers, ``low <= x < high`` for each value x: `check` proves it, or refuses the
        function, and what reads the values relies on it. Raises `DeclarationError`.
        """
        self._refuse_of_group(name, expr, where)
        declared = declare_computation(
            self._program.algorithm, name, domain, expr, where=where, exact=exact, dtype=dtype, shape=shape,
            values=values, owner=self.owner, location=caller(),
        )  # fmt: skip
        self._check_before_commands(declared)
        self._program = with_group(self._program, [declared])
        return Computation(self, name)

    @overload
    def reduction(
        self,
        name: str,
        domain: Any,
        over: Any,
        op: Finished,
        expr: Any,
        *,
        where: Expr | None = None,
        ordered: bool = False,
        determinism: str | None = None,
    ) -> Computation: ...

    @overload
    def reduction(
        self,
        name: str,
        domain: Any,
        over: Any,
        op: Operator,
        expr: Any,
        *,
        accumulate: DType,
        where: Expr | None = None,
        exact: bool = False,
        dtype: DType | None = None,
        ordered: bool = False,
        determinism: str | None = None,
    ) -> Computation: ...

    @overload
    def reduction(
        self,
        name: str,
        domain: Any,
        over: Any,
        op: Operator,
        expr: Operand | tuple[Operand, ...] | ScatteredTerm,
        *,
        where: Expr | None = None,
        exact: bool = False,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
        ordered: bool = False,
        values: tuple[Operand, Operand] | None = None,
        determinism: str | None = None,
    ) -> Reduction: ...

    def reduction(
        self,
        name: str,
        domain: Any,
        over: Any,
        op: Operator | Finished,
        expr: Any,
        *,
        where: Expr | None = None,
        exact: bool = False,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
        ordered: bool = False,
        values: tuple[Operand, Operand] | None = None,
        determinism: str | None = None,
        accumulate: DType | None = None,
    ) -> Computation:
        """Declare ``name[i] = op of expr``, over all points of `over`, for each point of `domain`.

        `domain` is as for `computation`; `over` may depend on its iterators. `op` is ``tm.sum``, ``tm.product``,
        ``tm.min``, ``tm.max``, ``tm.logical_and``, ``tm.logical_or``, ``tm.argmin``, ``tm.argmax`` or a `tm.operator`
        of the user's; several values at once are a tuple, as of ``tm.argmin`` ``(value, index)``. Terms that say
        which value they go to are a `scatter`. The order of terms is free for commands; ``ordered=True`` locks it to
        the lexicographic order of `over`. `determinism` is the least that a schedule has to keep of the result's bits:
        "ordered", those of this order; "everywhere" (or "gpu_to_gpu"), bits that follow from schedule and sizes;
        "run_to_run", from the number of threads and ranks as well; "not_guaranteed". The report says what a schedule
        gives. `values` is a claim about the results, as for `computation`.

        ``tm.any``, ``tm.all``, ``tm.mean``, ``tm.var`` (without a correction, as in NumPy), ``tm.norm`` and
        ``tm.logsumexp`` are a reduction with a step before or after it, called `name_sum`, `name_squares` and the
        like. So is `accumulate`, the type in which terms are combined, such as ``tm.float32`` of float16; the result
        has the type of the terms, or `dtype`. Of these, `domain` and `over` are dicts::

            m = f.reduction("m", {i: N}, {k: K}, tm.mean, x[i, k])
                -->   m_sum[i] = sum of x[i, k];  m[i] = m_sum[i] / K

        Raises `DeclarationError`.
        """
        self._refuse_of_group(name, expr, where)
        if isinstance(op, Finished):
            options = {"where": where, "exact": exact, "dtype": dtype, "shape": shape, "ordered": ordered,
                       "values": values, "determinism": determinism, "accumulate": accumulate}  # fmt: skip
            return finished(self, op, name, domain, over, expr, options)
        if accumulate is not None:
            options = {"where": where, "exact": exact, "dtype": dtype, "ordered": ordered, "determinism": determinism}
            return accumulated(self, op, name, domain, over, expr, accumulate, options)
        declared = declare_reduction(
            self._program.algorithm, name, domain, over, op, expr, where=where, exact=exact, dtype=dtype, shape=shape,
            ordered=ordered, determinism=determinism, values=values, owner=self.owner, location=caller(),
        )  # fmt: skip
        check_laws(self._program.algorithm.computations, declared)
        self._check_before_commands(declared)
        self._program = with_computation(self._program, declared)
        return Reduction(self, name)

    def scatter(
        self,
        name: str,
        domain: Any,
        over: Any,
        at: Sequence[Operand],
        op: Operator,
        expr: Operand | tuple[Operand, ...],
        *,
        where: Expr | None = None,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
        ordered: bool = False,
        values: tuple[Operand, Operand] | None = None,
        determinism: str | None = None,
    ) -> Reduction:
        """Declare ``name[at] = op of expr``: each point of `over` adds its term at the place `at`.

        `at` has an index for each iterator of `domain`: values that are read, forms of the iterators of `over`, or the
        iterator itself, where a term goes to all its values. A term whose place is outside of `domain` is left out::

            h = f.scatter("h", {b: 256}, over={r: R, c: C}, at=[level[r, c]], op=tm.sum, expr=1)
                -->   f.reduction("h", {b: 256}, over={r: R, c: C}, op=tm.sum, expr=tm.scatter(1, at=[level[r, c]]))
                -->   f.reduction("h", {b: 256}, over={r: R, c: C}, op=tm.sum, expr=1, where=b == level[r, c])

        In the same way ``at=[label[p], d]`` sums the rows of a label. `domain` may be a list of iterators, which leaves
        it open. It is a reduction like any other, with the loops over places inside those over terms. Raises
        `DeclarationError`.
        """
        return self.reduction(
            name, domain, over, op, scatter(expr, at), where=where, dtype=dtype, shape=shape, ordered=ordered,
            values=values, determinism=determinism,
        )  # fmt: skip

    def scan(
        self,
        name: str,
        domain: Mapping[Iter, Any],
        term: Operand | tuple[Operand, ...],
        op: Operator,
        *,
        exclusive: bool = False,
        chunks: Mapping[Iter, int] | None = None,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
    ) -> Computation:
        """Declare the prefixes of `term` along the last iterator of `domain`, combined by `op`: running sums, maxima.

        An `exclusive` prefix leaves out the own term, and begins with the neutral element. It is a recurrence::

            y = f.scan("y", {i: N, s: S}, a[i, s], tm.sum)
                -->   y[i, 0] = a[i, 0];   y[i, s] = y[i, s - 1] + a[i, s]

        With `chunks`, chunks of so many terms are scanned independently of each other, each from what comes before it::

            y = f.scan("y", {i: N, s: S}, a[i, s], tm.sum, chunks={b: 1024})
                -->   y_sums[i, b]    = sum of a[i, s] over 1024*b <= s < 1024*b + 1024
                      y_carries[i, b] = y_carries[i, b - 1] + y_sums[i, b - 1]
                      y[i, s]         = y_carries[i, s // 1024] + a[i, s]   where s % 1024 == 0
                      y[i, s]         = y[i, s - 1] + a[i, s]               elsewhere

        These are ordinary computations, ``f["y_sums"]`` and ``f["y_carries"]``, with commands of their own: ``b`` of
        the first, and of ``y.split(s, 1024, b, r)``, may run in vectors, on threads, on GPUs and on ranks. Further
        chunks are those of the carries, whose terms are the sums. Any order that a schedule gives the chunks has the
        same bits. An operator of the user's without the laws of a reduction scans without chunks only. Raises
        `DeclarationError`.
        """
        self._refuse_of_group(name, term if isinstance(term, Expr) else None)
        declared = declare_scan(
            self._program.algorithm, name, domain, term, op, exclusive=exclusive, chunks=chunks or {}, dtype=dtype,
            shape=shape, owner=self.owner, location=caller(),
        )  # fmt: skip
        program = self._program
        for each in declared:
            check_laws(program.algorithm.computations, each, scan=name)
            program = with_computation(program, each) if each.is_reduction else with_group(program, [each])
        self._program = program
        return Computation(self, name)

    def stage(
        self,
        name: str,
        domain: Any,
        call: StageCall,
        *,
        over: Any = None,
        where: Expr | None = None,
        each: Sequence[Iter] = (),
        shape: Sequence[Operand] | None = None,
    ) -> Computation:
        """Declare values that a C function over whole arrays computes: a function of `tm.extern_stage`, called.

        One call computes all values of `domain`, or, with ``each=[n]``, all that have the same n. An array argument is
        the part that an access names while its other iterators run over `domain` and over the further ranges `over`;
        `where` restricts both::

            f.stage("c", {i: M, j: N}, gemm(M, N, K, a[i, k], b[k, j]), over={k: K})
                -->   gemm(M, N, K, a, K, b, N, c, N)

            f.stage("c", {n: B, i: M, j: N}, gemm(M, N, K, a[n, i, k], b[n, k, j]), over={k: K}, each=[n])
                -->   for n in 0..B: gemm(M, N, K, a + n*M*K, K, b + n*K*N, N, c + n*M*N, N)

        An index of such an access is an iterator, plus what is the same in a call. The sets of elements that the
        function reads are those of the accesses, and it writes all values of the call: both are taken on trust, and
        everything else is proven of them. The iterators of a call have no loops, so that no command can divide it.
        Raises `DeclarationError`.
        """
        declared = declare_stage(
            self._program.algorithm, name, domain, call, over=over, where=where, each=each, shape=shape,
            owner=self.owner, location=caller(),
        )  # fmt: skip
        self._program = with_computation(self._program, declared)
        return Computation(self, name)

    def together(self) -> Group:
        """Begin a group: computations that may read each other, whatever their order.

        ::

            with f.together() as g:
                s = g.reduction("s", {i: N}, {j: i}, tm.sum, lambda: L[i, j] * x[j])
                x = g.computation("x", {i: N}, lambda: (b[i] - s[i]) / L[i, i])

                -->   for i in 0..N:
                          s[i] = 0
                          for j in 0..i: s[i] += L[i, j] * x[j]
                          x[i] = (b[i] - s[i]) / L[i, i]

        They are declared when the ``with`` statement ends. Before any command, those whose values depend on each other
        share loops, forwards or else backwards, as deep as that is necessary; each has commands and storage of its own.
        `check` refuses a value that depends on itself. Raises `DeclarationError`, and then declares none of them.
        """
        return Group(self)

    def outputs(self, *results: Computation | Expr, replace: bool = False) -> None:
        """Declare what the function returns, in order: computations, or slices of them such as ``heat[T, i]``.

        A slice becomes a computation of its own that copies the values; its name is that of its source with ``_out``
        (and a number, if that is taken) appended. One call names all outputs; with ``replace=True`` a later call
        replaces them. Raises `DeclarationError` for anything else, or the same result twice.
        """
        self._refuse_in_group(f"{self.name}.outputs({', '.join(map(str, results))})", DeclarationError)
        if not results:
            raise DeclarationError(f"{self.name} needs at least one output")
        if self.algorithm.outputs and not replace:
            raise DeclarationError(self._named_again(results))
        if len({str(result) for result in results}) < len(results):
            raise DeclarationError(f"an output is named twice: {', '.join(map(str, results))}")
        program = self._program
        try:
            names = tuple([self._output(result) for result in results])  # slices are declared here
            self._program = self._with_domains(with_outputs(self._program, names))
        except DeclarationError:
            self._program = program
            raise

    def _refuse_of_group(self, name: str, *read: Any) -> None:
        """Refuse a computation of the function that reads those of a group before its end."""
        for each in (node for expr in read if isinstance(expr, Expr) for node in accesses(expr)):
            if each.source in self._drafted:
                self._refuse_in_group(f"{name} reads {each}", DeclarationError)

    def _check_before_commands(self, declared: declarations.Computation) -> None:
        """Refuse an open domain once there are commands: they need it, and would be applied to something else."""
        if declared.is_open and self._program.log:
            raise DeclarationError(
                f"the domain of {declared.name} is to be inferred, and {self.name} has commands already: declare it, "
                f"and call {self.name}.outputs(...), before the first command"
            )

    def _with_domains(self, program: Program) -> Program:
        """A program with the domains that were left open, and arrays for them."""
        algorithm = program.algorithm
        if program.log or not any(declared.is_inferred for declared in algorithm.computations.values()):
            return program
        return initial_program(inferred(algorithm))

    def domains(self) -> str:
        """The domain of each computation, one a line, as conditions on its iterators.

        ::

            print(f.domains())
                -->   bx[r, c]: 0 <= r < R + 2 and 0 <= c < C
                      by[r, c]: 0 <= r < R and 0 <= c < C

        Those that are inferred are known once `outputs` has been called. An output whose array does not begin at index
        0 says where it begins.
        """
        algorithm = self.algorithm
        return "\n".join(
            domain_line(algorithm, each) + self._array_of(each.name) for each in algorithm.computations.values()
        )

    def _array_of(self, name: str) -> str:
        """Where the array of an output begins, in words; empty where that is index 0."""
        storage = self._program.storages.get(name) if name in self._program.algorithm.outputs else None
        begin = "" if storage is None else array_begin(storage, self._program.context)
        return begin and f", in an array that begins at {begin}"

    def _named_again(self, results: Sequence[object]) -> str:
        """The message for outputs that are named a second time."""
        before = self.algorithm.outputs
        new = [str(result) for result in results if str(result) not in before]
        return (
            f"{self.name} returns {', '.join(before)} already: name all outputs in one call, "
            f"{self.name}.outputs({', '.join([*before, *new])}), or others in their place with replace=True"
        )

    def _output(self, result: object) -> str:
        if isinstance(result, Computation):
            if result._function is not self:
                raise DeclarationError(f"{result} belongs to the function {result._function.name}, not to {self.name}")
            if isinstance(result, ProgramArray) and not result.is_filled:
                raise DeclarationError(unfilled(result))
            return result.name
        if (
            isinstance(result, Access)
            and result.owner is self.owner
            and result.source in self._program.algorithm.computations
        ):
            return self._slice(result)
        raise DeclarationError(f"{result!r} cannot be an output: give computations of {self.name}, or slices of them")

    def _slice(self, result: Access) -> str:
        name = free_name(self._program, f"{result.source}_out")
        declared = declare_slice(self._program.algorithm, result, name, self.owner, caller())
        self._program = with_computation(self._program, declared)
        return declared.name
