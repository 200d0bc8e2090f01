"""Certificates: a program that shares nothing with the compiler accepts those of proven programs, rejects others."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import islpy as isl
import pytest

import tiramisu_py as tm
from tests.auto import programs as automatic
from tests.dependence import test_copies
from tests.oracle.kinds import KINDS
from tests.proof.certificates import programs
from tests.proof.certificates.changes import CHANGES, copied_total, folded
from tests.selection import first
from tiramisu_py.proof.certificates.certificate import certificate

ROOT = Path(__file__).resolve().parents[3]
CHECKER = ROOT / "scripts" / "verify_certificate"
MOST_LINES = 250


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    loader = SourceFileLoader("verify_certificate", str(CHECKER))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def judged(checker: ModuleType, document: dict[str, Any]) -> str:
    """What the checker says: "" where it accepts, or the claim that is not shown, or why it cannot read this."""
    try:
        assert checker.Certificate(json.loads(json.dumps(document))).check() > 0
    except checker.Rejected as claim:
        return str(claim)
    except (LookupError, TypeError, isl.Error) as error:
        return f"no certificate: {error!r}"
    return ""


def test_the_checker_is_short_and_imports_isl_alone() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - sys.stdlib_module_names == {"islpy"}


@pytest.mark.parametrize("program", programs.ALL, ids=lambda program: program.__name__)
def test_certificates_of_schedules_are_accepted(program: Callable[[], tm.Function], checker: ModuleType) -> None:
    assert judged(checker, program().certificate()) == ""


@pytest.mark.parametrize("program", first(automatic.ALL, 8), ids=lambda program: program.__name__)
def test_certificates_of_automatic_schedules_are_accepted(
    program: Callable[[], tm.Function], checker: ModuleType
) -> None:
    f = program()
    f.auto_schedule(threads=2)
    assert judged(checker, f.certificate()) == ""


#: What a certificate of a refused schedule may leave out: the proof knows more than the values that reads find.
BEYOND = ("cannot run past its end", "past the end of", "prefetch", "ordered", "tm.ATOMIC", "each iteration of which")


@pytest.mark.parametrize("kind", ["any", "cores", "groups"])
def test_the_checker_agrees_with_the_proof_on_random_schedules(kind: str, checker: ModuleType) -> None:
    """The evidence for a wrong schedule is as good as it can be; and it is rejected."""
    seen = {"accepted": 0, "rejected": 0}
    for seed in range(40):
        f = KINDS[kind].made(seed).function
        report = f.check()
        try:
            said = judged(checker, certificate(report.program or f.program, partial=True))
        except tm.UnsupportedError:
            continue
        if report.ok:
            assert said == "", f"{kind}, seed {seed}: {said}"
        elif not said:
            assert any(word in str(v) for v in report.violations for word in BEYOND), f"{kind}, seed {seed}: {report}"
        seen["rejected" if said else "accepted"] += 1
    assert min(seen.values()) >= 8


@pytest.mark.parametrize("name", CHANGES)
def test_a_certificate_with_one_fact_changed_is_rejected(name: str, checker: ModuleType) -> None:
    program, change = CHANGES[name]
    document = program().certificate()
    assert judged(checker, document) == ""
    change(document)
    said = judged(checker, document)
    print(name, said)
    assert said


def test_a_sum_may_be_read_from_a_copy(checker: ModuleType) -> None:
    """What is changed in two cases above is right before."""
    document = programs.total().certificate()
    copied_total(document)
    assert judged(checker, document) == ""


def test_the_checker_says_what_is_not_shown(tmp_path: Path) -> None:
    """In a process of its own, from files: accepted, rejected, no certificate."""
    good, bad, other = (tmp_path / name for name in ("good.json", "bad.json", "other.json"))
    document = programs.ring().certificate(good)
    folded("p", 2)(document)
    bad.write_text(json.dumps(document))
    other.write_text("{}")
    said = [
        subprocess.run([sys.executable, CHECKER, path], check=False, capture_output=True, text=True)
        for path in (good, bad, other)
    ]
    assert [each.returncode for each in said] == [0, 1, 2]
    assert "accepted: ring, 7 accesses, for all sizes" in said[0].stdout
    assert "it does not show that the store of p does not precede the read of p by q" in said[1].stdout
    assert "no certificate that can be read" in said[2].stdout


def test_a_refused_schedule_has_no_certificate() -> None:
    f = programs.recurrence()
    f["h"].parallelize(programs.t)
    with pytest.raises(tm.LegalityError, match="parallel loop t"):
        f.certificate()


def _on_a_gpu() -> tm.Function:
    f = programs.stages()
    for name in ("p", "q"):
        f[name].split(programs.i, 8, programs.i0, programs.i1).tag_gpu([programs.i0], [programs.i1])
    f.derive_transfers()
    return f


def _on_ranks() -> tm.Function:
    f = tm.Function("doubled")
    x = f.input("x", tm.float32, [4])
    y = f.computation("y", {programs.i: 4}, 2.0 * x[programs.i])
    f.outputs(y)
    for array in (x, y):
        array.distribute([programs.i], rank=programs.i)
    y.tag_distribute(programs.i)
    return f


def _last() -> tm.Function:
    """The last term that is not zero: an operator that does not commute."""
    keep = tm.operator("keep", lambda a, b: tm.select(b == 0, a, b), 0, commutative=False)
    f = tm.Function("last", params=[programs.N])
    x = f.input("x", tm.int32, [programs.N])
    f.outputs(f.reduction("s", {}, {programs.i: programs.N}, keep, x[programs.i]))
    return f


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (_on_a_gpu, "runs on a GPU"),
        (_on_ranks, "no certificate covers ranks"),
        (_last, "is not commutative"),
        (test_copies.lu, "finds a copy in place of"),
    ],
)
def test_what_no_certificate_covers_is_refused_by_name(program: Callable[[], tm.Function], words: str) -> None:
    with pytest.raises(tm.UnsupportedError, match=words):
        program().certificate()
