"""Imports and includes follow the order of the rooms (folders): no room uses a later one. No imports are circular."""

import ast
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A room is a folder, or a module beside the folders. It may import only from the rooms before it in this list. FACE is
# the __init__.py of the package, which Python imports before any module of the package.
FACE = "__init__"
# fmt: off
ROOMS = {
    "hwheel": ["version", "extras", "timers", "threading", "containers", "cachetools", FACE, "types", "c_api",
               "asyncio", "twisted", "sched", "purgatory", "metrics", "live", "replay", "logs", "recorder", "tune",
               "lookup", "spark", "cli", "__main__"],
    "hwheel.spark": ["durations", "arrow", "message", "shard", "session", "worker", "hold", FACE, "deliver", "replay"],
    "hwheel.cli": [FACE, "common", "demo", "run", "trace", "tune", "deliver", "pending", "letters", "move", "top",
                   "main"],
}
# debug.pxi checks the structs of every room, so it is the last layer.
CORE_LAYERS = [["wheel"], ["cpython"], ["timer", "task", "batch", "group"], ["threading"], ["loop"], ["purgatory"],
               ["containers"], ["columns"], ["replay"], ["c_api"], ["debug.pxi"]]
LAYER = {room: number for number, rooms in enumerate(CORE_LAYERS) for room in rooms}
PYTHON_PART = "# With Python objects."  # divides _core.pyx: the plain C part of the core comes first


# --- Python -----------------------------------------------------------------------------------------------------------


def modules(source):
    """Return {dotted name: file} of the package hwheel."""
    found = {}
    for file in sorted((source / "hwheel").rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(file, known):
    """Yield the modules of `known` that a file imports anywhere, except under `if TYPE_CHECKING`."""
    tree = ast.parse(file.read_text())
    ifs = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    skipped = {id(inner) for node in ifs if ast.unparse(node.test) == "TYPE_CHECKING" for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports must be absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known:
                    yield whole
                elif node.module in known:
                    yield node.module


def graph(source):
    """Return {module: the modules that it imports}."""
    known = modules(source)
    return {name: {*imports(file, known)} for name, file in known.items()}


def room_of(module, package):
    """Return the room of a module, or None if the module is not in the package."""
    if module == package:
        return FACE
    return module.removeprefix(f"{package}.").split(".")[0] if module.startswith(f"{package}.") else None


def later_rooms_imported(edges, package):
    """Yield the imports of a later room."""
    order = ROOMS[package]
    for module, imported in edges.items():
        for other in imported:
            rooms = room_of(module, package), room_of(other, package)
            if None not in rooms and order.index(rooms[0]) < order.index(rooms[1]):
                yield f"{module} imports {other}"


def circular_imports(edges):
    """Return the modules with circular imports, and the modules that import them."""
    edges = {module: {other for other in imported if other != module} for module, imported in edges.items()}
    while free := [module for module, imported in edges.items() if not imported]:
        for module in free:
            del edges[module]
        for imported in edges.values():
            imported.difference_update(free)
    return sorted(edges)


@pytest.mark.parametrize("package", ROOMS)
def test_the_list_has_exactly_the_rooms_of_the_package(package):
    found = {room_of(module, package) for module in modules(ROOT / "src")} - {None}
    assert found == {*ROOMS[package]}


@pytest.mark.parametrize("package", ROOMS)
def test_no_room_imports_a_later_room(package):
    assert [*later_rooms_imported(graph(ROOT / "src"), package)] == []


def test_no_imports_are_circular():
    assert circular_imports(graph(ROOT / "src")) == []


def test_the_core_does_not_import_hwheel():
    for file in (ROOT / "hwheel_core").rglob("*.py[xi]*"):
        found = re.findall(r"^\s*(?:from|c?import)\s+hwheel(?!_core)\b.*", file.read_text(), re.MULTILINE)
        assert found == [], file


@pytest.mark.parametrize(("file", "line", "package"), [
    ("timers/base.py", "from hwheel.threading import Timer", "hwheel"),
    ("timers/base.py", "    from hwheel.cli.main import main", "hwheel"),
    ("logs/files.py", "import hwheel.tune.study", "hwheel"),
    ("spark/arrow.py", "from hwheel.spark.shard import wheel", "hwheel.spark"),
    ("cli/common.py", "from hwheel.cli.trace.steps import trace", "hwheel.cli"),
])
def test_an_import_of_a_later_room_is_found(file, line, package, tmp_path):
    shutil.copytree(ROOT / "src" / "hwheel", tmp_path / "hwheel")
    with (tmp_path / "hwheel" / file).open("a") as changed:
        changed.write(f"\n\ndef late() -> None:\n{line}\n" if line.startswith(" ") else f"\n{line}\n")
    assert len([*later_rooms_imported(graph(tmp_path), package)]) == 1


def test_circular_imports_inside_a_room_are_found(tmp_path):
    shutil.copytree(ROOT / "src" / "hwheel", tmp_path / "hwheel")
    with (tmp_path / "hwheel/tune/units.py").open("a") as changed:
        changed.write("\nfrom hwheel.tune.report import cells\n")
    assert {"hwheel.tune.report", "hwheel.tune.units"} <= {*circular_imports(graph(tmp_path))}


# --- the core ---------------------------------------------------------------------------------------------------------


def included(core):
    """Return the files that _core.pyx includes, in order."""
    return re.findall(r'^include "(.+)"', (core / "_core.pyx").read_text(), re.MULTILINE)


def code_of(file):
    """Return the text of a file without comments, and with empty strings."""
    text = re.sub(r'("""|\'\'\')(?:.|\n)*?\1', '""', file.read_text())
    return re.sub(r"(\"[^\"\n]*\"|'[^'\n]*')|#.*", lambda match: '""' if match[1] else "", text)


def defined(code):
    """Yield the names of the C and Python functions that a file defines."""
    for line in code.splitlines():
        if re.match(r"(?:cdef|cpdef|def)\b(?!\s+(?:class|struct|enum|extern)\b)", line):
            if name := re.match(r"[^=(]*?(\w+)\(", line):
                yield name[1]


def declared(code):
    """Return the structs, enums, and classes that a file declares."""
    kinds = r"(?:cdef|cpdef|ctypedef)\s+(?:packed\s+)?(?:class|struct|enum|union)|class"
    return re.findall(rf"^\s*(?:{kinds})\s+(\w+)", code, re.MULTILINE)


def uses(code, name):
    """Return True if a file calls a function or takes its address. A variable of that name does not count."""
    is_variable = re.search(rf"\b\w+[\s*&]+{name}\s*[,)=:]|\bfor {name}\b|\b{name}\s*=(?!=)", code)
    end = r"\(" if is_variable else r"\b"
    return re.search(rf"(?<![\w.])(?<!def ){name}{end}", code) is not None  # not a method of that name


def later_functions_used(core):
    """Yield the uses of functions that a later file defines."""
    code = {file: code_of(core / file) for file in included(core)}
    names = {file: {*re.findall(r"(?<![\w.])\w+", text)} for file, text in code.items()}
    functions = {file: {*defined(text)} for file, text in code.items()}
    order = list(code)
    for number, file in enumerate(order):
        for later in order[number + 1:]:
            for name in sorted(functions[later] & names[file] - functions[file]):
                if uses(code[file], name):
                    yield f"{file} uses {name}, which is defined in {later}"


def later_types_used(core):
    """Yield the uses of structs and classes that a later layer declares."""
    code = {file.relative_to(core): code_of(file) for file in core.rglob("*.px*") if file.parent != core}
    for file, text in code.items():
        for other, declarations in code.items():
            if LAYER[file.parts[0]] < LAYER[other.parts[0]] and other.suffix == ".pxd":
                for name in declared(declarations):
                    if re.search(rf"(?<![\w.]){name}\b", text):
                        yield f"{file} uses {name} of {other}"


def test_the_core_includes_its_layers_in_order():
    for part in (ROOT / "hwheel_core" / "_core.pyx").read_text().split(PYTHON_PART):
        layers = [LAYER[Path(file).parts[0]] for file in re.findall(r'^include "(.+)"', part, re.MULTILINE)]
        assert layers and layers == sorted(layers)


def test_every_file_of_the_core_is_included():
    core = ROOT / "hwheel_core"
    assert sorted(included(core)) == sorted(str(file.relative_to(core)) for file in core.rglob("*.pxi"))


def test_no_file_of_the_core_uses_a_function_of_a_later_file():
    assert [*later_functions_used(ROOT / "hwheel_core")] == []


def test_no_file_of_the_core_has_a_list_comprehension():
    """If memory for the list is missing, Cython 3.3's code for a list comprehension releases an item twice."""
    for file in sorted((ROOT / "hwheel_core").rglob("*.pxi")):
        code = re.sub(r'""".*?"""|#[^\n]*', "", file.read_text(), flags=re.DOTALL)
        assert not re.search(r"\[[^\[\]]*\bfor\b[^\[\]]*\bin\b", code), file.name


def exits_that_need_a_traceback(code):
    """Yield the `with` statements on Python objects, and the exits from except blocks that first do something else."""
    yield from re.findall(r"^ *with (?!nogil|gil|cython\.).*", code, re.MULTILINE)
    for block in re.findall(r"^( *)except\b.*:\n((?:\1 +.*\n|\n)+)", code, re.MULTILINE):
        body = [line.strip() for line in block[1].splitlines() if line.strip()]
        if not re.fullmatch(r"return[\w .-]*|break|continue", body[0]):
            yield from (line for line in body if re.match(r"(return|break|continue)\b", line))


def test_no_exit_from_an_except_block_of_the_core_needs_a_traceback():
    """If memory for the traceback is missing, Cython 3.3's code for these exits crashes."""
    for file in sorted((ROOT / "hwheel_core").rglob("*.pxi")):
        code = re.sub(r'""".*?"""|#[^\n]*', "", file.read_text(), flags=re.DOTALL)
        assert [*exits_that_need_a_traceback(code)] == [], file.name


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("with lock:\n    pass\n", ["with lock:"]),
        ("try:\n    f()\nexcept E:\n    if due:\n        return due\n    raise\n", ["return due"]),
        ("try:\n    f()\nexcept E as error:\n    return g(error)\n", ["return g(error)"]),
        ("with nogil:\n    f()\ntry:\n    f()\nexcept E:\n    return -1\nreturn g()\n", []),
    ],
)
def test_an_exit_that_needs_a_traceback_is_found(code, found):
    assert [*exits_that_need_a_traceback(code)] == found


def test_no_room_of_the_core_uses_a_type_of_a_later_layer():
    assert [*later_types_used(ROOT / "hwheel_core")] == []


def test_a_use_of_a_later_function_is_found(tmp_path):
    core = tmp_path / "hwheel_core"
    shutil.copytree(ROOT / "hwheel_core", core)
    before = [*later_functions_used(core)]
    first, last = included(core)[0], included(core)[-1]
    name = next(defined(code_of(core / last)))
    for line in (f"    {name}(NULL)", f"    pass_on(&{name})", f"    pass_on({name})"):
        text = (core / first).read_text()
        (core / first).write_text(f"{text}\n\ncdef void calls_up() noexcept:\n{line}\n")
        assert [*later_functions_used(core)] == [f"{first} uses {name}, which is defined in {last}", *before]
        harmless = f"cdef int explains(int {name}) noexcept:    # {name}(NULL)\n    return {name}"
        (core / first).write_text(f"{text}\n\n{harmless}\n")
        assert [*later_functions_used(core)] == before
        (core / first).write_text(text)
