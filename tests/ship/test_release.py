"""scripts/release and scripts/audit: what they make, and what they say when something is missing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.version import __version__

from .conftest import LOCK, ROOT, use_packages

LOCKED = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
NAMES = {
    f"holdgate-{__version__}-py3-none-any.whl",
    f"holdgate-{__version__}.tar.gz",
    f"holdgate-{__version__}.cdx.json",
}
FAKE_AUDIT = """#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = --output ]; then report="$2"; fi
  shift
done
{action}
"""


@pytest.fixture(scope="module")
def parts(release: Path) -> dict[str, Any]:
    """The list of parts."""
    (file,) = release.glob("dist/*.cdx.json")
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def test_what_was_built_is_listed_with_size_and_hash(release: Path) -> None:
    listed = re.findall(
        r"^ *(\d+)  ([0-9a-f]{64})  (\S+)$", release.joinpath("said").read_text(), re.M
    )
    assert {name for _, _, name in listed} == NAMES
    for size, digest, name in listed:
        content = release.joinpath("dist", name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (int(size), digest)
    assert {path.name for path in release.glob("dist/*")} == {*NAMES, "SHA256SUMS"}
    assert "nothing was uploaded" in release.joinpath("said").read_text()


def test_every_locked_package_is_a_part(parts: dict[str, Any]) -> None:
    assert {part["name"]: part["version"] for part in parts["components"]} == LOCKED
    for part in parts["components"]:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert part["licenses"], part["name"]
        hashes = {p["value"] for p in part["properties"] if p["name"] == "holdgate:lock:sha256"}
        assert hashes
        assert all(f"sha256:{value}" in LOCK.read_text() for value in hashes)


def test_every_part_is_needed_by_another(parts: dict[str, Any]) -> None:
    known = {one["ref"] for one in parts["dependencies"]}
    needed = {other for one in parts["dependencies"] for other in one["dependsOn"]}
    root = parts["metadata"]["component"]["bom-ref"]
    assert known == {root, *(part["bom-ref"] for part in parts["components"])}
    assert needed == known - {root}


def test_the_form_is_that_of_cyclonedx(parts: dict[str, Any]) -> None:
    assert (parts["bomFormat"], parts["specVersion"], parts["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", parts["serialNumber"])
    assert parts["metadata"]["component"]["version"] == __version__


def run_script(*command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, "HOLDGATE_VENV": sys.prefix, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_missing_tool_is_said_and_nothing_is_built(tmp_path: Path) -> None:
    nowhere = use_packages(tmp_path)
    result = run_script(ROOT / "scripts/release", "--dirty", tmp_path / "dist", **nowhere)
    assert result.returncode == 1
    assert "the tools 'build' and 'setuptools' can not be installed" in result.stderr
    assert list(tmp_path.glob("dist/*")) == []
    audit = run_script(ROOT / "scripts/audit", **nowhere)
    assert audit.returncode == 3
    assert "Not audited: pip-audit can not be installed" in audit.stderr


CLEAN = {"name": "anyio", "version": "4.0", "vulns": []}
SKIPPED = {"name": "cronsim", "skip_reason": "not found"}
KNOWN = {"name": "h11", "version": "0.1", "vulns": [{"id": "ADV-1", "fix_versions": ["0.2"]}]}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([CLEAN], 0, "no known vulnerability in 1 packages"),
        ([CLEAN, KNOWN], 1, "h11 0.1: ADV-1, fixed in 0.2"),
        ([CLEAN, SKIPPED], 2, "does not know 1 of 2 packages: cronsim"),
        ([KNOWN, SKIPPED], 1, "does not know 1 of 2 packages: cronsim"),
        ([], 2, ""),
        (None, 2, "the source of advisories can not be reached"),
    ],
)
def test_the_audit_says_what_it_found_out(
    packages: list[dict[str, object]] | None, status: int, said: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"dependencies": packages}))
    action = f'cp {report} "$report"' if packages is not None else "echo no route; exit 1"
    fake = tmp_path / "pip-audit"
    fake.write_text(FAKE_AUDIT.format(action=action))
    fake.chmod(0o755)
    result = run_script(ROOT / "scripts/audit", HOLDGATE_PIP_AUDIT=str(fake))
    assert result.returncode == status, result.stderr
    assert said in result.stdout + result.stderr
