"""Equal expressions become one object; expressions that only look alike do not."""

from __future__ import annotations

import pytest

from tests.programs.every_pass import SAMPLES, Sample
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import kinds, walk
from tiramisu_py.algorithm.types import float32, int64, weak_int
from tiramisu_py.ir import Block, For, Load, Node, Store, Variable
from tiramisu_py.ir.rewriting import (
    NONTEMPORAL,
    all_expressions,
    buffers_in,
    contents,
    expressions,
    loads,
    loads_in,
    names,
    names_in,
    naming,
    of_kind,
    used_names,
)
from tiramisu_py.ir.rewriting import walk as statements
from tiramisu_py.lower import lower
from tiramisu_py.passes.share_expressions import Shared


def place(variable: Expr, offset: int) -> Load:
    return Load("x", (Binary("+", variable, Const(offset, int64), int64),), float32)


def test_copies_become_one_object() -> None:
    shared = Shared()
    first, second = (shared.expression(place(Iter("i", int64), 1)) for _ in range(2))
    assert first is second
    assert shared.expression(place(Iter("i", int64), 2)) is not first


@pytest.mark.parametrize("other", [Iter("i", weak_int), Variable("i", int64)])
def test_variables_of_another_kind_or_type_stay_apart(other: Iter) -> None:
    shared = Shared()
    first, second = (shared.expression(place(variable, 1)) for variable in (Iter("i", int64), other))
    assert first is not second
    inner = [next(e for e in walk(each) if isinstance(e, Iter)) for each in (first, second)]
    assert [(type(e), e.dtype.weak) for e in inner] == [(Iter, False), (type(other), other.dtype.weak)]


def test_literals_of_other_types_stay_apart() -> None:
    shared = Shared()
    values = [Const(1, int64), Const(1.0, float32), Const(1, weak_int), Const(-0.0, float32), Const(0.0, float32)]
    assert len({id(shared.expression(value)) for value in values}) == len(values)


def bodies(sample: Sample) -> list[Node]:
    function = lower(sample.build().completed)
    return [function.body, *(kernel.body for kernel in function.gpus.kernels)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_what_expressions_and_statements_keep_is_what_walks_find(sample: Sample) -> None:
    for body in bodies(sample):
        for inner in statements(body):
            parts = list(all_expressions(inner))
            found = {type(each) for each in statements(inner)} | {type(e) for e in parts}
            found |= {type(each.tag) for each in statements(inner) if isinstance(each, For)}
            found |= {e.op for e in parts if isinstance(e, Binary)}
            stores = [each for each in statements(inner) if isinstance(each, Store)]
            found |= {NONTEMPORAL for each in stores if each.nontemporal}
            assert contents(inner) == found
            for kind in (Store, For):
                assert list(of_kind(inner, kind)) == [each for each in statements(inner) if isinstance(each, kind)]
            assert names(inner) == used_names(inner, {})
            for name in {each.buffer for each in stores}:
                assert list(naming(inner, name)) == [each for each in statements(inner) if name in names(each)]
        for e in (e for inner in statements(body) for e in expressions(inner)):
            own = list(walk(e))
            assert list(loads_in(e)) == [part for part in own if isinstance(part, Load)]
            assert buffers_in(e) == {part.buffer for part in own if isinstance(part, Load)}
            assert names_in(e) >= {part.name for part in own if isinstance(part, Iter)} | buffers_in(e)
            assert kinds(e) >= {type(part) for part in own}
        assert sorted(map(str, loads(body))) == sorted(str(e) for e in all_expressions(body) if isinstance(e, Load))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_sharing_changes_no_statement(sample: Sample) -> None:
    for body in bodies(sample):
        shared = Shared().statement(body)
        pairs = list(zip(statements(body), statements(shared), strict=True))
        assert all(type(a) is type(b) for a, b in pairs)
        told = [([str(e) for e in expressions(a)], [str(e) for e in expressions(b)]) for a, b in pairs]
        assert all(before == after for before, after in told)


def test_a_shared_statement_is_shared_again() -> None:
    store = Store("y", (place(Iter("i", int64), 1).indices[0],), place(Iter("i", int64), 1), "y")
    result = Shared().statement(Block((store, store)))
    assert isinstance(result, Block)
    first, second = result.body
    assert first is second
