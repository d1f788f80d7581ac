"""The wheel runs by uvx, without being installed first, as docs/install.md shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.run import GatewayProcess

from .asking import open_stream
from .conftest import PIP, run, share


@pytest.fixture(scope="session")
def uvx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program uvx, from the package index that pip uses."""

    def make(place: Path) -> None:
        run(*PIP, "install", "--quiet", "--no-deps", "--target", place, "uv")

    return share(tmp_path_factory, "uv", make) / "bin/uvx"


def test_uvx_serves_and_streams(uvx: Path, wheel: Path, wheelhouse: Path, tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ROUTECODEX_CLOCK_NTP": "off",
        "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON": sys.executable,
    }
    # The locked packages, and nobody else is asked.
    packages = ("--no-index", "--find-links", str(wheelhouse))
    command = (str(uvx), *packages, "--from", str(wheel), "holdgate", "serve", "--port", "0")
    with GatewayProcess(command, tmp_path, environ, grace=20) as process:
        with open_stream(process.url, "Hello!") as pieces:
            assert len(list(pieces)) > 5
