"""Each pass made wrong once is named: skipped where the loops need it, and otherwise off by one in a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.passes.blame import wrong_pass
from tests.programs.every_pass import SAMPLES
from tiramisu_py.algorithm.expressions import Binary
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import BeginArray, EndArray, LoopFunction, MemoryBlock, Node, Store
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import walk, with_children
from tiramisu_py.passes.base import About, FunctionPass, NestPass
from tiramisu_py.passes.pipeline import PIPELINE, Pipeline

Wrong = Callable[[Any, Any, About], Any]


def skipped(each: FunctionPass | NestPass, what: Any, about: About) -> Any:
    """Nothing is done."""
    return what


def off_by_one(each: Any, what: Any, about: About) -> Any:
    """The first store goes to the next element."""
    result = each.apply(what, about)
    if not isinstance(result, LoopFunction):
        return _shifted(result)
    body = _shifted(result.body)
    if body is not result.body:
        return replace(result, body=body)
    first, *others = result.gpus.kernels
    return replace(result, gpus=replace(result.gpus, kernels=(replace(first, body=_shifted(first.body)), *others)))


def _shifted(node: Node) -> Node:
    done = False

    def change(inner: Node) -> Node:
        nonlocal done
        if done:
            return inner
        if isinstance(inner, Store) and inner.indices:
            done = True
            *others, last = inner.indices
            return replace(inner, indices=(*others, Binary("+", last, number(1), int64)))
        return with_children(inner, change)

    changed = change(node)
    return changed if done else node


def in_one_block(each: Any, what: Any, about: About) -> Any:
    """All arrays have the same memory."""
    result = each.apply(what, about)
    name = next(node.name for node in walk(result.body) if isinstance(node, MemoryBlock))

    def change(node: Node) -> Node:
        moved = replace(node, block=name) if isinstance(node, BeginArray | EndArray) else node
        return with_children(moved, change)

    return replace(result, body=change(result.body))


#: The list of a pass, its name, how it is wrong, and the sample whose loops it changes.
MUTANTS: tuple[tuple[str, str, Wrong, str], ...] = (
    ("first", "collapse_loops", skipped, "triangle"),
    ("first", "merge_host_guards", off_by_one, "cooperative/blur"),
    ("first", "shrink_device_arrays", off_by_one, "gpu/two GPUs"),
    ("first", "define_rank_parameters", skipped, "uneven pieces"),
    ("before_nests", "remove_unread", off_by_one, "unread"),
    ("before_nests", "join_dimensions", off_by_one, "joined"),
    ("before_nests", "walk_bundles", off_by_one, "bundles"),
    ("host", "unroll_registers", off_by_one, "cpu/blur"),
    ("host", "count_steps", skipped, "a step"),
    ("host", "peel", off_by_one, "cpu/heat"),
    ("host", "full_tiles", off_by_one, "tiles"),
    ("host", "vectorize_rows", off_by_one, "tiles"),
    ("host", "unroll_loops", skipped, "tiles"),
    ("host", "share_expressions", off_by_one, "tiles"),
    ("host", "narrow", off_by_one, "cpu/warp"),
    ("host", "simplify", off_by_one, "a step"),
    ("host", "align", off_by_one, "cpu/tiles in time"),
    ("host", "vectorize", skipped, "tiles"),
    ("host", "whole_lines", off_by_one, "cpu/blur"),
    ("host", "share_masks", off_by_one, "cpu/blur"),
    ("host", "promote", off_by_one, "cpu/heat"),
    ("host", "share_expressions_after_promote", off_by_one, "tiles"),
    ("host", "loads_first", off_by_one, "tiles"),
    ("host", "decide", off_by_one, "cpu/heat"),
    ("after_nests", "merge_host_guards_after_decide", off_by_one, "tiles"),
    ("after_nests", "plain_remainders", off_by_one, "tiles"),
    ("after_nests", "launch_constants", off_by_one, "gpu/two GPUs"),
    ("after_nests", "matrix_tiles", off_by_one, "tiles of cores"),
    ("after_nests", "share_memory", in_one_block, "lifetimes"),
    ("after_nests", "keep_memory", in_one_block, "rows of iterations"),
    ("kernel", "unroll_registers", off_by_one, "gpu/product"),
    ("kernel", "count_steps", off_by_one, "gpu/two GPUs"),
    ("kernel", "peel_after_count_steps", off_by_one, "gpu/two GPUs"),
    ("kernel", "full_blocks", off_by_one, "gpu/two GPUs"),
    ("kernel", "decide_after_full_blocks", off_by_one, "gpu/product"),
    ("kernel", "keep_unrolled", off_by_one, "gpu/two GPUs"),
    ("kernel", "vectorize", skipped, "gpu/product"),
    ("kernel", "tensor_fragments", off_by_one, "gpu/warps"),
    ("kernel", "fragment_matrices", off_by_one, "gpu/warps"),
    ("kernel", "promote", off_by_one, "gpu/two GPUs"),
    ("kernel", "decide", off_by_one, "gpu/two GPUs"),
    ("kernel", "swizzle_rows", off_by_one, "swizzled"),
    ("kernel", "write_remainders", off_by_one, "gpu/product"),
    ("kernel", "merge_guards", off_by_one, "gpu/two GPUs"),
    ("kernel", "name_values", off_by_one, "gpu/two GPUs"),
)


def _with(part: str, name: str, wrong: Wrong) -> Pipeline:
    """The pass lists with one pass replaced by a wrong one of the same name."""

    def mutant(each: Any) -> Any:
        if each.name != name:
            return each
        own = type(each)
        made = type(own.__name__, (own,), {"apply": lambda self, what, about: wrong(each, what, about)})
        return made(**{option.name: getattr(each, option.name) for option in fields(each)})

    return replace(PIPELINE, **{part: tuple(map(mutant, getattr(PIPELINE, part)))})


@pytest.mark.parametrize(("part", "name", "wrong", "sample"), MUTANTS, ids=[f"{m[0]}-{m[1]}" for m in MUTANTS])
def test_a_wrong_pass_is_named(part: str, name: str, wrong: Wrong, sample: str) -> None:
    told = next(each for each in SAMPLES if each.name == sample)
    said = wrong_pass(told.build(), *told.sizes, register=told.register, pipeline=_with(part, name, wrong))
    assert said.startswith(f"{name} (kernel): " if part == "kernel" else f"{name}: "), said


def test_each_pass_is_made_wrong() -> None:
    parts = ("first", "before_nests", "host", "after_nests", "kernel")
    assert [(part, each.name) for part in parts for each in getattr(PIPELINE, part)] == [m[:2] for m in MUTANTS]
