"""The wheel alone, with the locked packages and nothing else, is a whole gateway."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.version import __version__
from tests.run import GatewayProcess

from .asking import open_stream
from .conftest import PIP, ROOT, make_environment, run, use_packages

PACKAGE = ROOT / "gateway"
IMPORT_ALL = """
import importlib, pkgutil, gateway
for module in pkgutil.walk_packages(gateway.__path__, "gateway."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            print(module.name, "needs", error.name)
print(gateway.__file__)
"""
READ_FILES = """
import hashlib, json, sys
from importlib.resources import files
names = json.loads(sys.argv[1])
print(json.dumps([hashlib.sha256(files("gateway").joinpath(n).read_bytes()).hexdigest() for n in names]))
"""


def environ_for(home: Path) -> dict[str, str]:
    """Return an environment in which nothing leads to the source tree."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "ROUTECODEX_CLOCK_NTP": "off"}


def run_python(installed: Path, home: Path, code: str, *arguments: str) -> str:
    result = subprocess.run(
        (installed / "bin/python", "-c", code, *arguments),
        cwd=home,
        env=environ_for(home),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def gate(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    home = tmp_path_factory.mktemp("home")
    command = (str(installed / "bin/holdgate"), "serve", "--port", "0", "--session-dir", "sessions")
    with GatewayProcess(command, home, environ_for(home), grace=20) as process:
        yield process


def test_it_streams(gate: GatewayProcess) -> None:
    with open_stream(gate.url, "Hello!") as pieces:
        assert len(list(pieces)) > 5


def test_it_holds_an_answer_until_a_reminder_is_due(gate: GatewayProcess) -> None:
    begun = time.monotonic()
    with open_stream(gate.url, "remind me in 2 seconds to drink tea", session="tea") as pieces:
        text = "".join(pieces)
    assert time.monotonic() - begun > 1.5
    assert "drink tea" in text.rpartition("\n\n")[2]


def test_every_path_is_served(gate: GatewayProcess) -> None:
    with httpx.Client(base_url=gate.url, trust_env=False) as client:
        document = client.get("/openapi.json").raise_for_status().json()
        paths = [p for p, routes in document["paths"].items() if "get" in routes and "{" not in p]
        statuses = {path: client.get(path).status_code for path in paths}
    assert len(paths) > 10
    # 307: it leads to the console. 400: it asks for a parameter.
    odd = {path: status for path, status in statuses.items() if status not in (200, 307, 400)}
    assert odd == {}


def test_the_console_opens(gate: GatewayProcess) -> None:
    html = {"accept": "text/html"}
    with httpx.Client(base_url=gate.url, trust_env=False, follow_redirects=True) as client:
        page = client.get("/", headers=html).raise_for_status()
        assert (page.url.path, page.headers["content-type"]) == (
            "/console/",
            "text/html; charset=utf-8",
        )
        names = re.findall(r'(?:src|href)="(/console/-/[^"]+)"', page.text)
        assert len(names) > 2
        base = "/".join(names[0].split("/")[:4])
        # All, also those that are loaded when somebody opens a page.
        folder = PACKAGE / "api" / "console"
        sources = [path for path in folder.rglob("*") if path.is_file()]
        assert len(sources) > len(names)
        for source in sources:
            served = client.get(f"{base}/{source.relative_to(folder)}").raise_for_status()
            if source.name != "index.html":
                assert served.content == source.read_bytes()
        assert client.get("/api/console/me").raise_for_status().json()["owner"] == "local"


def test_every_module_can_be_imported(installed: Path, tmp_path: Path) -> None:
    """All but what belongs to an extra."""
    *missing, place = run_python(installed, tmp_path, IMPORT_ALL).splitlines()
    postgres = [line for line in missing if line.startswith("gateway.stores.postgres.")]
    assert postgres
    assert all(line.endswith(" needs asyncpg") for line in postgres)
    assert [line for line in missing if line not in postgres] == [
        "gateway.tracing needs opentelemetry"
    ]
    assert place.startswith(str(installed))


@pytest.mark.parametrize("command", [("check",), ("serve", "--port", "0")], ids=lambda c: c[0])
def test_a_transport_that_is_not_installed_is_named_with_the_command_to_get_it(
    installed: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    config = tmp_path / "holdgate.toml"
    config.write_text(
        '[[upstreams]]\nid = "a"\nbase_url = "http://127.0.0.1:9/v1"\ntransport = "httpx2"\n'
    )
    result = subprocess.run(
        (installed / "bin/holdgate", *command, "--config", config),
        cwd=tmp_path,
        env=environ_for(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode != 0
    assert (
        "upstreams[0].transport: the package httpx2 is not installed; "
        "run: pip install 'holdgate[httpx2]'"
    ) in result.stdout + result.stderr


def test_every_file_that_is_not_code_is_there(installed: Path, tmp_path: Path) -> None:
    files = [path for path in PACKAGE.rglob("*") if path.is_file()]
    names = [str(p.relative_to(PACKAGE)) for p in files if p.suffix not in {".py", ".pyc"}]
    assert {"py.typed", "demo/phrases.toml", "api/console/index.html"} <= set(names)
    found = json.loads(run_python(installed, tmp_path, READ_FILES, json.dumps(names)))
    assert found == [sha256(PACKAGE / name) for name in names]


def sha256(file: Path) -> str:
    return run("sha256sum", file).split()[0]


def test_the_source_distribution_builds_and_installs_the_same(
    release: Path, wheelhouse: Path, installed: Path, tmp_path: Path
) -> None:
    (source,) = release.glob("dist/*.tar.gz")
    python = make_environment(tmp_path / "venv")
    install = (*PIP, "--python", python, "install", "--quiet", "--no-deps", source)
    run(*install, **use_packages(wheelhouse))
    assert list_installed(tmp_path / "venv") == list_installed(installed)
    # The packages it needs are those of the other environment.
    (ours,) = tmp_path.glob("venv/lib/python*/site-packages")
    (theirs,) = installed.glob("lib/python*/site-packages")
    ours.joinpath("needed.pth").write_text(f"{theirs}\n")
    command = (tmp_path / "venv/bin/holdgate", "--version")
    said = subprocess.run(command, env=environ_for(tmp_path), capture_output=True, text=True)
    assert said.stdout == f"holdgate {__version__}\n"


def list_installed(venv: Path) -> set[str]:
    (packages,) = venv.glob("lib/python*/site-packages")
    return {
        str(p.relative_to(packages)) for p in packages.glob("gateway/**/*") if p.suffix != ".pyc"
    }
