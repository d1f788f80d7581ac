"""Write the list of parts of a release (SBOM, CycloneDX 1.6) from the lock file.

write_sbom.py TREE DIRECTORY: the parts are the locked run-time packages with their hashes, and what
needs what. Licenses are read from the packages that are installed where this runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from check_packages import read_name, read_version

ROOT_NAME = "holdgate"
LONGEST_LICENSE_NAME = 60


@dataclass(slots=True)
class LockedPackage:
    """One package of a lock file."""

    name: str
    version: str
    marker: str
    hashes: list[str] = field(default_factory=list)
    needed_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        """Its name in the form that lists of parts use."""
        return f"pkg:pypi/{self.name}@{self.version}"


def main(tree: Path, built: Path) -> int:
    """Write the file beside the packages."""
    version = read_version(tree)
    packages = read_lock(tree.joinpath("requirements.lock").read_text())
    document = build_document(packages, version, built / f"{ROOT_NAME}-{version}-py3-none-any.whl")
    text = json.dumps(document, indent=2, ensure_ascii=False)
    built.joinpath(f"{ROOT_NAME}-{version}.cdx.json").write_text(f"{text}\n")
    return 0


def read_lock(text: str) -> list[LockedPackage]:
    """Read a lock file as pip-tools writes it."""
    packages: list[LockedPackage] = []
    for line in text.splitlines():
        if found := re.match(r"([\w.-]+)==(\S+)(?: ; (.+?))? \\$", line):
            packages.append(LockedPackage(read_name(found[1]), found[2], found[3] or ""))
        elif found := re.match(r"    --hash=sha256:([0-9a-f]{64})", line):
            packages[-1].hashes.append(found[1])
        elif found := re.match(r"    #(?: via)? +([\w.-]+)(?: \(pyproject\.toml\))?$", line):
            if found[1] != "via":
                packages[-1].needed_by.append(read_name(found[1]))
        elif line.strip() not in ("", "# via"):
            raise SystemExit(
                f"Not released: requirements.lock has a line that is not known: {line}"
            )
    return packages


def build_document(packages: list[LockedPackage], version: str, wheel: Path) -> dict[str, Any]:
    """Put the parts together in the form of CycloneDX."""
    root = LockedPackage(ROOT_NAME, version, "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same release has the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": read_build_time(),
            "component": {
                "type": "application",
                "bom-ref": root.purl,
                "name": ROOT_NAME,
                "version": version,
                "purl": root.purl,
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "licenses": [{"expression": "MIT"}],
            },
        },
        "components": [describe_package(package) for package in packages],
        "dependencies": [
            {
                "ref": one.purl,
                "dependsOn": [other.purl for other in packages if one.name in other.needed_by],
            }
            for one in (root, *packages)
        ],
    }


def describe_package(package: LockedPackage) -> dict[str, Any]:
    """Describe one part; its hashes are those of all its files, of which pip takes one."""
    properties = [{"name": "holdgate:lock:sha256", "value": value} for value in package.hashes]
    if package.marker:
        properties.append({"name": "holdgate:lock:marker", "value": package.marker})
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        **find_license(package),
        "properties": properties,
    }


def find_license(package: LockedPackage) -> dict[str, Any]:
    """Return the license that the installed package says, if it is this version."""
    try:
        said = metadata.metadata(package.name)
    except metadata.PackageNotFoundError:
        return {}
    if said["Version"] != package.version:
        return {}
    if expression := said.get("License-Expression"):
        return {"licenses": [{"expression": expression}]}
    classified = [
        line.rpartition(" :: ")[2]
        for line in said.get_all("Classifier", [])
        if line.startswith("License :: ")
    ]
    # Some packages have the whole text of the license there.
    name = said.get("License", "")
    names = [name] if name and len(name) < LONGEST_LICENSE_NAME else classified
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def read_build_time() -> str:
    """Return the time of the release, which is that of its commit."""
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
