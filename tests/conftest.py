"""What all tests share: golden texts, and markers that need something of the machine."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from tests import processors
from tests.lacking import skip_for
from tests.mpi.launching import FOLDER, TIMEOUT, implementations, passed_together, run_test
from tests.mutations.lists import every
from tests.tiers.budget import budget
from tests.tiers.costs import Account, Meter
from tests.tiers.families import chosen, this_turn
from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain.compilers import library, simulator
from tiramisu_py.toolchain.compilers.flags import OPTIMISED

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
GOLDEN = TESTS / "golden"
GIB = 2**30

# Threads that wait do not spin: tests run side by side, on all cores. Before any of them loads OpenMP.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# What tests compile is kept for all later runs, apart from what the user has compiled.
os.environ.setdefault("TIRAMISU_CACHE_DIR", str(user_cache_path("tiramisu_py-tests")))
# Processes that tests start, ranks above all, keep the bytecode of modules: compiling these takes half their time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

#: Rooms whose kernels are compiled as those of users are, and how all others are: unoptimised, which takes a third of
#: the time. What -O3 may do to generated code is looked for in these rooms but for tests marked `unoptimised`, in tests
#: marked `optimised`, and in all that runs in a process of its own (examples, documentation, acceptance). Simulated
#: kernels are as users have them in tests marked `optimised` alone.
AS_USERS = ("oracle", "targets")
QUICK = ("-O0",)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing")
    parser.addoption(
        "--mpi", choices=["first", "all"], default="first", help="the MPI of tests on ranks: MPICH, or all"
    )
    parser.addoption("--all", action="store_true", help="whole families of tests, those marked slow too")
    parser.addoption("--cases", type=int, help="at most so many plain cases of each family; the others take turns")
    parser.addoption(
        "--processor", metavar="NAME", help="x86-64-v2, x86-64-v3, ...: the least of it and this machine's is the host"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Chooses the host before anything asks for it, and the turn of this run: processes that tests start have them in
    their environment. What tests take is measured.
    """
    name = config.getoption("--processor")
    if name:
        processors.become(name)
    this_turn()
    meter = Meter()
    config.pluginmanager.register(meter)
    if not hasattr(config, "workerinput") and FOLDER not in os.environ:
        whole = [Path(given).resolve() for given in config.args] == [TESTS] and not config.option.keyword
        config.pluginmanager.register(Account(meter, config.getoption("--all"), whole))


def pytest_report_header() -> str:
    """The processor that a run is for."""
    return f"processor: {processors.described()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The numbers of tests that need more than the processor has."""
    skipped = terminalreporter.getreports("skipped")
    lines = processors.counted([each.longrepr[2] for each in skipped if isinstance(each.longrepr, tuple)])
    if lines:
        terminalreporter.section("what this processor cannot run")
        for line in lines:
            terminalreporter.line(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test on several ranks runs with each MPI that it is for; in a plain run, those after the first have turns."""
    marker = metafunc.definition.get_closest_marker("mpi")
    if marker is None:
        return
    asked = FOLDER in os.environ or metafunc.config.getoption("--mpi") == "all"  # on a rank, by the name of the test
    every = asked or marker.kwargs.get("everywhere", False)
    first, *others = [*implementations()] or ["none"]
    metafunc.fixturenames.append("implementation")
    rest = [pytest.param(name, marks=() if asked else pytest.mark.slow) for name in others if every]
    metafunc.parametrize("implementation", [first, *rest])


def pytest_collection_finish() -> None:
    """What is there before the first test is not searched for garbage again, and the rest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Chooses how much the compiler optimises, before any fixture compiles something."""
    room = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
    as_users = room in AS_USERS or item.get_closest_marker("optimised")
    library.OPTIMISED = OPTIMISED if as_users and not item.get_closest_marker("unoptimised") else QUICK
    simulator.OPTIMISED = None if item.get_closest_marker("optimised") else QUICK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A test that fails for what this machine lacks is skipped."""
    try:
        return (yield)
    except ToolchainError as error:
        skip_for(error)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """So is one whose fixture does."""
    try:
        return (yield)
    except ToolchainError as error:
        skip_for(error)
        raise


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test on several ranks launches itself on them, and fails with what each of them says.

    The tests of a run that are for as many ranks of one MPI share a launch; what has not passed there, runs alone.
    """
    marker = pyfuncitem.get_closest_marker("mpi")
    if marker is None or FOLDER in os.environ:
        return None
    implementation = implementations()[pyfuncitem.callspec.params["implementation"]]
    alike = [_nodeid(item) for item in pyfuncitem.session.items if _launch(item) == _launch(pyfuncitem)]
    timeout = marker.kwargs.get("timeout", TIMEOUT)
    if len(alike) > 1:
        passed = passed_together(pyfuncitem.funcargs["launches"], alike, implementation, marker.args[0], timeout)
        if _nodeid(pyfuncitem) in passed:
            return True
    said = run_test(_nodeid(pyfuncitem), implementation, marker.args[0], timeout)
    if said:
        pytest.fail(f"on {marker.args[0]} ranks with {implementation.name}:\n{said}", pytrace=False)
    return True


def _nodeid(item: pytest.Item) -> str:
    """The name of a test from any folder."""
    return f"{item.path}::{item.nodeid.partition('::')[2]}"


def _launch(item: pytest.Item) -> object:
    """What tests have in common that share a launch; None for those on no ranks, the test itself for those alone."""
    marker = item.get_closest_marker("mpi")
    if marker is None or not isinstance(item, pytest.Function) or item.get_closest_marker("skip"):
        return None
    if marker.kwargs.get("alone", False):
        return item
    return marker.args[0], marker.kwargs.get("timeout", TIMEOUT), item.callspec.params["implementation"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests whose marker asks for what this machine has not are reported as skipped, with the reason.

    Some cases of each family are made, unless `--all`, a marker or the name of a test asks for more.
    """
    if not (config.getoption("--all") or config.option.markexpr):
        named = [item for item in items if _is_named(item, config)]
        always, most = {each.test for each in every()}, config.getoption("--cases")
        taken = {*named, *chosen(items, this_turn(), budget().cases, always, budget().usual, most)}
        config.hook.pytest_deselected(items=[item for item in items if item not in taken])
        items[:] = [item for item in items if item in taken]
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("mpi"):
            item.fixturenames.append("launches")
        for reason in _missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _is_named(item: pytest.Item, config: pytest.Config) -> bool:
    """Whether an argument is the name of a test, and this is it, or one of its cases."""
    given = [text.partition("::") for text in config.args if "::" in text]
    own, folder = item.nodeid.partition("::")[2], config.invocation_params.dir
    return any(own.startswith(name) and item.path == (folder / file).resolve() for file, _, name in given)


def _missing(item: pytest.Item) -> list[str]:
    reasons = []
    if item.get_closest_marker("gpu") and not _has_gpu():
        reasons.append("no NVIDIA GPU on this machine")
    if item.get_closest_marker("mpi") and not implementations():
        reasons.append("no MPI on this machine: pip install 'tiramisu_py[mpi]'")
    memory = item.get_closest_marker("memory")
    if memory and _free_memory() < memory.args[0] * GIB:
        reasons.append(f"needs {memory.args[0]} GiB of free memory")
    return reasons


def _has_gpu() -> bool:
    try:
        return int(ctypes.CDLL("libcuda.so.1").cuInit(0)) == 0
    except OSError:
        return False


def _free_memory() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(text, name)`` compares with ``tests/golden/name``; ``pytest --update-golden`` writes it."""

    def compare(text: str, name: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} does not exist; pytest --update-golden writes it"
        assert text == path.read_text()

    return compare


@pytest.fixture(scope="session")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the workers of one run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT
