"""The rules of rooms: a package is small, has a surface, and nobody outside imports past it.

A room is a package below `log`, `split`, `foreign`, `table`, `spark`, `sql` or `cli`. Its `__init__` names what others
may use.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
TREE = ROOT / "docs" / "ARCHITECTURE.md"
HOUSES = ("log", "split", "foreign", "table", "spark", "sql", "cli")
MOST_MODULES = 20


def breaches() -> list[str]:
    """What breaks a rule, a line each."""
    modules = _modules()
    rooms = {name for name, path in modules.items() if _is_room(name, path)}
    found = [*_too_large(), *_tree(), *_named()]
    for room in sorted(rooms):
        found += _surface(room, modules[room], modules)
    for name, path in modules.items():
        found += _past(name, path, rooms, modules)
    return found


def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _is_room(name: str, path: Path) -> bool:
    parts = name.split(".")
    return path.name == "__init__.py" and len(parts) > 2 and parts[1] in HOUSES


def _too_large() -> list[str]:
    found = []
    for package in sorted({path.parent for path in SOURCE.rglob("*.py")}):
        modules = [path for path in package.glob("*.py") if path.name != "__init__.py"]
        if len(modules) > MOST_MODULES:
            found.append(f"{package.relative_to(ROOT)}: {len(modules)} modules, at most {MOST_MODULES}")
    return found


def _surface(room: str, path: Path, modules: dict[str, Path]) -> list[str]:
    """A surface says three times what it offers: to the type checker, to `*`, and to whoever loads it."""
    offered: set[str] = set()
    typed: set[str] = set()
    loaded: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            offered = set(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(room):
            typed |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "surface":
            loaded = {name for names in ast.literal_eval(node.args[1]).values() for name in names}
    own = {name for name in offered if f"{room}.{name}" in modules}
    found = [f"{room}: {name} is the name of a module and of something else in it" for name in sorted(own & loaded)]
    if not offered == typed == loaded | own:
        odd = sorted((offered | typed | loaded) - (offered & typed & (loaded | own)))
        found.append(f"{room}: the surface does not say the same everywhere about {', '.join(odd)}")
    return found


def _past(name: str, path: Path, rooms: set[str], modules: dict[str, Path]) -> list[str]:
    """Imports of what lies behind the surface of another room; a module that the surface offers may be imported."""
    text = path.read_text()
    used = set(re.findall(r"LazyModule\(\"(indextables\.[\w.]+)\"\)", text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            used |= {node.module} if node.module in modules else set()
        elif isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names if alias.name in modules}
    found = []
    for target in sorted(used - rooms):
        room = target.rpartition(".")[0]
        is_inside = name == room or name.startswith(f"{room}.")
        if room in rooms and not is_inside and f'"{target.rpartition(".")[2]}"' not in modules[room].read_text():
            found.append(f"{path.relative_to(ROOT)}: imports {target}; the surface of {room} is for that")
    return found


def _tree() -> list[str]:
    """The tree that people read is the tree on disk."""
    drawn = re.search(r"```tree\n(.*?)```", TREE.read_text(), re.DOTALL)
    if drawn is None:
        return ["docs/ARCHITECTURE.md: no tree"]
    told = set()
    folders: list[str] = []
    for line in drawn.group(1).splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        name = line.split()[0]
        folders = folders[:depth]
        if name.endswith("/"):
            folders.append(name.rstrip("/"))
        else:
            told.add("/".join([*folders, name]))
    home = SOURCE / "indextables"
    there = {str(p.relative_to(home)) for p in home.rglob("*.py") if p.name != "__init__.py"}
    return [
        *(f"docs/ARCHITECTURE.md: {name} is not in the tree" for name in sorted(there - told)),
        *(f"docs/ARCHITECTURE.md: {name} is in the tree and not there" for name in sorted(told - there)),
    ]


def _named() -> list[str]:
    """Modules that the pages for engineers name are there, and hold the functions that are named behind them."""
    places = (SOURCE / "indextables", ROOT / "tests", ROOT)
    found = []
    for page in (TREE, ROOT / "CONTRIBUTING.md"):
        for name, function in re.findall(r"`([\w/]+\.py)`(?:\s`(\w+)\(\)`)?", page.read_text()):
            paths = [place / name for place in places if (place / name).is_file()]
            if not paths and ("/" in name or not any([*place.rglob(name)] for place in places[:2])):
                found.append(f"{page.name}: {name} is named and not there")
            elif function and not re.search(rf"\bdef {function}\(", paths[0].read_text()):
                found.append(f"{page.name}: {name} has no function {function}")
    return found
