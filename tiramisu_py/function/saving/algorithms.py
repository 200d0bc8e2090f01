"""An algorithm as plain data, and back: the user's declarations, which are declared again.

So the code that first made the sets makes them anew; an operator of the user's is saved as the expression it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

import islpy as isl

from tiramisu_py.algorithm import declarations, operators
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input, Written
from tiramisu_py.algorithm.declare.declare import declare_computation, declare_input, declare_reduction
from tiramisu_py.algorithm.declare.declare_stage import declare_stage
from tiramisu_py.algorithm.declare.inferred import inferred
from tiramisu_py.algorithm.declare.slices import declare_slice
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.declare.stored_elements import wrong_loads, wrong_stores
from tiramisu_py.algorithm.domains.domain import parse_context, parse_domain
from tiramisu_py.algorithm.domains.references import Owner
from tiramisu_py.algorithm.evaluate.operator_laws import check_laws
from tiramisu_py.algorithm.expressions import Const, Expr, Iter
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import substitute
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.algorithm.words.stages import ForeignFunction, StageCall
from tiramisu_py.errors import DeclarationError, SavedError
from tiramisu_py.function.saving.plain import Plain, Reader, plain

_KNOWN = {
    operator.name: operator
    for operator in (
        operators.sum_, operators.product, operators.min_, operators.max_,
        operators.logical_and, operators.logical_or, operators.argmin, operators.argmax,
    )
}  # fmt: skip
#: The operands of an operator, in the expression that it makes.
_OPERANDS = ("accumulator", "term")
_INPUT = ("name", "dtype", "shape", "scalar", "values", "monotone", "permutation", "device", "location", "strides")
#: What only starts of runs that cover all positions have.
_OF_RUNS = ("covers", "search", "inverts", "distinct", "run_of")
_COMPUTATION = ("name", "dtype", "expr", "op", "ordered", "shape", "location", "group", "values", "determinism")
_WRITTEN = tuple(one.name for one in fields(Written))


def plain_algorithm(algorithm: Algorithm) -> Plain:
    """An algorithm as plain data; raises `SavedError`.

    Arrays that programs fill are saved as values: who stores them is proven here, and left out.
    """
    for declared in algorithm.computations.values():
        values = ValueSets(algorithm)
        wrong = wrong_stores(declared, values.filled(declared), algorithm.context)
        wrong += wrong_loads(declared, algorithm.context, values.domain)
        if wrong:
            raise SavedError(f"{declared.name} cannot be saved: {wrong[0]}")
    return _declarations(algorithm)


def declared_values(algorithm: Algorithm) -> Plain:
    """The declarations of an algorithm as plain data, without the places in the user's script and without who stores
    the arrays that programs fill: also where the proof refuses that. Raises `SavedError`.
    """
    return _unplaced(_declarations(algorithm))


def _declarations(algorithm: Algorithm) -> Plain:
    return {
        "name": algorithm.name,
        "params": list(algorithm.params),
        "assume": plain(algorithm.assume),
        "inputs": [_input(each) for each in algorithm.inputs.values()],
        "computations": [_computation(declared) for declared in algorithm.computations.values()],
        "outputs": list(algorithm.outputs),
    }


def _unplaced(data: Plain) -> Plain:
    if isinstance(data, dict):
        return {name: _unplaced(one) for name, one in data.items() if name != "location"}
    return [_unplaced(one) for one in data] if isinstance(data, list) else data


def _fields(of: Input | Computation | Written, names: tuple[str, ...]) -> dict[str, Plain]:
    return {name: plain(getattr(of, name)) for name in names}


def _input(declared: Input) -> Plain:
    kept = _fields(replace(declared, shape=declared.passed_shape), _INPUT)
    if declared.mapped:
        kept["mapped"] = True
    if declared.injective:
        kept["injective"] = True
    if declared.run_of:
        kept["run_of"] = declared.run_of
    if declared.distinct is not None:
        about = declared.distinct
        return {**kept, "distinct": [about.name, [*about.keys], [*about.columns]]}
    if declared.inverts is not None:
        return {**kept, "inverts": [declared.inverts.name, declared.inverts.of, declared.inverts.start]}
    if declared.covers is None:
        return kept
    return {**kept, "covers": plain(declared.covers), **({"search": True} if declared.search else {})}


def _computation(declared: Computation) -> Plain:
    if declared.written is None:
        raise SavedError(f"{declared.name} cannot be saved: no function has declared it")
    operator = None if declared.op is None else _operator(declared.op, declared.dtype)
    grade = None if declared.determinism is None else str(declared.determinism)
    kept = _fields(replace(declared, op=None, determinism=None), _COMPUTATION)
    runs = _fields(declared, ("run_of",)) if declared.run_of else {}
    return {**kept, **runs, "op": operator, "determinism": grade, **_fields(declared.written, _WRITTEN)}


def _operator(operator: Operator, dtype: DType) -> Plain:
    """An operator by its name, or one of the user's by the expression that it makes of two operands of a type."""
    if _KNOWN.get(operator.name) is operator:
        return operator.name
    combined = operator.combine(*(Iter(name, dtype) for name in _OPERANDS))
    neutral = operator.identity(dtype)
    values = [part.value for part in (neutral.children() or (neutral,)) if isinstance(part, Const)]
    identity = tuple(values) if isinstance(dtype, TupleType) else values[0]
    saved = {"name": operator.name, "combine": plain(combined), "identity": plain(identity)}
    if not operator.commutative:
        saved["commutative"] = False
    return {**saved, "names": [*operator.names]} if operator.names else saved


def read_algorithm(data: Mapping[str, Plain], externs: Iterable[ForeignFunction]) -> tuple[Algorithm, Reader]:
    """The algorithm that plain data describes, and the reader of the commands; raises `SavedError`."""
    for name in ("params", "inputs", "computations", "outputs"):
        if not isinstance(data[name], list):
            raise SavedError(f"it is damaged: {name} of the algorithm is not a list")
    context, params = isl.Context(), tuple(data["params"])
    reader = Reader(Owner(data["name"]), {extern.name: extern for extern in externs})
    assume = reader.value(data["assume"])
    defined = parse_context(context, params, assume)
    algorithm = Algorithm(data["name"], context, params, defined, owner=reader.owner, assume=assume)
    for declared in data["inputs"]:
        algorithm = algorithm.with_input(
            _declared_input(algorithm, _read(reader, declared, (*_INPUT, *_OF_RUNS, "mapped", "injective")))
        )
    given = [_read(reader, declared, (*_COMPUTATION, "run_of", *_WRITTEN)) for declared in data["computations"]]
    for label, members in groupby(given, lambda one: one["group"]):
        together = [*members]
        for group in [together] if label else [[one] for one in together]:
            algorithm = _with_group(algorithm, reader, group)
    missing = [name for name in data["outputs"] if name not in algorithm.computations]
    if missing:
        raise SavedError(f"it is damaged: the output {missing[0]} is no computation of {algorithm.name}")
    return inferred(algorithm.with_outputs(tuple(data["outputs"]))), reader


def _read(reader: Reader, data: Mapping[str, Plain], names: tuple[str, ...]) -> dict[str, Any]:
    unknown = [name for name in data if name not in names]
    if unknown:
        raise SavedError(f"{data['name']} is declared with {unknown[0]}=, which this version does not know")
    given = {
        "exact": False,
        "strides": None,
        "group": "",
        "each": (),
        "determinism": None,
        "covers": None,
        "search": False,
        "inverts": None,
        "distinct": None,
        "mapped": False,
        "injective": False,
        "run_of": "",
        **data,
    }  # files of earlier versions have none of these
    return {name: given[name] if name == "op" else reader.value(given[name]) for name in names}


def _declared_input(algorithm: Algorithm, given: dict[str, Any]) -> Input:
    about = given.pop("inverts")
    inverts = declarations.InverseOf(*about) if about else None
    name, *parts = given.pop("distinct") or [""]
    distinct = declarations.DistinctOf(name, *map(tuple, parts)) if name else None
    mapped, search, injective, run_of = (given.pop(name) for name in ("mapped", "search", "injective", "run_of"))
    device, arguments = given.pop("device"), (given.pop("name"), given.pop("dtype"), given.pop("shape"))
    declared = declare_input(algorithm, *arguments, **given, owner=algorithm.owner)
    facts = {"mapped": mapped, "search": search, "injective": injective, "run_of": run_of}
    return replace(declared, device=device, inverts=inverts, distinct=distinct, **facts)


def _with_group(algorithm: Algorithm, reader: Reader, given: Sequence[Mapping[str, Any]]) -> Algorithm:
    """The algorithm with a computation, or with those of a group, each declared beside the others."""
    ranks = {one["name"]: _rank(algorithm, one) for one in given if one["group"]}
    made = [_declared(algorithm, reader, one, ranks) for one in given]
    try:
        for each in made:
            check_laws(algorithm.computations, each)
    except DeclarationError as error:
        raise SavedError(str(error)) from None
    made = [replace(each, group=one["group"], run_of=one["run_of"]) for each, one in zip(made, given, strict=True)]
    return algorithm.with_computation(*made)


def _rank(algorithm: Algorithm, given: Mapping[str, Any]) -> int:
    return len(parse_domain(algorithm, given["name"], given["domain"], None, algorithm.owner).iterators)


def _declared(
    algorithm: Algorithm, reader: Reader, given: Mapping[str, Any], beside: Mapping[str, int] | None = None
) -> Computation:
    name, location, owner = given["name"], given["location"], algorithm.owner
    if given["is_slice"]:
        return declare_slice(algorithm, given["expr"], name, owner, location)
    options = {one: given[one] for one in ("where", "exact", "dtype", "shape", "location", "values")}
    if isinstance(given["expr"], StageCall):
        return declare_stage(
            algorithm, name, given["domain"], given["expr"], over=given["over"], where=given["where"],
            each=given["each"], shape=given["shape"], owner=owner, location=location,
        )  # fmt: skip
    if given["op"] is None:
        return declare_computation(
            algorithm, name, given["domain"], given["expr"], **options, beside=beside, owner=owner
        )
    operator = _read_operator(reader, given["op"])
    return declare_reduction(
        algorithm, name, given["domain"], given["over"], operator, given["expr"], **options, ordered=given["ordered"],
        determinism=given["determinism"], beside=beside, owner=owner,
    )  # fmt: skip


def _read_operator(reader: Reader, data: Plain) -> Operator:
    if isinstance(data, str):
        if data not in _KNOWN:
            raise SavedError(f"a reduction is by {data}, an operator that this version does not know")
        return _KNOWN[data]
    combined, identity = reader.value(data["combine"]), reader.value(data["identity"])

    def combine(accumulator: Expr, term: Expr) -> Expr:
        return substitute(combined, dict(zip(_OPERANDS, (accumulator, term), strict=True)))

    names, commutative = tuple(data.get("names", ())), data.get("commutative", True)
    return Operator(data["name"], combine, lambda _: identity, names, commutative)
