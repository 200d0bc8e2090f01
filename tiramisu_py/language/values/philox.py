"""Random numbers as expressions: Philox 4x32 with ten rounds (Salmon et al., Parallel random numbers, SC 2011).

A number is a function of a seed and an offset alone. All arithmetic is of uint64, on numbers below 2 ** 32: the product
of two of them is exact, and its halves are a shift and a mask.
"""

from __future__ import annotations

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Const, Expr, as_typed, binary, select

ROUNDS = 10
#: What the second and the first counter are multiplied with, and what is added to the keys after each round.
MULTIPLIERS = 0xCD9E8D57, 0xD2511F53
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
#: The largest float32 with which ``2 ** 31 - 1`` becomes less than 1.
SCALE = 4.6566127342e-10
_LOW = 0xFFFFFFFF


def uniform(seed: Expr, offset: Expr) -> Expr:
    """A float32 from 0 up to 1, from 64 bits of a seed and 64 bits of an offset.

    The seed is the key, and the offset the first two of the four counters, the lower half first.
    """
    x = _first_word(_bits(seed), _bits(offset))
    folded = select(binary(">=", x, 1 << 31), binary("^", x, _LOW), x)  # as |x| of a signed x, with -x - 1 for -x
    return binary("*", as_typed(as_typed(folded, ty.int32), ty.float32), Const(SCALE, ty.float32))


def _first_word(seed: Expr, offset: Expr) -> Expr:
    """The first of the four counters after all rounds.

    A round makes of ``c0, c1, c2, c3``, with products of 64 bits ``p = B * c2`` and ``q = A * c0``::

        c0, c1, c2, c3  =  high(p) ^ c1 ^ k0, low(p), high(q) ^ c3 ^ k1, low(q)
    """
    b, a = MULTIPLIERS
    c0, c1 = _low(offset), _high(offset)
    c2: Expr = Const(0, ty.uint64)
    c3 = c2
    for number in range(ROUNDS):
        k0, k1 = (_key(half, number * step) for half, step in zip((_low(seed), _high(seed)), KEY_STEPS, strict=True))
        p, q = _times(c2, b), _times(c0, a)
        c0, c1, c2, c3 = _xor(_high(p), c1, k0), _low(p), _xor(_high(q), c3, k1), _low(q)
    return c0


def _bits(given: Expr) -> Expr:
    """The 64 bits of an integer; negative ones in two's complement."""
    if isinstance(given, Const):
        return Const(int(given.value) % (1 << 64), ty.uint64)
    return as_typed(given, ty.uint64)


def _key(half: Expr, more: int) -> Expr:
    if isinstance(half, Const):
        return Const((int(half.value) + more) & _LOW, ty.uint64)
    return half if not more else binary("&", binary("+", half, more & _LOW), _LOW)


def _times(x: Expr, factor: int) -> Expr:
    return Const(int(x.value) * factor, ty.uint64) if isinstance(x, Const) else binary("*", x, factor)


def _high(x: Expr) -> Expr:
    return Const(int(x.value) >> 32, ty.uint64) if isinstance(x, Const) else binary(">>", x, 32)


def _low(x: Expr) -> Expr:
    return Const(int(x.value) & _LOW, ty.uint64) if isinstance(x, Const) else binary("&", x, _LOW)


def _xor(*each: Expr) -> Expr:
    """Numbers combined bit by bit; constants first, and none of value 0."""
    number, found = 0, list[Expr]()
    for x in each:
        if isinstance(x, Const):
            number ^= int(x.value)
        else:
            found.append(x)
    if not found:
        return Const(number, ty.uint64)
    total = found[0]
    for x in found[1:]:
        total = binary("^", total, x)
    return binary("^", total, number) if number else total
