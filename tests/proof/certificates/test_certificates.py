"""Certificates: a program that shares nothing with the compiler accepts those of proven programs, rejects others."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tests.auto import programs as automatic
from tests.language.test_masks_left_out import module_of
from tests.programs.gpu.pipelines import CASES, Case
from tests.proof.certificates import (
    changes,
    crafted_changes,
    crafted_rank_changes,
    gpu_changes,
    gpu_programs,
    programs,
    rank_changes,
    rank_programs,
)
from tests.proof.certificates.agreement import (
    COVERED,
    PROVEN_ACCEPTED,
    REFUSED_REJECTED,
    compared,
    disagreements,
)
from tests.proof.certificates.checking import CHECKER, OF_MESSAGES, judged
from tests.proof.certificates.refused_programs import REFUSED
from tests.selection import first
from tiramisu_py.proof.certificates.certificate import certificate

PROGRAMS = [*programs.ALL, *gpu_programs.ALL, *rank_programs.ALL]
CHANGES = (
    changes.CHANGES
    | gpu_changes.CHANGES
    | rank_changes.CHANGES
    | crafted_changes.CHANGES
    | crafted_rank_changes.CHANGES
)
#: Changes that leave something out, without which there is no claim that a checker could look at.
INCOMPLETE = {
    "outputs that nobody finds",
    "an output more",
    "no claim for terms",
    "terms added again",
    "a value that is not inlined",
}
MOST_LINES = 250
#: Kinds of random programs whose checks take long: fewer of them.
SOME = {"gpu": 12, "cooperative": 12, "ranks": 12, "derived": 8, "patterns": 12}


@pytest.mark.parametrize("path", [CHECKER, OF_MESSAGES], ids=lambda path: path.name)
def test_the_checkers_are_short_and_import_isl_alone(path: Path) -> None:
    text = path.read_text()
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


@cache
def certified(program: Callable[[], tm.Function]) -> str:
    """The certificate of a program, which is accepted."""
    document = program().certificate()
    assert judged(document) == ""
    return json.dumps(document)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_certificates_of_schedules_are_accepted(program: Callable[[], tm.Function]) -> None:
    assert certified(program)


@pytest.mark.parametrize("program", first(automatic.ALL, 8), ids=lambda program: program.__name__)
def test_certificates_of_automatic_schedules_are_accepted(program: Callable[[], tm.Function]) -> None:
    f = program()
    f.auto_schedule(threads=2)
    assert judged(f.certificate()) == ""


@pytest.mark.parametrize("case", first(CASES, 8), ids=str)
def test_certificates_of_schedules_for_gpus_are_accepted_or_refused_by_name(case: Case) -> None:
    made = case.make()
    case.schedule(made)
    try:
        document = made.f.certificate()
    except tm.UnsupportedError as refusal:
        assert "combines partial results of its own" in str(refusal)
    else:
        assert judged(document) == ""


@pytest.mark.parametrize("where", [tm.cores(), tm.gpu()], ids=["cores", "gpu"])
def test_certificates_of_block_programs_are_accepted(where: Any) -> None:
    f, run = module_of("gemm").product(tile=8)
    tm.recipes.blocks(run, on=where)
    f.derive_transfers()
    assert judged(f.certificate()) == ""


@pytest.mark.parametrize("kind", COVERED)
def test_the_checker_agrees_with_the_proof_on_random_schedules(kind: str) -> None:
    """The evidence for a wrong schedule is as good as it can be; and it is rejected."""
    found = [compared(kind, seed) for seed in range(SOME.get(kind, 40))]
    assert not disagreements(found)
    seen = Counter(each.outcome for each in found)
    assert min(seen[PROVEN_ACCEPTED], 2 if kind == "derived" else seen[REFUSED_REJECTED]) >= 2


@pytest.mark.parametrize("name", CHANGES)
def test_a_certificate_with_one_fact_changed_is_rejected(name: str) -> None:
    program, change = CHANGES[name]
    document = json.loads(certified(program))
    change(document)
    said = judged(document)
    assert said
    assert said.startswith("no certificate") == (name in INCOMPLETE)


def test_a_sum_may_be_read_from_a_copy() -> None:
    """What is changed in two cases above is right before."""
    document = programs.total().certificate()
    changes.copied_total(document)
    assert judged(document) == ""


def test_partial_results_are_not_read_before_the_loop_combines_them() -> None:
    """The proof refuses copies for each thread here; the certificate names the loop, so that the checker does, too."""
    f = programs.read_beside(tm.PRIVATE)
    with pytest.raises(tm.LegalityError, match="combines its partial results only at its end"):
        f.certificate()
    assert "inside one loop" in judged(certificate(f.program, partial=True))


def test_the_checker_says_what_is_not_shown(tmp_path: Path) -> None:
    """In a process of its own, from files: accepted, rejected, no certificate."""
    good, bad, other = (tmp_path / name for name in ("good.json", "bad.json", "other.json"))
    document = programs.ring().certificate(good)
    changes.folded("p", 2)(document)
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


@pytest.mark.parametrize(("program", "words"), REFUSED, ids=[program.__name__ for program, _ in REFUSED])
def test_what_no_certificate_covers_is_refused_by_name(program: Callable[[], tm.Function], words: str) -> None:
    f = program()
    assert f.check().ok
    with pytest.raises(tm.UnsupportedError, match=words):
        f.certificate()
