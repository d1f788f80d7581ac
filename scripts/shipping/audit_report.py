"""Read a report of pip-audit: audit_report.py LOCK REPORT OUTPUT; see scripts/audit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CLEAN, VULNERABLE, NOT_AUDITED = 0, 1, 2


def main(lock: str, report: Path, output: Path) -> int:
    """Say what was found out about the packages of a lock file."""
    try:
        packages = json.loads(report.read_text())["dependencies"]
    except (OSError, ValueError, KeyError):
        last = (output.read_text().strip().splitlines() or ["pip-audit said nothing"])[-1]
        print(f"Not audited: {lock}: the source of advisories can not be reached.", file=sys.stderr)
        print(f"  {last[:300]}", file=sys.stderr)
        return NOT_AUDITED
    found = [line for package in packages for line in describe_vulnerabilities(package)]
    # pip-audit counts what it could not look up as fine.
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped:
        print(
            f"Not audited: {lock}: the source of advisories does not know {len(skipped)} of "
            f"{len(packages)} packages: {', '.join(skipped)}.",
            file=sys.stderr,
        )
    if found:
        print(f"{lock}: {len(found)} known vulnerabilities:", *found, sep="\n  ")
        return VULNERABLE
    if skipped or not packages:
        return NOT_AUDITED
    print(f"{lock}: no known vulnerability in {len(packages)} packages.")
    return CLEAN


def describe_vulnerabilities(package: dict[str, Any]) -> list[str]:
    """Write one line for each known vulnerability of a package."""
    return [
        f"{package['name']} {package['version']}: {known['id']}, "
        f"fixed in {', '.join(known['fix_versions']) or 'no version yet'}"
        for known in package.get("vulns", ())
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
