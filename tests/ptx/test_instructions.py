"""The interpreter itself: each family of instructions against results that were found by hand, and against Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.ptx.entry_points import Refused, gpu, kernel
from tests.ptx.instruction_table import TABLES

#: How values of a type are stored, loaded and compared.
STORED = {
    "u16": "u2", "s16": "i2", "b16": "u2", "u32": "u4", "s32": "i4", "b32": "u4", "u64": "u8", "s64": "i8", "b64": "u8",
    "f32": "f4", "f64": "f8", "pred": "u4",
}  # fmt: skip
REGISTER = {"f32": "f", "f64": "d", "pred": "p"}
BY_SIZE = {"2": "h", "4": "r", "8": "rd"}


def register(kind: str, number: int) -> str:
    return f"%{REGISTER.get(kind) or BY_SIZE[STORED[kind][1]]}{number}"


def program(opcode: str, kinds: list[str]) -> str:
    """A kernel: thread i loads the operands in row i of its arrays, and stores the result of one instruction."""
    immediate = [kind[3:] for kind in kinds if kind.startswith("imm")]
    kinds = [kind for kind in kinds if not kind.startswith("imm")]
    lines = ["mov.u32 %r30, %tid.x;"]
    for number, kind in enumerate(kinds):
        size = int(STORED[kind][1])
        lines.append(f"mul.wide.u32 %rd30, %r30, {size}; add.u64 %rd{20 + number}, %rd{number}, %rd30;")
        if number and kind == "pred":
            lines.append(
                f"ld.global.u32 %r{20 + number}, [%rd{20 + number}]; setp.ne.u32 %p{number}, %r{20 + number}, 0;"
            )
        elif number:
            lines.append(f"ld.global.b{8 * size} {register(kind, 10 + number)}, [%rd{20 + number}];")
    given = [f"%p{n}" if kind == "pred" else register(kind, 10 + n) for n, kind in enumerate(kinds) if n]
    result = "%p0" if kinds[0] == "pred" else register(kinds[0], 10)
    lines.append(f"{opcode} {', '.join([result, *given, *immediate])};")
    if kinds[0] == "pred":
        lines.append("selp.u32 %r10, 1, 0, %p0; st.global.u32 [%rd20], %r10;")
    else:
        lines.append(f"st.global.b{8 * int(STORED[kinds[0]][1])} [%rd20], {result};")
    return kernel("\n".join(lines), len(kinds))


def bits(array: np.ndarray) -> list[int]:
    """The bits of values; all that are no number are alike."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.full_like(array, np.nan), array)
    return [int(one) for one in array.view(f"u{array.itemsize}")]


def results(opcode: str, types: str, rows: np.ndarray | list[tuple[float, ...]]) -> np.ndarray:
    kinds = types.split()
    stored = [np.dtype(STORED[kind]) for kind in kinds if not kind.startswith("imm")]
    columns = [np.array([row[n] for row in rows], kind) for n, kind in enumerate(stored[1:])]
    found = gpu().run(program(opcode, kinds), np.zeros(len(rows), stored[0]), *columns, block=len(rows))
    return found[0]


@pytest.mark.parametrize("family", TABLES)
def test_an_instruction_gives_what_the_isa_says(family: str) -> None:
    wrong = []
    for opcode, (types, rows) in TABLES[family].items():
        expected = np.array([row[-1] for row in rows], STORED[types.split()[0]])
        found = results(opcode, types, list(rows))
        if bits(found) != bits(expected):
            wrong.append(f"{opcode}: {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


def drawn(kind: str, count: int, seed: int) -> list[int]:
    """Whole numbers of a type, many of them at the ends of its range."""
    draw = random.Random(seed)
    size = 8 * int(STORED[kind][1])
    least = -(1 << size - 1) if kind[0] == "s" else 0
    most = least + (1 << size) - 1
    ends = [least, least + 1, most, most - 1, 0, 1]
    return [draw.choice(ends) if draw.random() < 0.3 else draw.randint(least, most) for _ in range(count)]


def wrapped(value: int, kind: str) -> int:
    size = 8 * int(STORED[kind][1])
    value &= (1 << size) - 1
    return value - (1 << size) if kind[0] == "s" and value >> size - 1 else value


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integers_are_those_of_python_wrapped(kind: str) -> None:
    size = 8 * int(STORED[kind][1])
    a, b, c = (drawn(kind, 200, seed) for seed in (1, 2, 3))
    divisors = [x or 3 for x in b]

    def quotient(x: int, y: int) -> int:
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    cases = {
        f"add.{kind}": [x + y for x, y in zip(a, b, strict=True)],
        f"sub.{kind}": [x - y for x, y in zip(a, b, strict=True)],
        f"mul.lo.{kind}": [x * y for x, y in zip(a, b, strict=True)],
        f"mul.hi.{kind}": [x * y >> size for x, y in zip(a, b, strict=True)],
        f"min.{kind}": [min(x, y) for x, y in zip(a, b, strict=True)],
        f"max.{kind}": [max(x, y) for x, y in zip(a, b, strict=True)],
    }
    for opcode, expected in cases.items():
        found = results(opcode, f"{kind} {kind} {kind}", list(zip(a, b, strict=True)))
        assert found.tolist() == [wrapped(x, kind) for x in expected], opcode
    found = results(f"mad.lo.{kind}", f"{kind} {kind} {kind} {kind}", list(zip(a, b, c, strict=True)))
    assert found.tolist() == [wrapped(x * y + z, kind) for x, y, z in zip(a, b, c, strict=True)]
    rows = list(zip(a, divisors, strict=True))
    expected = [quotient(x, y) for x, y in rows]
    assert results(f"div.{kind}", f"{kind} {kind} {kind}", rows).tolist() == [wrapped(q, kind) for q in expected]
    remainders = [x - q * y for (x, y), q in zip(rows, expected, strict=True)]
    assert results(f"rem.{kind}", f"{kind} {kind} {kind}", rows).tolist() == remainders


def test_numbers_of_16_bits_are_those_of_numpy() -> None:
    given = np.random.default_rng(3).integers(0, 1 << 16, (2, 1000), np.uint16)
    a, b = given.view(np.float16)
    with np.errstate(all="ignore"):
        cases = {"add.f16": a + b, "sub.f16": a - b, "mul.f16": a * b}
    for opcode, expected in cases.items():
        found = results(opcode, "b16 b16 b16", given.T.tolist())
        assert bits(found.view(np.float16)) == bits(expected), opcode
    with np.errstate(all="ignore"):
        assert bits(results("cvt.f32.f16", "f32 b16", given[:1].T.tolist())) == bits(a.astype(np.float32))


def test_a_number_of_32_bits_is_rounded_to_16_as_numpy_does() -> None:
    given = np.random.default_rng(4).integers(0x33000000, 0x47900000, 1000, np.uint32).view(np.float32)
    found = results("cvt.rn.f16.f32", "b16 f32", given[:, None].tolist())
    with np.errstate(over="ignore"):
        assert bits(found.view(np.float16)) == bits(given.astype(np.float16))
    brains = results("cvt.rn.bf16.f32", "b16 f32", given[:, None].tolist())
    words = given.view(np.uint32).astype(np.uint64)
    assert brains.tolist() == ((words + 0x7FFF + (words >> 16 & 1)) >> 16).tolist()


@pytest.mark.parametrize(("opcode", "mode"), [("rn", 0), ("rz", 0), ("rp", 1), ("rm", -1)])
def test_a_sum_is_rounded_once_in_the_direction_of_its_modifier(opcode: str, mode: int) -> None:
    draw = np.random.default_rng(5)
    a, b = (
        draw.standard_normal(300).astype(np.float32) * np.float32(2) ** draw.integers(-20, 20, 300) for _ in range(2)
    )
    a, b = a.astype(np.float32), b.astype(np.float32)
    exact = a.astype(np.float64) + b.astype(np.float64)  # exponents differ by at most 40 + 2: nothing is lost but ties
    nearest = exact.astype(np.float32)
    up = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    down = np.where(nearest > exact, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    expected = {"rn": nearest, "rp": up, "rm": down, "rz": np.where(exact > 0, down, up)}[opcode]
    whole = np.abs(exact - a.astype(np.float64)) == np.abs(b.astype(np.float64))
    found = results(f"add.{opcode}.f32", "f32 f32 f32", np.stack([a, b], 1).tolist())
    assert bits(found[whole]) == bits(expected[whole])
    assert mode == 0 or not np.array_equal(found, nearest)


def test_a_carry_goes_from_one_word_to_the_next() -> None:
    body = """
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0];
        add.cc.u32 %r5, %r1, %r3;  addc.u32 %r6, %r2, %r4;
        sub.cc.u32 %r7, %r1, %r3;  subc.u32 %r8, %r2, %r4;
        mad.lo.cc.u32 %r9, %r1, %r3, %r1;  madc.hi.u32 %r10, %r1, %r3, 0;
        st.global.v4.u32 [%rd0], {%r5, %r6, %r7, %r8};
        st.global.v2.u32 [%rd0+16], {%r9, %r10};"""
    a, b = 0x1_FFFFFFF0, 0x3_00000020
    words = [a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32, 0, 0]
    (found,) = gpu().run(kernel(body), np.array(words, np.uint32))
    product = words[0] * words[2] + words[0]
    assert found.view(np.uint64).tolist() == [a + b, (a - b) % 2**64, product]


@pytest.mark.parametrize("transposed", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_warp_loads_matrices_of_shared_memory(count: int, transposed: str) -> None:
    results = ", ".join(f"%r{10 + k}" for k in range(count))
    body = f"""
        mov.u32 %r0, %tid.x;  mul.lo.u32 %r1, %r0, 16;  mov.u32 %r2, tile;  add.u32 %r2, %r2, %r1;
        mul.wide.u32 %rd5, %r0, 16;  add.u64 %rd6, %rd0, %rd5;  add.u64 %rd7, %rd1, %rd5;
        ld.global.v4.u32 {{%r3, %r4, %r5, %r6}}, [%rd6];  st.shared.v4.u32 [%r2], {{%r3, %r4, %r5, %r6}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{results}}}, [%r2];
        """ + "".join(f"st.global.u32 [%rd7+{4 * k}], %r{10 + k};" for k in range(count))
    given = np.arange(256, dtype=np.uint16).reshape(4, 8, 8) * 7
    declared = ".shared .align 16 .b8 tile[512];"
    found = gpu().run(kernel(body, 2, declared), given, np.zeros((32, 8), np.uint16), block=32)[1]
    for matrix in range(count):
        of = given[matrix].T if transposed else given[matrix]
        np.testing.assert_array_equal(found[:, 2 * matrix : 2 * matrix + 2], of.reshape(32, 2))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("foo.u32 %r1, %r2", "an instruction that is not known"),
        ("add.strange.u32 %r1, %r2, %r3", "a modifier that is not known: .strange"),
        ("add.f16x2.u32 %r1, %r2, %r3", "types"),
        ("add.u32 %r1, %r2", "it has 2 operands, not 3"),
        ("add.u32 %r1, %r2, %r77", "an operand that is not known: %r77"),
        ("mov.u32 %r1, %clock", "an operand that is not known: %clock"),
        ("add.u32 5, %r1, %r2", "a result that is no register"),
        ("cvt.s32.f32 %r1, %f1", "no rounding to a whole number"),
        ("mul.u32 %r1, %r2, %r3", "neither .lo nor .hi nor .wide"),
        ("shfl.down.b32 %r1, %r2, 1, 31, -1", "without .sync nobody waits"),
        ("bra NOWHERE", "no label NOWHERE"),
        ("ld.global.v2.u32 %r1, [%rd0]", "it has 1 values, not 2"),
        ("activemask.b32 %r1", "an instruction that is not known"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 %r1, %r2, %r3, %r4", "a product of a kind that is not known"),
        ("ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1, %r2, %r3}, [%r4]", "matrices of a kind that is not known"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r4]", "it has not as many values as matrices"),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(Refused, match=r"the PTX is refused: line \d+") as refused:
        gpu().run(kernel(f"{text};"), np.zeros(1, np.uint32))
    assert words in str(refused.value)
