"""Fronts load a module when one of its names is first asked for, and look to everyone as if they had loaded all."""

from __future__ import annotations

import ast
import graphlib
import importlib
import inspect
import json
import pydoc
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tiramisu_py as tm
from tiramisu_py import fronts, view
from tiramisu_py.view.pseudocode import ReadableLoops

ROOT = Path(__file__).resolve().parent.parent
BLUR = (ROOT / "README.md").read_text().split("```py")[1].split("\n\nkernel =")[0].removeprefix("thon")
#: What only those need who compile, run loops or look at them, who search, and who give no command of their own.
LATER = (
    "auto",
    "backends",
    "counting.communication",
    "interpret",
    "lower",
    "passes",
    "recipes",
    "toolchain",
    "tuning",
    "view",
)
#: Modules of others that a check has no use for.
OTHERS = (
    "cgen",
    "concurrent.futures",
    "filelock",
    "multiprocessing",
    "optuna",
    "platformdirs",
    "sqlite3",
    "subprocess",
)


def of_all_fronts() -> list[Path]:
    found = [path for path in (ROOT / "tiramisu_py").rglob("__init__.py") if "tiramisu_py.fronts" in path.read_text()]
    assert len(found) > 8
    return found


def declared(tree: ast.Module) -> dict[str, str]:
    """The names that type checkers see, and where each is."""
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    found = dict[str, str]()
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        else:
            assert isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            root, _, member = ast.unparse(node.value).partition(".")
            found[node.targets[0].id] = f"{found[root]}.{member}"
    return found


def given(tree: ast.Module) -> tuple[dict[str, str], set[str]]:
    """The names that a front loads, and where each is; and its modules."""
    (call,) = [
        node.value for node in tree.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "front"
    ]  # fmt: skip
    table: Mapping[str, str] = ast.literal_eval(call.args[1])
    names = {
        each.split(" as ")[-1]: f"{module}.{each.split(' as ')[0]}"
        for module, listed in table.items()
        for each in listed.split(", ")
    }
    keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert {*keywords.get("former", {}).values()} <= {*names}, "an old word leads to no name of now"
    return names, {*keywords.get("modules", "").split()}


@pytest.mark.parametrize("path", of_all_fronts(), ids=lambda path: path.parent.name)
def test_a_front_loads_what_it_declares(path: Path) -> None:
    tree = ast.parse(path.read_text())
    (listed,) = [
        ast.literal_eval(node.value) for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]  # fmt: skip
    names, modules = given(tree)
    types = declared(tree)
    assert {name: place for name, place in types.items() if name not in modules} == names
    assert sorted(listed) == sorted(types)
    room = ".".join(path.parent.relative_to(ROOT).parts)
    assert {types[name] for name in modules & set(types)} == {f"{room}.{name}" for name in modules & set(types)}


def test_every_name_of_the_package_is_there() -> None:
    values = {name: getattr(tm, name) for name in tm.__all__}
    assert len(values) > 150
    assert all(
        isinstance(values[name], ModuleType) for name in ("boundary", "patterns", "progress", "recipes", "sparse")
    )
    assert values["max"] is tm.max is not max and repr(tm.bool) == "bool"
    assert (tm.LOCALITY, tm.HOST, tm.ATOMIC) == (tm.Goal.LOCALITY, tm.Memory.HOST, tm.Combine.ATOMIC)
    assert tm.errors.TiramisuError is tm.TiramisuError and tm.__version__


def test_a_star_imports_every_name() -> None:
    space = dict[str, Any]()
    exec("from tiramisu_py import *", space)
    assert set(space) - {"__builtins__"} == set(tm.__all__)
    assert space["sum"] is tm.sum and space["Function"] is tm.Function


def test_completion_knows_every_name_before_it_is_loaded() -> None:
    said = ran("import tiramisu_py as tm; say(dir(tm))")
    assert set(tm.__all__) | {"__version__", "__doc__", "__path__", "errors", "schedule", "view"} <= set(said)
    assert not {"TYPE_CHECKING", "front"} & set(said)
    assert not [name for name in said if name.startswith("_") and not name.startswith("__")]


def test_help_and_inspection_see_every_name() -> None:
    members = dict(inspect.getmembers(tm))
    assert set(tm.__all__) <= set(members) and inspect.ismodule(tm)
    text = pydoc.plain(pydoc.render_doc(tm))
    assert "class Function" in text and "parallelize(" in text and "powers_of_two(" in text
    signature = str(inspect.signature(tm.Function.compile))
    assert signature.startswith("(self, *, target: 'str | None' = None") and inspect.getdoc(tm.tune)


def test_an_unknown_name_is_refused_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match=r"^module 'tiramisu_py' has no attribute 'Funktion'$"):
        _ = tm.Funktion  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Funktion' from 'tiramisu_py'"):
        exec("from tiramisu_py import Funktion")
    assert not hasattr(tm, "_anything") and not hasattr(view, "Function")


def test_a_module_does_not_hide_the_name_of_what_it_defines() -> None:
    said = ran(
        "import tiramisu_py.view.pseudocode, tiramisu_py.view.occupancy\n"
        "from tiramisu_py import view\n"
        "say([type(view.pseudocode).__name__, type(view.occupancy).__name__])"
    )
    assert said == ["function", "function"]
    assert view.ReadableLoops is ReadableLoops


def test_a_name_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = view.loop_nests
    monkeypatch.setattr(fronts, "import_module", None)
    assert view.loop_nests is first and tm.view is view


def ran(program: str) -> Any:
    """What a program says, in a process of its own."""
    text = f"import json, sys\ndef say(what): print(json.dumps(what))\n{program}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=True)
    return json.loads(done.stdout)


def modules(program: str) -> list[str]:
    """The modules that are loaded after a program, without fronts that have loaded nothing of their rooms."""
    said: list[str] = ran(f"{program}\nsay(sorted(sys.modules))")
    return [name for name in said if not any(name == f"tiramisu_py.{room}" for room in LATER)]


def test_the_package_alone_loads_nothing() -> None:
    said = modules("import tiramisu_py")
    assert [name for name in said if name.startswith("tiramisu_py")] == ["tiramisu_py", "tiramisu_py.fronts"]
    assert not {"numpy", "islpy", "dataclasses"} & set(said)


def unneeded(loaded: list[str]) -> list[str]:
    rooms = [f"tiramisu_py.{room}" for room in LATER]
    return [name for name in loaded if name.startswith((*rooms, "tiramisu_py.console")) or name in OTHERS]


def test_declaring_scheduling_and_checking_load_nothing_that_compiles() -> None:
    loaded = modules(f"{BLUR}\nassert blur.check().ok")
    assert unneeded(loaded) == [] and "tiramisu_py.proof.theorem" in loaded


def test_compiling_loads_neither_recipes_nor_the_search_nor_pictures() -> None:
    loaded = modules(f"{BLUR}\nblur.source()")
    others = tuple(f"tiramisu_py.{room}" for room in ("auto", "recipes", "tuning", "view.pictures"))
    assert [name for name in loaded if name.startswith(others)] == []
    assert {"tiramisu_py.lower.lowering", "tiramisu_py.backends.emitting"} <= set(loaded)


def test_the_command_line_loads_what_its_verb_needs(tmp_path: Path) -> None:
    (tmp_path / "blur.py").write_text(BLUR)
    loaded = modules(
        f"from contextlib import redirect_stdout\nfrom tiramisu_py.console import main\n"
        f"with redirect_stdout(sys.stderr): assert main(['check', {str(tmp_path / 'blur.py')!r}]) == 0"
    )
    named = [name for name in unneeded(loaded) if name.startswith("tiramisu_py.console")]
    assert named == [f"tiramisu_py.console{module}" for module in ("", ".invocation", ".reading", ".scripts")]
    assert [name for name in unneeded(loaded) if name not in named] == []


def test_few_methods_of_dataclasses_are_made_where_nothing_compiles() -> None:
    """A class has up to five; without placeholders it would be a thousand texts to compile."""
    program = (
        "import inspect, dataclasses\n"
        f"{BLUR}\n"
        "assert blur.check().ok\n"
        "found = {id(each): each for name, module in list(sys.modules.items()) if name.startswith('tiramisu_py.')\n"
        "         for each in vars(module).values() if isinstance(each, type) and dataclasses.is_dataclass(each)}\n"
        "made = [f'{each.__name__}.{name}' for each in found.values() for name, method in vars(each).items()\n"
        "        if inspect.isfunction(method) and method.__code__.co_filename == '<record>']\n"
        "say([len(found), len(made)])"
    )
    classes, methods = ran(program)
    assert classes > 150
    assert methods < classes / 2


def imported(path: Path) -> set[str]:
    """The modules that a module loads with itself; a name of a front stands for the module where it is."""
    found = set[str]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tiramisu_py."):
            package = sys.modules.get(node.module)
            places = vars(package)["_places"] if isinstance(package, fronts._Front) else {}
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in NAMED else places.get(alias.name, (node.module,))[0])
    return found


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMED = {module_of(path): path for path in (ROOT / "tiramisu_py").rglob("*.py")}


def test_any_module_can_be_the_first_that_is_loaded() -> None:
    """No module needs another one that needs it, in whichever order fronts load them."""
    for path in of_all_fronts():
        importlib.import_module(module_of(path))
    needs = {name: imported(path) - {name} for name, path in NAMED.items()}
    order = list(graphlib.TopologicalSorter(needs).static_order())
    assert len(order) >= len(NAMED) > 700


CHECKED = '''"""A program of a user."""

import tiramisu_py as tm

N, = tm.params("N")
i, = tm.iters("i")
f = tm.Function("f", params=[N], assume="N >= 1")
a = f.input("a", tm.float32, [N])
b = f.computation("b", {i: N}, tm.max(2 * a[i], tm.sqrt(a[i])))
f.outputs(b)
b.vectorize(i, 8)
report: tm.Report = f.check()
kernel: tm.Kernel = f.compile()
reveal_type(kernel)
reveal_type(tm.tune)
reveal_type(tm.PARALLEL)
made = tm.recipes.matmul
tm.nothing
f.compile(treads=3)
'''


@pytest.mark.slow
def test_a_type_checker_sees_what_a_front_will_load(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(CHECKED)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(tmp_path / "user.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    said = [line.split(":", 1)[1] for line in done.stdout.splitlines() if "user.py" in line]
    assert [line.split(":")[0] for line in said if " error: " in line] == ["18", "19"], done.stdout
    assert 'Module has no attribute "nothing"' in done.stdout and '"treads" for "compile"' in done.stdout
    revealed = [line.partition("Revealed type is ")[2] for line in said if "Revealed" in line]
    assert revealed[::2] == ['"tiramisu_py.toolchain.kernel.Kernel"', '"tiramisu_py.schedule.loops.wavefronts.Goal"']
    assert revealed[1].startswith('"def (make: ')
