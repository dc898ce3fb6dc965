"""Tests and benchmarks use the product as everybody does: by its public names alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("sacct_ingest", "predictor", "slurm_plugin")
OWN = (*PRODUCT, "benchmarks", "packages", "scripts", "tests")
PATCHES = {"setattr", "delattr", "getattr", "hasattr", "patch", "object"}
#: Private names of others that have no public one.
EXCEPTIONS = {
    "_actions": "argparse lists the options of a parser nowhere else",
    "_fields": "the mark of a named tuple (collections.namedtuple documents it)",
}


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def of_others(tree: ast.AST) -> set[str]:
    """Names that an import binds to modules that are not the project's."""
    every = (alias for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names)
    return {
        alias.asname or alias.name.partition(".")[0]
        for alias in every
        if alias.name.partition(".")[0] not in OWN
    }


def private_uses(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each private name of something else that a file uses.

    An object's own, by ``self`` or ``cls``, and a module's, of another project, do not count.
    """
    tree = ast.parse(source)
    others = of_others(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name) if private(name):
                owner = value.id if isinstance(value, ast.Name) else ""
                if owner not in {"self", "cls", *others}:
                    yield node.lineno, name
            case ast.ImportFrom(module=str(module), names=names):
                package, *inner = module.split(".")
                if package in OWN:
                    # Modules that help several benchmarks begin with an underscore.
                    given = [one.name for one in names] if module != "benchmarks" else []
                    parts = [*inner, *given] if package in PRODUCT else given
                    yield from ((node.lineno, name) for name in parts if private(name))
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args) if (
                name in PATCHES
            ):
                texts = (one.value for one in args if isinstance(one, ast.Constant))
                for text in texts:
                    if isinstance(text, str) and text.replace(".", "a").isidentifier():
                        yield from ((node.lineno, one) for one in text.split(".") if private(one))


def files() -> list[Path]:
    folders = (ROOT / name for name in ("tests", "benchmarks"))
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def test_no_test_or_benchmark_uses_a_private_name():
    uses = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files()
        for line, name in private_uses(path.read_text())
        if name not in EXCEPTIONS
    ]
    assert uses == []
