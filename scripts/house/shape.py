"""Read the shape of `gateway/` from its source: sizes, names, comments. Nothing is imported.

- *code lines*: lines with at least one token that is no comment, without docstrings (and, as a
  second figure, with them);
- *comments*: lines with a `#` comment, per 100 code lines; as a second figure the lines of module
  docstrings beyond the first count as well, since hard files explain themselves there;
- *hardest files*: the twenty with the most branches (if, for, while, except, case, assert, with,
  conditional expressions, and/or, conditions of comprehensions);
- *participles*: see `names.py`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles

from names import is_participle

HARDEST = 20
MANY_ARGUMENTS = 8
MANY_ATTRIBUTES = 20
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.With,
    ast.AsyncWith,
    ast.Assert,
    ast.IfExp,
    ast.match_case,
)
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class SourceFile:
    """One module: what of it is code, and what is said about it."""

    module: str
    tree: ast.Module
    lines: int
    code: set[int]
    comments: set[int]
    docs: set[int] = field(default_factory=set)

    @property
    def code_lines(self) -> int:
        """How many lines are code, docstrings not among them."""
        return len(self.code - self.docs)

    @property
    def heading(self) -> int:
        """How many lines the module's docstring has beyond its first."""
        if ast.get_docstring(self.tree) is None:
            return 0
        first = self.tree.body[0]
        return (first.end_lineno or first.lineno) - first.lineno

    @cached_property
    def branches(self) -> int:
        """How many places there are at which it may go one way or another."""
        count = 0
        for node in ast.walk(self.tree):
            count += isinstance(node, BRANCHES)
            if isinstance(node, ast.BoolOp):
                count += len(node.values) - 1
            elif isinstance(node, ast.comprehension):
                count += len(node.ifs)
        return count


def read_files(tree: Path) -> list[SourceFile]:
    """Read all modules of the gateway in this tree."""
    return [read_file(path, tree) for path in sorted((tree / "gateway").rglob("*.py"))]


def read_file(path: Path, tree: Path) -> SourceFile:
    """Read one module."""
    text = path.read_text()
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    parsed = ast.parse(text)
    name = str(path.relative_to(tree))
    return SourceFile(name, parsed, len(text.splitlines()), code, comments, doc_lines(parsed))


def doc_lines(tree: ast.Module) -> set[int]:
    """Return the lines of all docstrings, and of texts that stand alone below a name."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


@dataclass(frozen=True)
class Shape:
    """All figures that are read from the source."""

    files: list[SourceFile]

    @property
    def code_lines(self) -> int:
        """Code lines, without docstrings."""
        return sum(file.code_lines for file in self.files)

    @property
    def code_lines_with_docstrings(self) -> int:
        """Lines that are neither blank nor comments alone."""
        return sum(len(file.code) for file in self.files)

    @cached_property
    def hardest(self) -> list[SourceFile]:
        """The files with the most branches, the worst first."""
        return sorted(self.files, key=lambda file: -file.branches)[:HARDEST]

    @cached_property
    def functions(self) -> list[tuple[SourceFile, Function]]:
        """All functions and methods, those within others as well."""
        return [
            (file, node)
            for file in self.files
            for node in ast.walk(file.tree)
            if isinstance(node, Function)
        ]

    @cached_property
    def classes(self) -> list[tuple[SourceFile, ast.ClassDef]]:
        """All classes."""
        return [
            (file, node)
            for file in self.files
            for node in ast.walk(file.tree)
            if isinstance(node, ast.ClassDef)
        ]

    @cached_property
    def shared_class_names(self) -> dict[str, list[str]]:
        """The names that classes of two or more modules have, with the modules."""
        modules: dict[str, set[str]] = defaultdict(set)
        for file, node in self.classes:
            modules[node.name].add(file.module)
        twice = {name: sorted(where) for name, where in modules.items() if len(where) > 1}
        return dict(sorted(twice.items(), key=lambda item: (-len(item[1]), item[0])))

    @cached_property
    def participles(self) -> dict[str, list[str]]:
        """The functions that are called by a participle, by module."""
        found: dict[str, list[str]] = defaultdict(list)
        for file, node in self.functions:
            if not is_value(node) and is_participle(node.name):
                found[file.module].append(f"{node.name}:{node.lineno}")
        return dict(found)

    @cached_property
    def many_arguments(self) -> list[str]:
        """The classes whose constructor is written and takes many arguments."""
        found = []
        for file, node in self.classes:
            for function in node.body:
                if isinstance(function, Function) and function.name == "__init__":
                    takes = len(function.args.args) + len(function.args.kwonlyargs) - 1
                    if takes > MANY_ARGUMENTS:
                        found.append(f"{file.module}:{node.name} {takes}")
        return found

    @cached_property
    def many_attributes(self) -> list[str]:
        """The classes whose instances have many attributes."""
        counted = [(file, node, len(attributes_of(node))) for file, node in self.classes]
        found = [entry for entry in counted if entry[2] > MANY_ATTRIBUTES]
        found.sort(key=lambda entry: -entry[2])
        return [f"{file.module}:{node.name} {count}" for file, node, count in found]

    def figures(self) -> dict[str, float]:
        """Return all of it as numbers by name."""
        sizes = [file.lines for file in self.files]
        lengths = [(node.end_lineno or 0) - node.lineno + 1 for _, node in self.functions]
        return {
            "files": len(self.files),
            "lines": sum(sizes),
            "code lines": self.code_lines,
            "code lines with docstrings": self.code_lines_with_docstrings,
            "file median": median(sizes),
            "file p90": round(quantiles(sizes, n=10)[-1]),
            "file max": max(sizes),
            "function median": median(lengths),
            "function p90": round(quantiles(lengths, n=10)[-1]),
            "comments per 100": per_hundred(self.files),
            "comments per 100, hardest": per_hundred(self.hardest),
            "comments and headings per 100": per_hundred(self.files, headings=True),
            "comments and headings per 100, hardest": per_hundred(self.hardest, headings=True),
            "classes": len(self.classes),
            "class names in two modules": len(self.shared_class_names),
            "participle functions": sum(map(len, self.participles.values())),
            "constructors with > 8 arguments": len(self.many_arguments),
            "classes with > 20 attributes": len(self.many_attributes),
        }

    def lists(self) -> dict[str, list[str]]:
        """Return what is behind the numbers."""
        shared = self.shared_class_names.items()
        participles = sorted(self.participles.items(), key=lambda item: -len(item[1]))
        return {
            "class names in two modules": [f"{name}: {' '.join(where)}" for name, where in shared],
            "participle functions": [
                f"{module} {len(names)}: {' '.join(names)}" for module, names in participles
            ],
            "hardest files": [
                f"{file.module}: {file.branches} branches, {file.code_lines} code lines, "
                f"{per_hundred([file])} comments, "
                f"{per_hundred([file], headings=True)} with the heading, per 100"
                for file in self.hardest
            ],
            "constructors with > 8 arguments": self.many_arguments,
            "classes with > 20 attributes": self.many_attributes,
        }


def per_hundred(files: list[SourceFile], *, headings: bool = False) -> float:
    """Return the comment lines per 100 code lines of these files."""
    said = sum(len(file.comments) + (file.heading if headings else 0) for file in files)
    return round(100 * said / max(1, sum(file.code_lines for file in files)), 1)


def is_value(function: Function) -> bool:
    """Tell whether the function is read like an attribute."""
    names = {ast.unparse(node).rpartition(".")[2] for node in function.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def attributes_of(node: ast.ClassDef) -> set[str]:
    """Return the fields of a class, and what its methods set on `self`."""
    found = {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for item in ast.walk(node):
        if (
            isinstance(item, ast.Attribute)
            and isinstance(item.ctx, ast.Store)
            and isinstance(item.value, ast.Name)
            and item.value.id == "self"
        ):
            found.add(item.attr)
    return found
