"""A test that hangs fails with a stack, and those after it run."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HANGING = """
import subprocess, threading
import anyio, pytest

@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request):
    return ("asyncio", {"use_uvloop": request.param})

@pytest.fixture
async def cleaned():
    yield
    await anyio.sleep(0)
    print("cleaned up")

async def wait_for_nothing():
    await anyio.Event().wait()

@pytest.mark.timeout(1)
async def test_waits(cleaned):
    await wait_for_nothing()

@pytest.mark.timeout(1)
async def test_computes():
    while True: pass

@pytest.mark.timeout(1)
async def test_ends_too_late():
    await anyio.to_thread.run_sync(threading.Event().wait, 1.5)

@pytest.mark.timeout(1)
def test_blocks():
    subprocess.run(["sleep", "60"])

def test_after_them():
    pass
"""
STUCK = """
import anyio, pytest

@pytest.fixture
async def stuck():
    yield
    with anyio.CancelScope(shield=True):
        await anyio.Event().wait()

async def test_stuck(stuck):
    pass

def test_after_it():
    pass
"""


def run_tests(place: Path, code: str, *options: str) -> str:
    file = place / "test_story.py"
    file.write_text(code)
    settings = ("-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest")
    plugins = ("-p", "no:cacheprovider", "-p", "no:schemathesis")
    result = subprocess.run(
        (sys.executable, "-m", "pytest", *settings, *plugins, "-rA", *options, str(file)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert result.returncode == 1, result.stderr
    return result.stdout + result.stderr


@pytest.mark.parametrize("how", [(), ("-n", "1")], ids=["alone", "with workers"])
def test_who_hangs_fails_alone(tmp_path: Path, how: tuple[str, ...]) -> None:
    said = run_tests(tmp_path, HANGING, *how)
    assert "7 failed, 1 passed" in said
    assert "PASSED" in said
    # Where it waited, and that its fixture came to its end.
    assert said.count("await anyio.Event().wait()") >= 2
    assert said.count("cleaned up") >= 2
    assert "while True: pass" in said
    assert 'subprocess.run(["sleep", "60"])' in said


def test_a_fixture_that_hangs_ends_its_process_alone(tmp_path: Path) -> None:
    said = run_tests(tmp_path, STUCK, "-n", "1", "-o", "faulthandler_timeout=3")
    assert "Timeout (0:00:03)!" in said
    assert "crashed while running" in said
    # What it counted before it hung is not taken back.
    assert "2 passed" in said
