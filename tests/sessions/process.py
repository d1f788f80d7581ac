"""The gateway as a process that can be killed at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.run import GatewayProcess, as_process


def process(home: Path, settings: Mapping[str, str]) -> GatewayProcess:
    """Start a gateway that keeps its sessions in files below its home; kill it in the end."""
    common = {
        "HOLDGATE_SERVER__SESSION_DIR": str(home / "sessions"),
        "HOLDGATE_SERVER__LOG_FORMAT": "json",
        "HOLDGATE_CLOCK__ENABLED": "false",
    }
    return as_process(home, {**common, **settings})
