"""The arguments of one call: bound to their names, checked, and completed with parameters and outputs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import Any, cast
from weakref import ref

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Algorithm, Input
from tiramisu_py.algorithm.declare.assumptions import verify_facts
from tiramisu_py.algorithm.declare.distinct import arrays_of_distinct, together_names, verify_together
from tiramisu_py.algorithm.declare.inverses import in_parts
from tiramisu_py.algorithm.domains.extents_from_arguments import (
    ElementStrides,
    extent_value,
    infer_params,
    shape_value,
)
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import ArrayArgument, LoopFunction, ScalarArgument
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.calls.device_arguments import (
    device_allocated,
    device_viewed,
    require_unified,
    unified_allocated,
)
from tiramisu_py.toolchain.calls.frozen_arrays import VerifiedArrays, is_frozen
from tiramisu_py.toolchain.calls.numpy_arrays import (
    allocated,
    check_bools,
    check_distinct,
    check_overlap,
    strides_of,
    viewed,
)
from tiramisu_py.toolchain.calls.packed_arrays import PackedArray, Packing, joined_sizes, sizes_in_words
from tiramisu_py.toolchain.calls.scalar_arguments import number
from tiramisu_py.toolchain.gpu.available_gpus import Device
from tiramisu_py.toolchain.gpu.device_arrays import DeviceArray

Array = npt.NDArray[Any]
Argument = ArrayArgument | ScalarArgument
Shapes = tuple[tuple[str, tuple[int, ...] | ElementStrides], ...]
Sizes = tuple[tuple[str, int], ...]

_LARGEST = 2**63 - 1
_REMEMBERED = 64


@dataclass(frozen=True)
class PreparedCall:
    """The data of one call: parameters, arguments in C order, and the arrays returned to the caller."""

    params: Mapping[str, int]
    values: Mapping[str, Array | DeviceArray]
    results: tuple[Array | DeviceArray, ...]


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments that a kernel takes. All calls go through `bind`: arguments that pass its checks are safe in C.

    `device` is the first GPU, if the kernel uses any; `packing` are the inputs that it takes packed.
    """

    function: LoopFunction
    algorithm: Algorithm
    verify_values: bool = True
    device: Device | None = None
    packing: Packing = field(default_factory=Packing)

    @cached_property
    def passed(self) -> dict[str, Argument]:
        """The arguments of the C function, in its order and by its names; errors use the user's names of outputs."""
        labels = {buffer: output for output, buffer in self.aliases.items() if buffer not in self.algorithm.inputs}
        return {a.name: replace(a, name=labels.get(a.name, a.name)) for a in self.function.arguments}

    @cached_property
    def inputs(self) -> dict[str, Argument]:
        """The positional arguments, in order of declaration; unused ones are checked too."""
        return {name: self.passed.get(name) or _unused(declared) for name, declared in self.algorithm.inputs.items()}

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The array of each output that is stored in an array of another name."""
        pairs = zip(self.algorithm.output_arrays, self.function.outputs, strict=True)
        return {output: buffer for output, buffer in pairs if output != buffer}

    @cached_property
    def arrays(self) -> dict[str, ArrayArgument]:
        """All array arguments: inputs first."""
        return {name: a for name, a in {**self.inputs, **self.passed}.items() if isinstance(a, ArrayArgument)}

    @cached_property
    def scalars(self) -> dict[str, ScalarArgument]:
        """All scalar arguments."""
        return {name: a for name, a in {**self.inputs, **self.passed}.items() if isinstance(a, ScalarArgument)}

    @cached_property
    def verifies(self) -> bool:
        """Whether each call looks at the values of arrays or scalars: at facts about inputs, and the bytes of bools."""
        declared = self.algorithm.inputs.values() if self.verify_values else ()
        return any(each.dtype.is_bool or _has_facts(each) for each in declared)

    @property
    def checked_by_forms(self) -> bool:
        """Whether calls with arrays of the same types and shapes differ in addresses and scalars alone."""
        return not (self.verifies or self.packing.functions or self.device)

    def bind(self, positional: Sequence[object], named: Mapping[str, object]) -> PreparedCall:
        """The checked call; raises `ArgumentError`, naming the wrong argument and the repair."""
        given, packed = self.packing.split(self.matched(positional, named))
        arrays = {name: self._viewed(argument, given[name]) for name, argument in self.arrays.items() if name in given}
        for each in packed.values():
            arrays |= {name: viewed(self.arrays[name], array) for name, array in each.arrays.items()}
        scalars = {name: number(argument, given[name]) for name, argument in self.scalars.items()}
        params = self._params(given, arrays, packed)
        self._complete(arrays, params)
        values: dict[str, Array | DeviceArray] = {**arrays, **scalars}
        self.verify(values, params)
        return PreparedCall(params, values, tuple(self._result(name, given, arrays) for name in self.function.outputs))

    def _result(
        self, name: str, given: Mapping[str, object], arrays: Mapping[str, Array | DeviceArray]
    ) -> Array | DeviceArray:
        """The array returned for an output: the array that the caller passed, if any."""
        own = given.get(name)
        return arrays[name] if own is None else cast(Array | DeviceArray, own)  # or an array of another library

    def _viewed(self, argument: ArrayArgument, given: object) -> Array | DeviceArray:
        on = self._device_of(argument)
        if on is not None:
            return device_viewed(argument, given, on)
        array = viewed(argument, given)
        if argument.mapped and self.device is not None:
            require_unified(argument, array, self.device)
        return array

    def _device_of(self, argument: ArrayArgument) -> Device | None:
        """The GPU in whose memory an argument is; None for the host's."""
        if argument.device is None or self.device is None:
            return None
        return self.device.plus(argument.device)

    # -- names

    def matched(self, positional: Sequence[object], named: Mapping[str, object]) -> dict[str, object]:
        """The arguments by name, as they were given; raises `ArgumentError` for a name too many or too few."""
        if len(positional) > len(self.inputs):
            raise ArgumentError(
                f"{self.function.name} takes {len(self.inputs)} arguments by position ({_listed(self.inputs)}), "
                f"{len(positional)} were given; outputs and parameters are passed by name"
            )
        given: dict[str, object] = dict(zip(self.inputs, positional, strict=False))
        inputs = self.algorithm.inputs
        named = arrays_of_distinct(inputs, in_parts(inputs, named), given)
        for label, value in named.items():
            self._require_known(label)
            name = self.aliases.get(label, label)
            if name in given:
                held = f" (it is kept in {name})" if name != label else ""
                raise ArgumentError(f"{label} was given twice{held}; leave one out")
            if value is not None or name in self.inputs:
                given[name] = value
        for name in self.inputs:
            if name not in given:
                raise ArgumentError(f"{name} is missing: {self.function.name} takes {_listed(self.inputs)}")
        return given

    @cached_property
    def _known(self) -> dict[str, None]:
        """The names that a call can give."""
        own = [array for array in [*self.inputs, *self.arrays] if array not in self.packing.arrays]
        return dict.fromkeys([*own, *self.aliases, *self.function.params])

    def _require_known(self, name: str) -> None:
        if name not in self._known:
            close = difflib.get_close_matches(name, self._known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ArgumentError(f"{self.function.name} has no argument {name}{hint}; it has {_listed(self._known)}")

    # -- sizes

    def _params(
        self,
        given: Mapping[str, object],
        arrays: Mapping[str, Array | DeviceArray],
        packed: Mapping[str, PackedArray],
    ) -> Mapping[str, int]:
        sizes = {name: as_size(name, given[name]) for name in self.function.params if name in given}
        shapes: Shapes = tuple((name, array.shape) for name, array in arrays.items())
        apart = ((name, strides_of(self.arrays[name], array)) for name, array in arrays.items())
        shapes += tuple((name, strides) for name, strides in apart if strides is not None)
        try:
            return self._remembered(shapes, tuple(joined_sizes(packed, sizes).items()))
        except ArgumentError as error:
            if (words := sizes_in_words(packed)) and words not in str(error):
                error.add_note(words)
            raise

    @cached_property
    def _remembered(self) -> Callable[[Shapes, Sizes], Mapping[str, int]]:
        """A memoised `_inferred`: most calls of a kernel have the same shapes."""
        return lru_cache(maxsize=_REMEMBERED)(self._inferred)

    def _inferred(self, shapes: Shapes, sizes: Sizes) -> Mapping[str, int]:
        equations = [(self.arrays[name].name, *_sides(self.arrays[name], shape)) for name, shape in shapes]
        params = infer_params(self.function.params, equations, dict(sizes))
        for condition, words in self.function.preconditions:
            if not extent_value(condition, params):
                values = ", ".join(f"{name} = {value}" for name, value in params.items())
                raise ArgumentError(f"{self.function.name} needs {words}; it was called with {values}")
        return params

    def _complete(self, arrays: dict[str, Array | DeviceArray], params: Mapping[str, int]) -> None:
        for name, argument in self.arrays.items():
            if name not in arrays and name not in self.packing.functions:
                shape, on = shape_value(argument.passed_extents, params), self._device_of(argument)
                if on is None and argument.mapped and self.device is not None:
                    arrays[name] = unified_allocated(argument, shape, self.device)
                elif on is None:
                    arrays[name] = made = allocated(argument, shape, _strides_in_bytes(argument, params))
                    check_distinct(argument, made)
                else:
                    arrays[name] = device_allocated(argument, shape, on)
        check_overlap([(self.arrays[name], array) for name, array in arrays.items()])

    def verify(self, values: Mapping[str, Array | DeviceArray], params: Mapping[str, int]) -> None:
        """Looks at the declared facts about inputs; raises `ArgumentError`, naming the element, for a wrong one."""
        for name, declared in self.algorithm.inputs.items() if self.verify_values else ():
            if name in self.packing.functions:
                continue  # verified when it was packed
            if declared.dtype.is_bool or _has_facts(declared):
                value = values[name]
                on_host = value.get() if isinstance(value, DeviceArray) else value
                key = VerifiedArrays.key(name, on_host, tuple(params.items())) if on_host is value else None
                if key is not None and key in self._verified:
                    continue
                if declared.dtype.is_bool:
                    check_bools(name, on_host)
                self._require_whole(declared, on_host, params)
                verify_facts(declared, on_host, params)
                if key is not None:
                    self._verified.add(key, on_host)
        for declared in self.algorithm.inputs.values() if self.verify_values else ():
            if together_names(declared):
                self._verify_together(declared, values)

    def _verify_together(self, declared: Input, values: Mapping[str, Array | DeviceArray]) -> None:
        """Looks at an inverse, or at distinct keys, unless the same arrays, which nobody can change, were looked at."""
        names = together_names(declared)
        given = {name: values[name] for name in names}
        arrays = {name: each.get() if isinstance(each, DeviceArray) else each for name, each in given.items()}
        before = self._together.get(declared.name, ())
        if len(before) == len(names) and all(one() is given[name] for one, name in zip(before, names, strict=True)):
            return
        verify_together(declared, self.algorithm.inputs, arrays)
        same = [each for each in given.values() if isinstance(each, np.ndarray) and is_frozen(each)]
        self._together[declared.name] = tuple(map(ref, same)) if len(same) == len(names) else ()

    @cached_property
    def _together(self) -> dict[str, tuple[Callable[[], object], ...]]:
        return {}

    @cached_property
    def _verified(self) -> VerifiedArrays:
        return VerifiedArrays()

    def _require_whole(self, declared: Input, value: Array, params: Mapping[str, int]) -> None:
        """Refuse to verify a fact about all elements together (monotone, distinct) on a rank with only a part."""
        if self.function.grid is None or not (declared.monotone or declared.is_injective):
            return
        if value.shape != shape_value(declared.passed_shape, params):
            fact = "monotone" if declared.monotone else "a permutation" if declared.permutation else "distinct"
            raise ArgumentError(
                f"{declared.name} is declared to be {fact}, but this rank has only a part of it and cannot "
                "verify that: compile with verify_values=False to trust it"
            )


Sides = tuple[int, ...] | ElementStrides


def _sides(array: ArrayArgument, given: Sides) -> tuple[tuple[Expr, ...], Sides]:
    """The extents or strides of an argument, and the numbers that it has for them."""
    return (array.strides or () if isinstance(given, ElementStrides) else array.passed_extents), given


def _strides_in_bytes(array: ArrayArgument, params: Mapping[str, int]) -> tuple[int, ...] | None:
    """The strides of an array that is declared with strides, at parameter values."""
    if array.strides is None:
        return None
    return tuple(extent_value(stride, params) * array.dtype.bytes for stride in array.strides)


def _has_facts(declared: Input) -> bool:
    return declared.values is not None or declared.monotone or declared.is_injective


def _unused(declared: Input) -> Argument:
    if declared.scalar:
        return ScalarArgument(declared.name, declared.dtype)
    return ArrayArgument(
        declared.name, declared.dtype, declared.shape, is_input=True, is_output=False, strides=declared.strides,
        passed=declared.passed, mapped=declared.mapped,
    )  # fmt: skip


def as_size(name: str, given: object) -> int:
    if isinstance(given, bool | np.bool_) or not isinstance(given, int | np.integer):
        raise ArgumentError(f"{name} is a size: pass an integer, not {given!r:.60}")
    if not 0 <= int(given) <= _LARGEST:
        raise ArgumentError(f"{name} = {given} is not a size: it lies in 0 to {_LARGEST}")
    return int(given)


def _listed(names: Mapping[str, object] | Sequence[str]) -> str:
    return ", ".join(names) or "none"
