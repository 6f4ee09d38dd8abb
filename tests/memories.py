"""Which module-level variables of the sources outlive a call? Found in the sources, so that none can be forgotten.

A variable is a memory if a function changes it (an entry, a method that mutates, `global`), if it begins empty, if it
is an object of a class that can change, or if it is the cache of a function. Tables that are written out and only read
are none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"

_CACHES = {"cache", "lru_cache", "functools.cache", "functools.lru_cache"}
_CHANGES = {
    *("add", "append", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem", "popleft", "remove"),
    *("setdefault", "update"),
}
_CONTAINERS = {
    *("ChainMap", "Counter", "OrderedDict", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "defaultdict"),
    *("deque", "dict", "list", "set", "LRUCache", "TTLCache", "LFUCache", "FIFOCache", "ContextVar", "local"),
}
_LOCKS = {"Condition", "Event", "Lock", "RLock", "Semaphore"}


def found() -> dict[str, str]:
    """Module and variable -> what tells that it is a memory."""
    return {
        f"{module}.{name}": why
        for path in sorted(SOURCE.rglob("*.py"))
        for module in [_module(path)]
        for name, why in _of_module(ast.parse(path.read_text()), _changing_classes())
    }


def fork_hooks() -> list[str]:
    """The modules that ask to be called after a fork."""
    return [_module(path) for path in sorted(SOURCE.rglob("*.py")) if "register_at_fork(" in path.read_text()]


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _changing_classes() -> set[str]:
    """Classes of ours of which an object keeps something in a container or under a lock of its own."""
    if not _KNOWN:
        for path in SOURCE.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and any(_keeps(inner) for inner in ast.walk(node)):
                    _KNOWN.add(node.name)
    return _KNOWN


_KNOWN: set[str] = set()


def _keeps(node: ast.AST) -> bool:
    """True for `self.x = ` something that begins empty, a flag or a lock."""
    targets, value = _assigned(node)
    own = any(isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" for target in targets)
    return own and value is not None and (_begins_empty(value) or _called(value) in _LOCKS or _is_flag(value))


def _is_flag(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)


def _of_module(tree: ast.Module, changing: set[str]) -> Iterator[tuple[str, str]]:
    begun: dict[str, ast.expr] = {}
    for node in tree.body:
        targets, value = _assigned(node)
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                begun[target.id] = value
        if isinstance(node, ast.FunctionDef) and any(_decorator(each) in _CACHES for each in node.decorator_list):
            yield node.name, "the answers of a function are kept"
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    changed = set(_changed(tree, classes))
    for name in sorted(changed & classes):
        yield name, "a class that is changed while the program runs"
    for name, value in begun.items():
        if name in changed:
            yield name, "a function changes it"
        elif _begins_empty(value):
            yield name, "it begins empty"
        elif _called(value) in _LOCKS:
            yield name, "a lock that a forked child may find taken"
        elif _called(value) in changing:
            yield name, f"an object of {_called(value)}, which can change"


def _assigned(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    if isinstance(node, ast.AnnAssign):
        return [node.target], node.value
    return [], None


def _changed(tree: ast.Module, classes: set[str]) -> Iterator[str]:
    """Names of the module that a function changes."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield from node.names
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                yield ast.unparse(node.value)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
                yield ast.unparse(node.func.value)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                owner = ast.unparse(node.value)
                yield from classes if owner == "cls" else {owner}


def _begins_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List | ast.Set):
        return not value.elts
    empty = isinstance(value, ast.Call) and not any(
        isinstance(each, ast.Dict | ast.List | ast.Set) for each in value.args
    )
    return empty and _called(value) in _CONTAINERS and not (_called(value) in {"dict", "list", "set"} and value.args)


def _called(value: ast.expr) -> str:
    return ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""


def _decorator(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)
