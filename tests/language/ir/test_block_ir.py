"""The block IR: read and printed, simplified, and the worklist engine."""

from __future__ import annotations

import random

import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import CASES, declared
from tiramisu_py.language.ir.nodes import Instruction
from tiramisu_py.language.ir.peephole import count, simplified
from tiramisu_py.language.ir.worklist import fixed_point

#: Tillet, listing 5.2: the transposition of a matrix in Triton-IR.
TRANSPOSITION = """
def void transpose(f32* X .readonly .noalias .aligned(16), f32* Y .writeonly .noalias .aligned(16), i32 M .readonly,
                   i32 N .readonly)
{
entry:
  pid0 = get_program_id(0) i32;
  pid1 = get_program_id(1) i32;
  ; range for rows
  %2 = make_range[0 : 32] i32<32>;
  %3 = mul i32 pid0, 32;
  %5 = splat i32<32> %3;
  rm = add i32<32> %5, %2;
  ; range for columns
  %10 = make_range[0 : 32] i32<32>;
  %11 = mul i32 pid1, 32;
  %13 = splat i32<32> %11;
  rn = add i32<32> %13, %10;
  ; bounds-checking
  %18 = splat i32<1, 32> N;
  %20 = reshape i32<1, 32> rn;
  %22 = icmp slt i1<1, 32> %20, %18;
  %25 = broadcast i1<32, 32> %22;
  %27 = zext i32<32, 32> %25;
  %29 = splat i32<32, 1> M;
  %31 = reshape i32<32, 1> rm;
  %33 = icmp slt i1<32, 1> %31, %29;
  %36 = broadcast i1<32, 32> %33;
  %38 = zext i32<32, 32> %36;
  %40 = and i32<32, 32> %38, %27;
  %43 = broadcast i32<32, 32> %40;
  in_bounds = trunc i1<32, 32> %43;
  ; pointers to X
  %47 = splat i32<1, 32> N;
  %49 = reshape i32<1, 32> rn;
  %51 = mul i32<1, 32> %49, %47;
  %54 = broadcast i32<32, 32> %51;
  %56 = splat i32<32, 1> 1;
  %57 = reshape i32<32, 1> rm;
  %59 = mul i32<32, 1> %57, %56;
  %62 = splat f32*<32, 1> X;
  %64 = getelementptr f32*<32, 1> %62, %59;
  %67 = broadcast f32*<32, 32> %64;
  px = getelementptr f32*<32, 32> %67, %54;
  ; pointers to Y
  %72 = splat i32<1, 32> 1;
  %73 = reshape i32<1, 32> rn;
  %75 = mul i32<1, 32> %73, %72;
  %78 = broadcast i32<32, 32> %75;
  %80 = splat i32<32, 1> N;
  %82 = reshape i32<32, 1> rm;
  %84 = mul i32<32, 1> %82, %80;
  %87 = splat f32*<32, 1> Y;
  %89 = getelementptr f32*<32, 1> %87, %84;
  %92 = broadcast f32*<32, 32> %89;
  py = getelementptr f32*<32, 32> %92, %78;
  %97 = splat f32<32, 32> undef;
  %98 = masked_load f32<32, 32> px, in_bounds, %97;
  masked_store void py, %98, in_bounds;
}
"""


def test_listing_5_2_is_read_and_printed() -> None:
    kernel = tl.parse(TRANSPOSITION)
    text = str(kernel)
    assert str(tl.parse(text)) == text
    assert "%22 = icmp slt i1<1, 32> %20, %18;" in text and "f32* X .readonly .noalias .aligned(16)" in text
    assert count(kernel) == 48


def test_listing_5_2_loses_what_changes_nothing() -> None:
    """The same-shape broadcast, two factors of 1 and their blocks; the conversion of a conjunction stays."""
    found = simplified(tl.parse(TRANSPOSITION))
    left = {node.result.name for node in found.body if isinstance(node, Instruction) and node.result is not None}
    assert {"%43", "%56", "%59", "%72", "%75"}.isdisjoint(left)
    assert count(found) == 43


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("y = trans(1, 0) f32<8, 4> x; z = trans(1, 0) f32<4, 8> y;", 0),
        ("y = trans(0, 1) f32<4, 8> x; z = add f32<4, 8> y, y;", 1),
        ("y = reshape f32<32> x; z = reshape f32<4, 8> y;", 0),
        ("y = reshape f32<32> x; z = reshape f32<8, 4> y;", 1),
        ("y = cast f64<4, 8> x; z = cast f32<4, 8> y;", 0),
        ("y = cast f16<4, 8> x; z = cast f32<4, 8> y;", 2),
        ("y = mul f32<4, 8> x, 1; z = neg f32<4, 8> y;", 1),
        ("y = add f32<4, 8> x, 0.0; z = neg f32<4, 8> y;", 2),
        ("y = exp f32<4, 8> x; z = log f32<4, 8> y;", 2),
        ("y = exp f32<4, 8> x; z = add f32<4, 8> x, x;", 1),
    ],
)
def test_each_rule_is_applied_where_it_is_exact(body: str, left: int) -> None:
    kernel = tl.parse(f"def void k(f32<4, 8> x, f32* Y)\n{{\nentry:\n{body}\nstore void Y, z;\n}}")
    assert count(simplified(kernel)) == left + 1


def test_rules_of_real_numbers_are_for_fast_alone() -> None:
    kernel = tl.parse(
        "def void k(f32<8> x, f32* Y)\n{\nentry:\ny = exp f32<8> x;\nz = log f32<8> y;\nstore void Y, z;\n}"
    )
    assert count(simplified(kernel)) == 3
    assert count(simplified(kernel, fast=True)) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_ir_of_a_kernel_is_what_it_is_read_as(case: object) -> None:
    _, run = declared(case)  # type: ignore[arg-type]
    text = str(run.ir)
    assert str(tl.parse(text)) == text
    assert str(simplified(run.ir)) == text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("y = add f32 x, nothing;", "line 4 of the block IR cannot be read: nothing is not defined"),
        ("x = add f32 x, x;", "x is defined twice"),
        ("y = add float99 x;", "a type was expected|is not a type|is not defined"),
    ],
)
def test_text_that_is_no_ir_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(tm.DeclarationError, match=words):
        tl.parse(f"def void k(f32 x)\n{{\nentry:\n{line}\n}}")


def test_the_worklist_finds_the_least_fixed_point() -> None:
    """Reaching facts on random graphs, beside a plain iteration to the end."""
    for seed in range(20):
        rng = random.Random(seed)
        nodes = range(12)
        before = {n: rng.sample(nodes, rng.randrange(4)) for n in nodes}
        made = {n: frozenset([n]) for n in nodes if rng.random() < 0.5}
        killed = {n: frozenset(rng.sample(nodes, 3)) for n in nodes if rng.random() < 0.5}
        slow: dict[int, frozenset[object]] = {n: frozenset() for n in nodes}
        for _ in range(200):
            arrived = {n: frozenset().union(*(slow[b] for b in before[n])) for n in nodes}
            slow = {n: made.get(n, frozenset()) | (arrived[n] - killed.get(n, frozenset())) for n in nodes}
        found = fixed_point(before, made, killed)
        assert {n: found.get(n, frozenset()) for n in nodes} == slow
