"""Check a wheel and a source distribution against the tree they were built from.

check_packages.py TREE DIRECTORY: prints every mistake; the status is 1 if there is one.
"""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

# What a source distribution holds beside the package.
PAPERS = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "pyproject.toml",
    "requirements.lock",
    "requirements-postgres.lock",
    "Dockerfile",
    "compose.yaml",
    "deploy/holdgate.service",
    "deploy/haproxy.cfg",
    "deploy/nginx.conf",
    "docs/changelog.md",
    "scripts/serve",
    "scripts/setup",
)


def main(tree: Path, built: Path) -> int:
    """Check both packages; say what is wrong."""
    version = read_version(tree)
    wheel = built / f"holdgate-{version}-py3-none-any.whl"
    source = built / f"holdgate-{version}.tar.gz"
    missing = [f"{file.name} was not built" for file in (wheel, source) if not file.exists()]
    mistakes = missing or [
        *check_changelog(tree, version),
        *check_wheel(tree, wheel, version),
        *check_source(tree, source, version),
    ]
    for mistake in mistakes:
        print(f"Not released: {mistake}.", file=sys.stderr)
    return 1 if mistakes else 0


def read_version(tree: Path) -> str:
    """Return the version that the code says."""
    found = re.search(r'__version__ = "(.+)"', tree.joinpath("gateway/version.py").read_text())
    assert found
    return found[1]


def check_changelog(tree: Path, version: str) -> list[str]:
    """Look for the version and its date."""
    text = tree.joinpath("docs/changelog.md").read_text()
    dated = re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE)
    return [] if dated else [f"docs/changelog.md has no heading with a date for {version}"]


def list_package(tree: Path) -> set[str]:
    """Return all files of the package, those that are not Python included."""
    files = (path for path in tree.joinpath("gateway").rglob("*") if path.is_file())
    return {str(path.relative_to(tree)) for path in files if "__pycache__" not in path.parts}


def check_wheel(tree: Path, wheel: Path, version: str) -> list[str]:
    """Compare the files and the metadata of the wheel with the tree."""
    with zipfile.ZipFile(wheel) as archive:
        damaged = archive.testzip()
        there = {name for name in archive.namelist() if not name.endswith("/")}
        about = f"holdgate-{version}.dist-info"
        metadata = BytesParser().parsebytes(archive.read(f"{about}/METADATA"))
    wanted = list_package(tree)
    parts = {name for name in there if not name.startswith(f"{about}/")}
    mistakes = [f"{damaged} is damaged in the wheel"] if damaged else []
    mistakes += [f"{name} is not in the wheel" for name in sorted(wanted - parts)]
    mistakes += [
        f"{name} is in the wheel, but not in the package" for name in sorted(parts - wanted)
    ]
    if f"{about}/licenses/LICENSE" not in there:
        mistakes.append("the license is not in the wheel")
    return mistakes + check_metadata(tree, metadata, version)


def check_metadata(tree: Path, metadata: Message, version: str) -> list[str]:
    """Compare what the wheel says of itself with pyproject.toml."""
    project = tomllib.loads(tree.joinpath("pyproject.toml").read_text())["project"]
    said = {
        "Name": project["name"],
        "Version": version,
        "Summary": project["description"],
        "License-Expression": project["license"],
        "Author": project["authors"][0]["name"],
        "Requires-Python": project["requires-python"],
        "Description-Content-Type": "text/markdown",
    }
    mistakes = [
        f"the wheel says {name}: {metadata[name]}, not {value}"
        for name, value in said.items()
        if metadata[name] != value
    ]
    needed = [one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one]
    if {read_name(one) for one in needed} != {read_name(one) for one in project["dependencies"]}:
        mistakes.append("the wheel needs other packages than pyproject.toml names")
    if set(metadata.get_all("Classifier", [])) != set(project["classifiers"]):
        mistakes.append("the wheel has other classifiers than pyproject.toml")
    return mistakes


def read_name(requirement: str) -> str:
    """Return the name of a package from what is demanded of it."""
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def check_source(tree: Path, source: Path, version: str) -> list[str]:
    """Compare the files of the source distribution with the tree."""
    with tarfile.open(source) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    return [
        f"{name} is not in the source distribution"
        for name in sorted({*list_package(tree), *PAPERS} - there)
    ]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
