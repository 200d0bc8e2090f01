"""Algorithms and schedules in files: what a fresh process makes of them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.folders import modules_of
from tests.function.loading import ROOT, elsewhere, emitted
from tests.oracle.generators.cooperative_random import random_cooperative_script
from tests.oracle.generators.cpu_random import random_cpu_script
from tests.oracle.generators.gpu_random import random_gpu_script
from tests.oracle.generators.random_programs import random_script
from tests.oracle.generators.rank_random import random_derived_script, random_rank_script
from tests.oracle.generators.script import Script
from tests.programs.drafts import texts
from tests.selection import first
from tiramisu_py.function.saving.files import FORMAT

i, j, k, i0, i1 = tm.iters("i j k i0 i1")
(N,) = tm.params("N")
C_TEXT = "static int twice(int x) { return 2 * x; }"
RANDOM = (
    random_script, random_cpu_script, random_gpu_script, random_rank_script, random_derived_script,
    random_cooperative_script,
)  # fmt: skip


def scale() -> tm.Function:
    f = tm.Function("scale", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    o = f.computation("o", {i: N}, 3 * a[i])
    f.outputs(o)
    o.split(i, 4, i0, i1).parallelize(i0)
    return f


def saved(f: tm.Function, folder: Path) -> tuple[Path, Any]:
    """The file of a function, and what it says."""
    path = folder / "f.json"
    f.save(path)
    return path, json.loads(path.read_text(encoding="utf-8"))


# -- what comes back


def examples(folder: str) -> Iterator[tm.Function]:
    """The schedules of the examples in a folder; those for ranks on two ranks, with 24 rows."""
    with modules_of(ROOT / "examples" / folder) as module:
        for file in sorted((ROOT / "examples" / folder).glob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "def scheduled(" in text or "VARIANTS = " in text:
                told = module(file.stem)
                for build in getattr(told, "VARIANTS", {"scheduled": getattr(told, "scheduled", None)}).values():
                    taken = list(signature(build).parameters)
                    yield build(*(2, 24)[: len(taken)]) if "ranks" in taken else build()


@pytest.mark.parametrize("folder", first(["cooperative", "mpi", "cpu", "gpu"], 2))
def test_a_fresh_process_emits_the_same_text_for_each_example(folder: str, tmp_path: Path):
    functions = list(examples(folder))
    paths = [tmp_path / f"{number}.json" for number in range(len(functions))]
    for f, path in zip(functions, paths, strict=True):
        f.save(path)
    assert len(paths) > 3
    assert elsewhere(paths) == [emitted(f) for f in functions]


@pytest.mark.parametrize("make", RANDOM, ids=lambda make: make.__name__)
def test_a_fresh_process_makes_the_same_of_random_programs(make: Callable[[int], Script], tmp_path: Path):
    functions = [make(seed).function for seed in range(900, 904)]
    paths = [tmp_path / f"{number}.json" for number in range(len(functions))]
    for f, path in zip(functions, paths, strict=True):
        f.save(path)
    assert elsewhere(paths) == [emitted(f) for f in functions]


def test_everything_that_can_be_declared_comes_back(tmp_path: Path):
    M, K = tm.params("M K")
    f = tm.Function("all", params=[N, M, K], assume=(N >= 1) & (M == 2 * N))
    a = f.input("a", tm.float32, [N, M])
    col = f.input("col", tm.int64, [N + 1], values=(0, M + 1), monotone=True)
    s = f.scalar("s", tm.float64)
    larger = tm.operator("larger", lambda x, y: tm.select(x < y, y, x), float("-inf"))
    text = f.computation("text", "[N] -> { [i, j] : 0 <= i < N and 0 <= j <= i }", tm.cast(tm.uint8, i * j))
    pieces = f.computation("pieces", [{i: (0, 1)}, {i: (3, N)}], a[i % N, 0] * s, where=i < M)
    sums = f.reduction("sums", {i: N}, {k: (col[i], col[i + 1])}, tm.sum, a[i, 0], ordered=True, dtype=tm.float64)
    most = f.reduction("most", {i: N}, {j: M}, larger, tm.exp(a[i, j]), where=a[i, j] > 0)
    heat = f.computation("heat", {k: K + 1, i: N}, lambda h: tm.select(k == 0, a[i, 0], h[k - 1, i] + 1))
    f.outputs(text, pieces, sums, most, heat[K, i])
    path, _ = saved(f, tmp_path)
    g = tm.load(path)
    assert list(map(str, g.algorithm.inputs.values())) == list(map(str, f.algorithm.inputs.values()))
    for name, declared in f.algorithm.computations.items():
        other = g.algorithm.computations[name]
        assert other.expr.same_as(declared.expr) and str(other.points) == str(declared.points), name
        assert [x.key() for x in other.guards] == [x.key() for x in declared.guards], name
        assert (other.dtype, other.ordered, other.location) == (declared.dtype, declared.ordered, declared.location)
    assert str(g.algorithm.context) == str(f.algorithm.context) and g.algorithm.outputs == f.algorithm.outputs
    given = {"a": np.zeros((2, 4), np.float32) + 0.5, "col": np.array([0, 0, 1]), "s": 2.0, "N": 2, "M": 4, "K": 3}
    for found, expected in zip(g.evaluate(**given), f.evaluate(**given), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_loaded_function_is_one_like_any_other(tmp_path: Path):
    path, _ = saved(scale(), tmp_path)
    f = tm.load(path)
    assert texts(f) == ("o.split(i, 4, i0, i1)", "o.parallelize(i0)")
    f["o"].vectorize(i1, 4)
    f.undo()
    f.undo()
    np.testing.assert_array_equal(f.compile()(np.arange(5, dtype=np.int32)), 3 * np.arange(5))


def test_a_part_on_a_gpu_comes_back_from_a_file_of_the_version_before(tmp_path: Path):
    (N,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("parted", params=[N])
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, a[i] + 1)
    f.outputs(b)
    b.partition(i, tm.shares(1, 1), [tm.gpu(), tm.cores()])
    f.derive_transfers()
    path, _ = saved(f, tmp_path)
    text = path.read_text()
    assert '"gpu_threads"' in text
    path.write_text(text.replace('"gpu_threads"', '"gpu"'))
    assert tm.load(path).source() == f.source()


def test_a_function_in_c_comes_back_without_its_equivalent_in_python(tmp_path: Path):
    twice = tm.extern(
        "twice", [tm.int32], tm.int32, lambda x: 2 * x, source="static int twice(int x) { return 2 * x; }"
    )
    f = tm.Function("calls", params=[N])
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("o", {i: N}, twice(a[i])))
    path, _ = saved(f, tmp_path)
    given = np.arange(3, dtype=np.int32)
    loaded = tm.load(path)
    assert loaded.source() == f.source()
    np.testing.assert_array_equal(loaded.compile()(given), 2 * given)
    with pytest.raises(tm.SavedError, match=r"without its equivalent in Python: give tm.load externs=\[twice\]"):
        loaded.evaluate(given)
    np.testing.assert_array_equal(tm.load(path, externs=[twice]).evaluate(given), 2 * given)
    other = tm.extern("twice", [tm.int32], tm.int32, lambda x: 2 * x, source="static int twice(int x) { return x; }")
    with pytest.raises(tm.SavedError, match="twice is another one than that which was saved"):
        tm.load(path, externs=[other])


# -- what is refused


def changed(path: Path, change: Callable[[Any], object]) -> None:
    """Change what a file says."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "a newer format": (lambda d: d.update(format=FORMAT + 1), "of a newer version of tiramisu_py"),
    "another file": (lambda d: d.pop("what"), "no file of Function.save"),
    "an unknown command": (
        lambda d: d["commands"][0]["command"].update({"is": "fuse_all"}),
        "there is a 'fuse_all', which this version does not know",
    ),
    "an unknown argument": (
        lambda d: d["commands"][0]["command"].update(lanes=8),
        "split has lanes=, which this version does not know",
    ),
    "a missing argument": (lambda d: d["commands"][0]["command"].pop("by"), "split has no by"),
    "an unknown fact": (
        lambda d: d["algorithm"]["inputs"][0].update(aligned=64),
        "a is declared with aligned=, which this version does not know",
    ),
    "no command": (lambda d: d["commands"][0].update(command="o.split(i)"), r"'o.split\(i\)' is not a command"),
    "no commands": (lambda d: d.pop("commands"), "is damaged: a part of it has no 'commands'"),
    "a list in place of the commands": (lambda d: d.update(commands={}), "damaged: commands is not a list"),
    "a text in place of a command": (
        lambda d: d.update(commands=["o.split(i, 4, i0, i1)"]), "a part of it is not as Function.save writes it",
    ),
    "a text in place of a handle": (
        lambda d: d["commands"][0]["command"].update(of="o"), r"a part of it is not as Function\.save writes it \(Attr",
    ),
    "a text in place of the parameters": (
        lambda d: d["algorithm"].update(params="N"), "damaged: params of the algorithm is not a list",
    ),
    "an output of another function": (
        lambda d: d["algorithm"].update(outputs=["q"]), "damaged: the output q is no computation of scale",
    ),
    "a format that is no number": (lambda d: d.update(format="2"), r"its format is '2', not a number from 1 to"),
    "a format that never was": (lambda d: d.update(format=0), r"its format is 0, not a number from 1 to"),
    "no type": (lambda d: d["algorithm"]["inputs"][0].update(dtype={"is": "type", "name": "int3"}), "is damaged"),
    "no domain": (lambda d: d["algorithm"]["computations"][0].update(domain=None), "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_says_something_else_is_refused_with_its_name(case: str, tmp_path: Path):
    path, _ = saved(scale(), tmp_path)
    change, message = REFUSED[case]
    changed(path, change)
    with pytest.raises(tm.SavedError, match=message) as refusal:
        tm.load(path)
    assert str(path) in str(refusal.value)


def test_a_file_that_ends_early_and_one_that_is_not_there_are_refused(tmp_path: Path):
    path, _ = saved(scale(), tmp_path)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(tm.SavedError, match=r"is damaged, or no file of Function.save: "):
        tm.load(path)
    with pytest.raises(
        tm.SavedError, match=r"none\.json cannot be read: there is no such file; give the path"
    ) as missing:
        tm.load(tmp_path / "none.json")
    assert isinstance(missing.value.__cause__, FileNotFoundError)
    with pytest.raises(tm.SavedError, match="is a folder: give the path of a file"):
        tm.load(tmp_path)


@pytest.mark.parametrize("what", [tm.Function.save, tm.Function.certificate])
def test_a_file_that_cannot_be_written_is_named_with_what_to_do_and_nothing_is_left_of_it(what: Any, tmp_path: Path):
    with pytest.raises(
        tm.SavedError, match=r"f.json cannot be written: there is no folder .*none; create it"
    ) as missing:
        what(scale(), tmp_path / "none" / "f.json")
    assert isinstance(missing.value.__cause__, FileNotFoundError)
    (tmp_path / "folder").mkdir()
    with pytest.raises(tm.SavedError, match="folder is a folder: give the path of a file"):
        what(scale(), tmp_path / "folder")
    (tmp_path / "file").touch()
    with pytest.raises(tm.SavedError, match=r"there is no folder .*file; create it"):
        what(scale(), tmp_path / "file" / "f.json")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


@pytest.mark.parametrize("path", [None, 3, b"f.json", "", scale()], ids=repr)
def test_what_is_no_path_is_refused(path: Any):
    for use in (scale().save, tm.load):
        with pytest.raises(tm.SavedError, match=r"is not the path of a file: give a text, such as 'blur.json'"):
            use(path)


def test_a_folder_is_refused_with_an_example_in_it(tmp_path: Path):
    for use in (scale().save, tm.load):
        with pytest.raises(tm.SavedError, match=r"is a folder: give the path of a file, such as '.*/blur\.json'"):
            use(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("externs", [None, "twice", ["twice"], scale(), tm.extern("g", [], tm.int32, lambda: 1)])
def test_what_are_no_external_functions_is_not_blamed_on_the_file(externs: Any, tmp_path: Path):
    path, _ = saved(scale(), tmp_path)
    with pytest.raises(
        tm.SavedError, match=r"externs=.*: give a list of functions that tm.extern or tm.extern_stage has declared"
    ) as said:
        tm.load(path, externs=externs)
    assert "damaged" not in str(said.value)


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_files_of_earlier_formats_are_read(number: int, tmp_path: Path):
    path, _ = saved(scale(), tmp_path)
    changed(path, lambda d: d.update(format=number))
    assert texts(tm.load(path)) == texts(scale())


def test_the_fields_of_a_command_count_and_its_text_is_for_readers(tmp_path: Path):
    path, _ = saved(scale(), tmp_path)
    changed(path, lambda d: d["commands"][0].update(text="o.split(i, 8, i0, i1)"))
    assert texts(tm.load(path)) == texts(scale())
    changed(path, lambda d: d["commands"][0]["command"].update(by=8))
    assert texts(tm.load(path))[0] == "o.split(i, 8, i0, i1)"


def test_a_command_that_does_not_fit_any_more_says_so_as_it_is_written(tmp_path: Path):
    path, _ = saved(scale(), tmp_path)
    changed(path, lambda d: d["commands"][1]["command"]["over"]["items"][0].update(name="x"))
    with pytest.raises(tm.CommandError, match=r"o.parallelize\(x\): no loop x here: o has the loops i0, i1") as refusal:
        tm.load(path)
    assert refusal.value.__notes__ == [f"in the file {path}"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, before = saved(scale(), tmp_path)

    def full(*_: object, **__: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(tm.SavedError, match="no space left"):
        scale().save(path)
    assert json.loads(path.read_text(encoding="utf-8")) == before
