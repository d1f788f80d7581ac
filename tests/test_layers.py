"""The shape of the code: who imports whom, and how large things get."""

import ast
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gateway"

# The pure part of each room, which stands below all that touches the world.
PURE = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["report"]["include"]
)
IMPURE = {"anyio", "asyncio", "time", "socket", "httpx", "os", "random", "secrets", "threading"}

# Low to high: a module imports only from lower layers, or from its own.
LAYERS = (
    ("version", "errors"),
    ("pure",),
    ("dialects", "offload"),
    ("clock", "logs", "stores", "wire"),
    ("routing", "outbox"),
    ("sessions", "reminders"),
    ("exchange",),
    ("agents", "jobs", "metrics", "tracing", "usage"),
    ("console",),
    ("api", "demo"),
    ("config",),
    ("app",),
    ("cli",),
    ("__main__", "__init__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Rooms of one layer that do not know each other.
APART = {"dialects", "offload", "clock", "logs", "stores", "wire", "api", "demo"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def is_pure(path: Path) -> bool:
    return any(fnmatch(str(path.relative_to(ROOT)), pattern) for pattern in PURE)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layer_of(path: Path) -> str:
    """Return the layer of a module: its room, or `pure` for the pure part of one."""
    room = room_of(path)
    return "pure" if room != "dialects" and is_pure(path) else room


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def own(name: str) -> str | None:
    root, _, rest = name.partition(".")
    return rest.split(".")[0] if root == "gateway" else None


def used_layer(name: str) -> str | None:
    """Return the layer of what is imported by a dotted name, if it is ours."""
    room = own(name)
    if room is None:
        return None
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        path = ROOT.joinpath(*parts[:end]).with_suffix(".py")
        if path.exists():
            return layer_of(path)
    return room


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    layer = layer_of(path)
    for name in imports(path):
        used = used_layer(name)
        if used is None or used == layer:
            continue
        assert RANK[used] <= RANK[layer], f"{layer} imports {name}, which stands above it"
        assert not (RANK[used] == RANK[layer] and {used, layer} <= APART), f"{layer} knows {name}"


@pytest.mark.parametrize("path", [p for p in modules() if is_pure(p)], ids=str)
def test_pure_parts_touch_nothing_outside(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & IMPURE


def test_every_pure_part_is_there() -> None:
    for pattern in PURE:
        assert list(ROOT.glob(pattern)), pattern


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_a_dialect_knows_no_other(dialect: str) -> None:
    others = {"openai_chat", "openai_responses", "anthropic_messages", "translate"} - {dialect}
    for path in (PACKAGE / "dialects" / dialect).glob("*.py"):
        known = {name.split(".")[2] for name in imports(path) if own(name) == "dialects"}
        assert not known & others, path.name


def test_only_the_root_knows_the_configuration() -> None:
    for path in modules():
        if room_of(path) not in {"config", "app", "cli", "__main__", "__init__"}:
            assert "config" not in {own(name) for name in imports(path)}, path


def test_no_import_inside_a_function() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
                assert not inner, f"{path.name}: {node.name}"


def test_no_cycles() -> None:
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in modules()}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}

    def targets(path: Path) -> set[str]:
        found = set()
        for name in imports(path):
            for candidate in (name, name.rpartition(".")[0]):
                if candidate in names:
                    found.add(candidate)
                    break
        return found

    graph = {name: targets(path) - {name} for name, path in names.items() if name != "gateway"}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail, name))
        if name not in done:
            for target in graph.get(name, ()):
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def functions() -> list[tuple[str, int]]:
    found = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append((f"{path.relative_to(ROOT)}:{node.name}", length))
    return found


def test_functions_fit_in_the_eye() -> None:
    lengths = functions()
    assert median(length for _, length in lengths) <= 10
    assert [name for name, length in lengths if length > 50] == []


def test_files_stay_small() -> None:
    sizes = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in modules()}
    assert {name: size for name, size in sizes.items() if size > 450} == {}


def test_names_that_say_nothing_are_not_used() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
    assert not [p for p in modules() if p.stem in empty]
