"""Facts about the machine and the versions, without which numbers mean nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.processes import Cores
from bench.targets import NotInstalled, find

PACKAGES = ("holdgate", "uvloop", "httptools", "uvicorn", "starlette", "httpx", "msgspec")


def facts(cores: Cores, targets: Iterable[str]) -> dict[str, str]:
    """Return what a reader needs to know to compare these numbers with others."""
    found = {
        "processor": processor(),
        "cores": f"{os.cpu_count()}, load on {cores.load}, gateway on {cores.gateway}",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    found |= {package: found_version for package in PACKAGES if (found_version := of(package))}
    if "nginx" in targets:
        found["nginx"] = nginx_version()
    return found


def processor() -> str:
    """Return the processor's name as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def of(package: str) -> str | None:
    """Return the version of an installed package, if it is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def nginx_version() -> str:
    """Return the version that nginx tells of itself."""
    try:
        told = subprocess.run((find("nginx"), "-v"), capture_output=True, text=True, check=True)
    except (NotInstalled, OSError, subprocess.CalledProcessError):
        return "not installed"
    return told.stderr.rpartition("/")[2].strip()
