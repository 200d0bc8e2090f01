"""Commands on ranks and on messages that must be refused, with the words that the user reads.

A case is (what is wrong, the command, words of its message); the command gets the distributed blur, and must leave its
program as it was.
"""

# ruff: noqa: E501  (a case a line or two is what makes the table readable)

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.pipelines import B, P, R, blur, c, halo, i, j, k, matmul, q, q0, q1, r, r1, t, tiles, x

Case = tuple[str, Callable[[SimpleNamespace], Any], str]


def split_blur() -> SimpleNamespace:
    """The blur with its loops cut into blocks of rows, and nothing on ranks yet."""
    s = blur(ranks=False)
    for computation in (s.bx, s.by):
        computation.split(r, B, q, r1)
    return s


def xfer(s: SimpleNamespace, **changed: Any) -> Any:
    """The exchange of the last row of each block, with some of its arguments replaced."""
    given: dict[str, Any] = {
        "send": {q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: s.C}, "to": q + 1,
        "recv": {q: (1, P), r: (q * B - 1, q * B), c: s.C}, "source": q - 1, "name": "down",
    }  # fmt: skip
    access = changed.pop("access", s.bx[r, c])
    return s.f.create_exchange(access, **{**given, **changed})


LOOPS: list[Case] = [
    ("no loop at all", lambda s: s.bx.tag_distribute(), r"bx\.tag_distribute\(\): tag_distribute needs a loop"),
    ("a loop that is not there", lambda s: s.bx.tag_distribute(k), r"no loop k here: bx has the loops q, r1, c"),
    ("a loop named twice", lambda s: s.bx.tag_distribute(q, q), "loop q is named twice: a loop runs along one axis"),
    ("an axis for two loops", lambda s: s.bx.tag_distribute(q, r1, axis=1), "axis= is for a single loop"),
    ("an axis below 0", lambda s: s.bx.tag_distribute(q, axis=-1), "axis is -1: give an integer of at least 0"),
    ("an axis that is none", lambda s: s.bx.tag_distribute(q, axis="x"), "axis is 'x'"),
    ("drop_rank_iter that is none", lambda s: s.bx.tag_distribute(q, drop_rank_iter=1), r"drop_rank_iter=1: give True \(a rank keeps its own part\)"),
    ("a loop of threads", lambda s: s.bx.parallelize(q).tag_distribute(q), r"loop q is tagged already, by bx\.parallelize\(q\)"),
    ("a loop of ranks on threads", lambda s: s.bx.tag_distribute(q).parallelize(q), r"loop q is tagged already, by bx\.tag_distribute\(q\)"),
    ("two loops along one axis", lambda s: s.bx.tag_distribute(q).tag_distribute(r1), r"in bx, the rank loop r1 \(bx\.tag_distribute\(r1\)\) is inside the rank loop q .* both are along axis 0 of the process grid: name them in one tag_distribute"),
    ("ranks inside threads", lambda s: s.bx.parallelize(q).tag_distribute(r1), "the rank loop r1 .* is inside the parallel loop q .* a rank has threads and GPUs of its own"),
    ("ranks inside lanes", lambda s: s.bx.interchange(r1, c).vectorize(c, 4).tag_distribute(r1), "the rank loop r1 .* is inside the vector loop c"),
    ("threads around ranks", lambda s: s.bx.tag_distribute(r1).parallelize(q), "the rank loop r1 .* is inside the parallel loop q"),
    ("ranks inside a kernel", lambda s: s.bx.tag_gpu(blocks=[q], threads=[c]).tag_distribute(r1), "the rank loop r1 .* is inside the gpu block loop q .* move the loop over ranks outwards"),
    ("a kernel around ranks", lambda s: s.bx.tag_distribute(r1).tag_gpu(blocks=[q], threads=[c]), "the rank loop r1 .* is inside the gpu block loop q"),
    ("a reorder that takes ranks inside threads", lambda s: s.bx.tag_distribute(q).parallelize(r1).interchange(q, r1), "the rank loop q .* is inside the parallel loop r1"),
    ("a split of ranks", lambda s: s.bx.tag_distribute(q).split(q, 2, q0, q1), r"loop q is tagged by bx\.tag_distribute\(q\): split it before tagging it"),
    ("a tile of ranks", lambda s: s.bx.tag_distribute(q).tile(q, r1, 2, 2, q0, q1, i, j), "split it before tagging it"),
    ("a time map over ranks", lambda s: s.bx.tag_distribute(q).set_schedule("{ [r, c] -> [c, r] }"), r"loop q of bx runs on ranks \(bx\.tag_distribute\(q\)\), and a time map makes all loops anew"),
    ("loops of other ranks fused", lambda s: (s.bx.tag_distribute(q), s.by.tag_distribute(q, axis=1), s.by.after(s.bx, q)), "loop q is tagged by .* one loop has one tag"),
    ("loops of ranks and of none fused", lambda s: (s.by.tag_distribute(q), s.by.after(s.bx, q)), r"loop q is not tagged, but loop q by by\.tag_distribute\(q\); .* share the loop first"),
    ("two ways of keeping, fused", lambda s: (s.bx.tag_distribute(q), s.by.tag_distribute(q, drop_rank_iter=False), s.by.after(s.bx, q)), r"loop q is tagged by bx\.tag_distribute\(q\), but loop q by by\.tag_distribute\(q, drop_rank_iter=False\)"),
    ("a combination that is none", lambda s: s.bx.tag_distribute(q, combine="sum"), r"combine='sum': choose tm\.PRIVATE or tm\.TREE, for the loop of a reduction"),
    ("a combination of nothing", lambda s: s.bx.tag_distribute(q, combine=tm.PRIVATE), r"combine=tm\.PRIVATE: no reduction runs over loop q; leave combine= out"),
    ("compute_at twice on one axis", lambda s: (s.bx.tag_distribute(q), s.by.tag_distribute(q), s.bx.compute_at(s.by, q)), "in bx, the rank loop q .* both are along axis 0"),
]  # fmt: skip

GRIDS: list[Case] = [
    ("no axis", lambda s: s.f.grid(), r"grid needs the number of ranks along each axis: grid\(4\), or grid\(2, P\)"),
    ("no rank", lambda s: s.f.grid(0), "the number of ranks along an axis is 0: give an integer of at least 1"),
    ("half a rank", lambda s: s.f.grid(1.5), "the number of ranks along an axis is 1.5"),
    ("a number that may be 0", lambda s: s.f.grid(s.C - 1), r"there may be no rank along an axis: declare the function with assume='C - 1 >= 1'"),
    ("a product of sizes", lambda s: s.f.grid(s.C * s.C), r"the number of ranks C \* C is neither an integer nor affine in the parameters \(C\)"),
    ("an iterator", lambda s: s.f.grid(q), "the number of ranks q is neither"),
    ("a loop along a further axis", lambda s: (s.f.grid(4), s.bx.tag_distribute(q, axis=1)), r"loop q runs along axis 1 \(bx\.tag_distribute\(q, axis=1\)\), but the process grid \(4\) has 1 axis"),
    ("fewer axes than loops use", lambda s: (s.bx.tag_distribute(q, r1), s.f.grid(4)), r"loop r1 runs along axis 1 .*, but the process grid \(4\) has 1 axis"),
    ("fewer axes than arrays use", lambda s: (s.image.distribute_array([r, c], rank=(r // B, None)), s.f.grid(4)), r"image is distributed along 2 axes, but the process grid has"),
    ("an array on a rank that is not there", lambda s: (s.image.distribute_array([r, c], rank=7), s.f.grid(4)), "image is held by rank 7 along axis 0, but the process grid has ranks 0 to 3"),
    ("an array dealt out to more ranks", lambda s: (s.f.grid(4), s.image.distribute_array([r, c], rank=r % 5)), "image is dealt out to 5 ranks along axis 0, but the process grid has 4 there"),
]  # fmt: skip

ARRAYS: list[Case] = [
    ("a temporary", lambda s: s.bx.distribute_array([r, c], rank=r // B), r"bx is a temporary, neither an input nor an output: its values are held by the ranks that compute them; say which with bx\.tag_distribute"),
    ("too few iterators", lambda s: s.image.distribute_array([r], rank=r // B), "image has 2 dimensions, and 1 iterator is named: name one for each dimension"),
    ("an iterator twice", lambda s: s.image.distribute_array([r, r], rank=r // B), "an iterator is named twice: r, r"),
    ("no list", lambda s: s.image.distribute_array(r, rank=r // B), "the list of iterators is r: give a list"),
    ("an expression for an iterator", lambda s: s.image.distribute_array([r + 1, c], rank=0), "cannot name an iterator"),
    ("another iterator", lambda s: s.image.distribute_array([r, c], rank=q // B), r"rank=q // 25: give blocks .* the iterators are r, c"),
    ("blocks of a size not known", lambda s: s.image.distribute_array([r, c], rank=r // s.C), r"rank=r // C: give blocks \(r // B, with a number B\)"),
    ("moved blocks", lambda s: s.image.distribute_array([r, c], rank=(r + 1) // B), r"rank=\(r \+ 1\) // 25"),
    ("a negative rank", lambda s: s.image.distribute_array([r, c], rank=-1), "rank=-1: give blocks"),
    ("no entry", lambda s: s.image.distribute_array([r, c], rank=()), r"rank=\(\) names no axis"),
    ("pieces without a point", lambda s: tm.pieces(r, []), r"tm\.pieces\(r, \[\]\) needs at least one point to cut at"),
    ("more pieces than ranks", lambda s: tm.pieces(r, [s.C, 7], ranks=[0, 1]), r"2 points make 3 pieces, and 2 ranks are named: name one for each piece"),
    ("pieces of a rank with others between", lambda s: tm.pieces(r, [3, s.C], ranks=[0, 1, 0]), r"rank 0 has pieces 0 and 2, with those of other ranks between them"),
    ("a piece on a negative rank", lambda s: tm.pieces(r, [3], ranks=[0, -1]), r"a rank is -1: give an integer of at least 0"),
    ("a point that is no number", lambda s: tm.pieces(r, ["x"]), r"a point is an integer, or affine in the parameters"),
    ("a point that is not affine", lambda s: s.image.distribute_array([r, c], rank=tm.pieces(r, [s.C * s.C])), r"the point C \* C is neither an integer nor affine in the parameters \(C\)"),
    ("a point with an iterator", lambda s: s.image.distribute_array([r, c], rank=tm.pieces(r, [c + 1])), r"the point c \+ 1 is neither an integer nor affine"),
    ("pieces of another iterator", lambda s: s.image.distribute_array([r, c], rank=tm.pieces(q, [3])), r"rank=tm\.pieces\(q, \[3\]\): q is not among the iterators r, c"),
    ("pieces and blocks of one dimension", lambda s: s.image.distribute_array([r, c], rank=(tm.pieces(r, [3]), r // B)), "r is dealt out along two axes of the process grid"),
    ("pieces on a rank that is not there", lambda s: (s.f.grid(2), s.image.distribute_array([r, c], rank=tm.pieces(r, [3, 5]))), "image is held by rank 2 along axis 0, but the process grid has ranks 0 to 1"),
    ("shares of nothing", lambda s: tm.pieces(r, tm.shares(1, 2)), r"tm\.pieces\(r, tm\.shares\(1, 2\)\) needs the extent that is shared: of=R, say"),
    ("an extent without shares", lambda s: tm.pieces(r, [3], of=s.C), r"of=C is for shares"),
    ("one dimension on two axes", lambda s: s.image.distribute_array([r, c], rank=(r // B, r % 2)), "r is dealt out along two axes of the process grid"),
    ("one entry for two axes", lambda s: (s.bx.tag_distribute(q, r1), s.image.distribute_array([r, c], rank=r // B)), r"image is distributed along 1 axis, but the process grid has 2 axes: give image\.distribute_array\(\.\.\., rank=\(\.\.\.\)\) one entry for each"),
    ("a loop along an axis that arrays do not have", lambda s: (s.image.distribute_array([r, c], rank=r // B), s.bx.tag_distribute(q, r1)), "image is distributed along 1 axis, but the process grid has 2 axes"),
    ("an output that is laid out otherwise", lambda s: (s.by.store_in([c, r]), s.by.distribute_array([r, c], rank=r // B)), r"by has a layout of its own \(store_in\)"),
    ("another layout later", lambda s: (s.by.distribute_array([r, c], rank=r // B), s.by.store_in([c, r])), r"by has a layout of its own \(store_in\): ranks hold parts of an array at its plain indices"),
    ("an output on a GPU", lambda s: (s.by.distribute_array([r, c], rank=r // B), s.by.store_in(tm.GPU_MEMORY)), "by is in the memory of a GPU: ranks hold parts of arrays in host memory"),
]  # fmt: skip

EXCHANGES: list[Case] = [
    ("no half", lambda s: s.f.create_exchange(s.bx[r, c]), "an exchange has two halves, and send=, to=, recv=, source= are missing"),
    ("no receive", lambda s: xfer(s, recv=None, source=None), "recv=, source= are missing: send= says which values go, to= to which rank"),
    ("no peer", lambda s: xfer(s, to=None), "and to= is missing"),
    ("both forms at once", lambda s: s.f.create_xfer({r: 2, c: 2}, s.bx[r, c], tm.CPU2GPU, send={r: 2}), "messages between ranks, and take no direction"),
    ("no value", lambda s: xfer(s, access=s.bx), "bx names no value to transfer: give one such as"),
    ("a sum of values", lambda s: xfer(s, access=s.bx[r, c] + 1), "names no value to transfer"),
    ("a value of another function", lambda s: xfer(s, access=blur().bx[r, c]), r"bx\[r, c\] belongs to another function blur"),
    ("a value that is not there", lambda s: xfer(s, recv={q: (1, P + 1), r: (q * B, q * B + 1), c: s.C}), r"down\.recv takes values of bx that do not exist: there is no bx\[100, 0\], at C = 1"),
    ("a value outside of an input", lambda s: xfer(s, access=s.image[r + 1, c], send={q: P, r: (q * B, q * B + B), c: s.C}), r"down\.send takes values of image that do not exist: there is no image\[100, 0\]"),
    ("an index that is not affine", lambda s: xfer(s, access=s.bx[r * r, c]), r"r \* r in down\.send is not affine in its iterators"),
    ("an iterator that is not there", lambda s: xfer(s, access=s.bx[x, c]), r"bx\[x, c\] in down\.send uses the iterator x, which is not among its iterators \(q, r, c\)"),
    ("a peer by an iterator that is not there", lambda s: xfer(s, to=x), r"to= of down uses the iterator x, which is not among its iterators \(q, r, c\)"),
    ("a peer that is not affine", lambda s: xfer(s, source=q * q), r"q \* q in down\.recv is not affine"),
    ("a peer of two cases", lambda s: xfer(s, to=tm.select(q == 0, 1, 0)), r"select.* in down\.send is not affine"),
    ("a peer that is a float", lambda s: xfer(s, to=q / 2), r"to=q / 2 is not an integer: give the number of a rank"),
    ("a peer that is text", lambda s: xfer(s, to="next"), "to='next' names no rank"),
    ("no coordinate", lambda s: xfer(s, to=()), r"to=\(\) names no rank: give a coordinate for each axis"),
    ("two coordinates on one axis", lambda s: xfer(s, to=(q + 1, 0)), r"down\.send names a rank by 2 coordinates, but the process grid has 1 axis"),
    ("a domain with values", lambda s: xfer(s, send=({q: (0, P - 1), r: 2, c: s.C}, s.image[r, c] > 0)), r"the domain of down\.send has conditions that are not affine"),
    ("a domain that is none", lambda s: xfer(s, send=3), r"the domain of down\.send is 3; write a dict"),
    ("no list of properties", lambda s: xfer(s, send_props=tm.ASYNC), r"send_props=ASYNC: give a list, such as \[tm\.ASYNC, tm\.NONBLOCK\]"),
    ("an unknown property", lambda s: xfer(s, send_props=["fast"]), r"send_props has 'fast': choose tm\.SYNC, tm\.ASYNC, tm\.BUFFERED"),
    ("synchronous and buffered", lambda s: xfer(s, send_props=[tm.SYNC, tm.BUFFERED]), r"send_props has both tm\.SYNC and tm\.BUFFERED"),
    ("synchronous and not", lambda s: xfer(s, send_props=[tm.SYNC, tm.ASYNC]), r"both tm\.SYNC and tm\.ASYNC"),
    ("blocking and not", lambda s: xfer(s, recv_props=[tm.BLOCK, tm.NONBLOCK]), r"recv_props has both tm\.BLOCK and tm\.NONBLOCK"),
    ("a synchronous receive", lambda s: xfer(s, recv_props=[tm.SYNC]), r"recv_props has tm\.SYNC, which says when a send is complete: give it in send_props"),
    ("a buffered receive", lambda s: xfer(s, recv_props=[tm.BUFFERED]), r"recv_props has tm\.BUFFERED"),
    ("persistent and blocking", lambda s: xfer(s, send_props=[tm.PERSISTENT]), r"send_props has tm\.PERSISTENT without tm\.NONBLOCK"),
    ("a name in use", lambda s: xfer(s, name="image"), r"the exchange \(see name=\) cannot be called image: an input has this name"),
    ("an exchange twice", lambda s: (xfer(s), xfer(s)), "there is an exchange called down already"),
    ("a name for C", lambda s: xfer(s, name="double"), "'double' cannot be the name of an exchange"),
    ("coordinates of another grid", lambda s: xfer(s, to=tm.ranks(2)[0] + 1), r"tm\.ranks\(2\)\[0\] is for a process grid of 2 axes, and this has 1: tm\.rank is its number"),
    ("registers", lambda s: (s.bx.store_in(tm.REGISTER), xfer(s)), "bx is kept in register memory, and messages take values from host memory"),
    ("registers later", lambda s: (xfer(s), s.bx.store_in(tm.REGISTER)), r"down\.send: bx is kept in register memory"),
    ("inlined", lambda s: (xfer(s), s.bx.inline()), r"bx cannot be inlined: down\.send and down\.recv move its values between ranks; remove the exchange first"),
    ("computed elsewhere", lambda s: (xfer(s), s.bx.compute_at(s.by, r1)), r"down\.send and down\.recv move values of bx between ranks, and compute_at keeps them for one iteration only"),
]  # fmt: skip

HALVES: list[Case] = [
    ("a loop that is not there", lambda s: s.down.send.split(k, 2, q0, q1), r"no loop k here: down\.send has the loops q, r, c"),
    ("no innermost loop", lambda s: s.down.send.collapse_many(r), r"one operation has the innermost loops, not r \(down\.send has the loops q, r, c\)"),
    ("no loop", lambda s: s.down.recv.collapse_many(), "collapse_many needs a loop"),
    ("all loops, ranks too", lambda s: s.down.send.collapse_many(q, r, c), "loop q runs on ranks, and a message is from one rank to one"),
    ("on threads", lambda s: s.down.send.parallelize(r), r"down\.send is half of an exchange, which the host issues: it cannot be in the parallel loop r"),
    ("in lanes", lambda s: s.down.recv.vectorize(c, 4), r"down\.recv is half of an exchange, which the host issues: it cannot be in the vector loop c"),
    ("shared and merged", lambda s: (s.down.recv.after(s.down.send, c), s.down.send.collapse_many(c)), r"loop c of down\.send is shared with down_receive: one operation has loops of its own"),
    ("merged and shared", lambda s: (s.down.collapse_many(c), s.down.recv.after(s.down.send, c)), "loop c is one operation .*: nothing else can be in it"),
    ("ranks inside of a message", lambda s: (s.down.send.interchange(q, c), s.down.send.collapse_many(c)), r"one operation has the innermost loops|loop q is tagged"),
    ("an exchange in an order", lambda s: s.f.order(s.bx, s.down, at=tm.root), r"down is an exchange of two halves: name down\.send or down\.recv"),
    ("after an exchange", lambda s: s.by.after(s.down), r"down is an exchange of two halves: name down\.send or down\.recv"),
    ("a wait on a GPU", lambda s: s.down.send.wait(on=1), r"down\.send\.wait: messages are waited for by the host"),
    ("a wait by another iterator", lambda s: s.down.send.wait({k: 4}), r"down\.send has the iterators q, r, c, and not k"),
    ("a wait for blocking halves", lambda s: s.down.wait(), r"down\.wait: both halves are blocking, and nothing is under way"),
    ("a wait on threads", lambda s: s.up.send.wait({c: s.C}).parallelize(c), "up_send_wait is a wait, which the host issues: it cannot be in the parallel loop c"),
    ("a request of a blocking half", lambda s: s.down.send.set_wait_access(q), r"down\.send is blocking, and has no requests to keep: give it tm\.NONBLOCK"),
    ("no index of a request", lambda s: s.up.send.set_wait_access(), "set_wait_access needs the index of the request"),
    ("a negative request", lambda s: s.up.send.set_wait_access(q - 2), r"the index q - 2 of a request of up\.send may be negative: count from 0"),
    ("a request that is not affine", lambda s: s.up.send.set_wait_access(q * r), r"q \* r in set_wait_access of up\.send is not affine"),
    ("requests within a message", lambda s: (s.up.send.collapse_many(c), s.up.send.set_wait_access(c)), r"one message of up\.send would use several requests"),
    ("a message within requests", lambda s: (s.up.send.set_wait_access(c), s.up.send.collapse_many(c)), r"one message of up\.send would use several requests"),
    ("removed while it is waited for", lambda s: (s.up.send.wait(), s.f.remove(s.up)), "up_send_wait waits for up_send: remove up_send_wait first"),
    ("removed twice", lambda s: (s.f.remove(s.down), s.f.remove(s.down)), "down has been removed: create another exchange"),
    ("told after it is removed", lambda s: (s.f.remove(s.down), s.down.send.collapse_many(c)), r"down\.send has been removed"),
]  # fmt: skip


def _refused(s: SimpleNamespace, command: Callable[[SimpleNamespace], Any], words: str) -> None:
    before: list[tuple[Any, bool]] = []
    apply = s.f.apply

    def recorded(*arguments: Any) -> None:
        before.append((s.f.program, False))
        apply(*arguments)
        before[-1] = (s.f.program, True)

    s.f.apply = recorded
    with pytest.raises(tm.TiramisuError, match=words) as caught:
        command(s)
    assert isinstance(caught.value, tm.CommandError | tm.DeclarationError)
    assert "isl cannot do this" not in str(caught.value)
    assert not before or s.f.program is before[-1][0], "a command was refused, and yet changed the program"


def _table(cases: list[Case]) -> Any:
    return pytest.mark.parametrize(
        ("command", "words"), [pytest.param(run, words, id=what) for what, run, words in cases]
    )


@_table(LOOPS + GRIDS + ARRAYS)
def test_a_wrong_distribution_is_refused_in_words(command, words):
    _refused(split_blur(), command, words)


@_table(EXCHANGES)
def test_a_wrong_exchange_is_refused_in_words(command, words):
    _refused(blur(), command, words)


@_table(HALVES)
def test_a_wrong_command_on_half_of_an_exchange_is_refused_in_words(command, words):
    _refused(halo(), command, words)


def test_an_exchange_without_any_rank_is_refused():
    s = split_blur()
    with pytest.raises(
        tm.CommandError, match=r"there are no ranks yet: declare them with grid\(\.\.\.\), or run a loop"
    ):
        xfer(s)


def test_partial_results_are_combined_by_operators_and_in_types_that_mpi_has():
    words = r"combine=tm\.ATOMIC: ranks share no memory, so each collects its own partial results of C: use combine=tm\.PRIVATE, or tm\.TREE"
    with pytest.raises(tm.CommandError, match=words):
        matmul().C.update.tag_distribute(k, combine=tm.ATOMIC)
    with pytest.raises(tm.CommandError, match="no reduction runs over loop i"):
        matmul().C.tag_distribute(i, combine=tm.ATOMIC)
    own = tm.operator("larger", tm.maximum, 0)
    for operator, dtype, words in (
        (own, tm.int32, r"ranks combine int32 by tm\.sum, .*, and s is reduced by larger"),
        (tm.sum, tm.float16, r"MPI does not combine float16: use combine=tm\.TREE, or let s have dtype=tm\.float32"),
    ):
        f = tm.Function("f", params=[])
        a = f.input("a", dtype, [8])
        s = f.reduction("s", {i: 1}, {k: 8}, operator, a[k])
        f.outputs(s)
        with pytest.raises(tm.CommandError, match=words):
            s.update.tag_distribute(k, combine=tm.PRIVATE)


def test_the_output_that_stands_for_a_temporary_is_named():
    s = halo(recurrent=True)
    with pytest.raises(tm.CommandError, match=r'what heat returns is h_out: heat\["h_out"\]\.distribute_array'):
        s.h.distribute_array([t, i], rank=None)


def test_an_array_of_two_names_is_distributed_alike():
    s = tiles(in_place=True)
    s.a.distribute_array([i, j], rank=(i // 4, j // 4))
    assert s.f.program.ranks.distributions["b"] == s.f.program.ranks.distributions["a"]
    with pytest.raises(
        tm.CommandError, match=r"tm\.rank is for a process grid of 1 axes, and this has 2: name its coord"
    ):
        s.f.create_exchange(s.a[i, j], send={i: 4, j: 4}, to=(tm.rank, 0), recv={i: 4, j: 4}, source=(0, R))


def test_iterators_of_loops_along_several_axes_are_ambiguous():
    s = tiles()
    s.b.tag_distribute(q0, q1)
    s.f.undo()
    s.p.split(i, 4, q, i0_ := x).tag_distribute(q)
    assert i0_ is x
    s.b.tag_distribute(q0, axis=0).tag_distribute(q1, axis=1)
    other = s.f["z"].split(i, 4, q, x).tag_distribute(q, axis=1)
    assert other.name == "z"
    with pytest.raises(tm.CommandError, match="loops called q run along the axes 0, 1 of the process grid: give the"):
        s.f.create_exchange(s.p[i, j], send={q: 2, i: 4, j: 4}, to=(q, 0), recv={q: 2, i: 4, j: 4}, source=(q, 0))
