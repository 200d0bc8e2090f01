"""The targets of `partition`, as the user names them (host threads and GPUs), and shares of a level."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Rational

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.machine.gpu_target import CUDA
from tiramisu_py.program.targets import Cores, GpuThreads, Ranks, Shares, Target, Tile
from tiramisu_py.public_calls import own_call
from tiramisu_py.schedule.command_arguments import size
from tiramisu_py.schedule.loops.tags import WIDTHS

#: Shares are fractions of the whole with denominators below this, so that cuts are exact in 64 bits.
FINEST = 2**16


@own_call
def cores(vector: int | None = None, ranks: int | range | None = None, parallel: bool = True) -> Cores:
    """Threads of the host, as a target of `partition`.

    ::

        by.partition(r, [G], [tm.gpu(), tm.cores(vector=8)])      -->   #pragma omp parallel for
                                                                        for r in G..R:
                                                                            for c in 0..C by 8: by_1[r, c : c + 8]

    The level is dealt out to the threads, and the innermost loop (for a reduction, the innermost over its values) runs
    in strips of `vector` lanes. If the level is the only such loop, it is first cut into blocks, which are dealt out
    (``r_block``). With ``parallel=False`` only `vector` applies. `ranks` is the rank on which the part runs, or a range
    of ranks that get equal blocks of it. Raises `CommandError`.
    """
    if vector is not None and (isinstance(vector, bool) or vector not in WIDTHS):
        raise CommandError(f"tm.cores: vector is {vector!r}: choose one of {WIDTHS}")
    if not isinstance(parallel, bool):
        raise CommandError(f"tm.cores: parallel is {parallel!r}: give True or False")
    return Cores(vector, _ranks(ranks, "cores"), parallel)


@own_call
def gpu(
    device: int = 0,
    tile: int | tuple[int, int] | str | None = "auto",
    chunk: int | None = None,
    stream: int = 0,
    ranks: int | range | None = None,
) -> GpuThreads:
    """A GPU, as a target of `partition`.

    ::

        by.partition(r, [G], [tm.gpu(), tm.cores()])      -->   for r_block, c_block on blocks:
                                                                    for r_thread, c_thread on threads:
                                                                        by_0[4*r_block + r_thread, ..]

    The level and the loop just inside it are tiled, and run on blocks and threads: `tile` gives the threads of a block
    along each, by default ``(4, 64)``. A single number tiles the level alone; so does the default, with 256 threads, if
    no loop follows or a reduction runs over the next one. ``tile=None`` leaves the loops as they are, for `tag_gpu`
    (which then names device and stream). With ``chunk=n`` a host loop around the kernel (``r_chunk`` for
    the level r) runs over chunks of n iterations, cut at multiples of n, for a pipeline of copies and kernels. `ranks`
    is the rank whose GPU it is, or a range of ranks with a GPU each, which get equal blocks of the part. Raises
    `CommandError`.
    """
    return GpuThreads(
        _size(device, "device", 0),
        _tile(tile),
        None if chunk is None else _size(chunk, "chunk", 1),
        _size(stream, "stream", 0),
        _ranks(ranks, "gpu"),
    )


def checked(target: Target) -> Target:
    """The target, checked as by `cores` and `gpu`. Raises `CommandError`."""
    if isinstance(target, Cores):
        return cores(target.vector, target.ranks, target.parallel)
    return gpu(target.device, target.tile, target.chunk, target.stream, target.ranks)


def _size(given: object, what: str, least: int) -> int:
    return size(given, f"tm.gpu: {what}", least)


def _tile(given: object) -> Tile:
    if given is None or (isinstance(given, str) and given == "auto"):
        return None if given is None else "auto"
    sizes = given if isinstance(given, tuple | list) else (given,)
    if len(sizes) not in (1, 2):
        raise CommandError(f"tm.gpu: tile is {given!r}: give the threads along the level, or along it and the next")
    threads = [_size(one, "tile", 1) for one in sizes]
    total = threads[0] * threads[-1] if len(threads) > 1 else threads[0]
    if total > CUDA.most_threads:
        words = " x ".join(map(str, threads)) + (f" = {total}" if len(threads) > 1 else "")
        raise CommandError(
            f"tm.gpu: tile is {given!r}: a GPU runs at most {CUDA.most_threads} threads in a block, not {words}"
        )
    return (threads[0], threads[1]) if len(threads) > 1 else threads[0]


def _ranks(given: object, kind: str) -> Ranks:
    if given is None:
        return None
    if isinstance(given, range):
        if len(given) == 0 or given.step != 1 or given.start < 0:
            raise CommandError(
                f"tm.{kind}: ranks is {given!r}: give one rank, or a range of ranks that follow each other, "
                "ranks=range(0, 2)"
            )
        return range(size(given.start, f"tm.{kind}: ranks", 0), size(given.stop, f"tm.{kind}: ranks", 0))
    return size(given, f"tm.{kind}: ranks", 0)


@own_call
def shares(*parts: int | float | Fraction) -> Shares:
    """The share of a level for each target of a `partition`: ``tm.shares(3, 1)``, or ``tm.shares(0.75, 0.25)``.

    ::

        by.partition(r, tm.shares(3, 1), [tm.gpu(), tm.cores()])        -->   by_0: r in 0..floor(3*R / 4)
                                                                              by_1: r in floor(3*R / 4)..R

    Only the ratios matter. The level is cut at its lower bound plus ``floor(share * extent)``, where `share` is the sum
    over all earlier parts. Shares are constants; to choose them at run time, cut at a point that is a parameter. A
    share may be 0. Raises `CommandError`.
    """
    if not parts:
        raise CommandError("tm.shares() needs a share for each target: tm.shares(3, 1)")
    exact = [_share(given) for given in parts]
    whole = sum(exact, Fraction(0))
    if whole == 0:
        raise CommandError(f"tm.shares({_listed(parts)}): all shares are 0: at least one is more")
    ratios = tuple(share / whole for share in exact)
    if max(sum(ratios[:k], Fraction(0)).denominator for k in range(len(ratios) + 1)) >= FINEST:
        raise CommandError(
            f"tm.shares({_listed(parts)}): ratios this fine cannot be cut exactly: round them, say to hundredths"
        )
    return Shares(tuple(parts), ratios)


def _listed(parts: tuple[object, ...]) -> str:
    return ", ".join(map(str, parts))


def _share(given: object) -> Fraction:
    if isinstance(given, Expr):
        raise CommandError(
            f"tm.shares: {given} is not known yet, and a share times an extent would not be affine: cut at a point "
            "that is a parameter instead, partition(level, [G], targets), and pass its value at run time"
        )
    if isinstance(given, bool) or not isinstance(given, Integral | Rational | float):
        raise CommandError(f"tm.shares: {given!r} is not a share: give numbers of at least 0, tm.shares(3, 1)")
    if isinstance(given, float) and given - given != 0:
        raise CommandError(f"tm.shares: {given!r} is not a share: give numbers of at least 0, tm.shares(3, 1)")
    exact = (
        Fraction(repr(float(given)))
        if isinstance(given, float)
        else Fraction(int(given.numerator), int(given.denominator))
    )
    if exact < 0:
        raise CommandError(f"tm.shares: {given} is less than 0: a part has nothing (0), or a share")
    return exact
