"""The container image: how it is written, and that what it starts serves, is healthy, and drains."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from .asking import open_stream
from .conftest import ROOT
from .containers import (
    ChrootBuilder,
    ChrootContainer,
    Container,
    build_with_docker,
    has_chroot,
    has_docker,
    run_in_chroot,
    run_with_docker,
)
from .dockerfile import DOCKERFILE, list_context, read_stages

STAGES = read_stages(DOCKERFILE.read_text())
LAST = STAGES[-1]
STEPS = [step for stage in STAGES for step in stage.steps]
KEY = "canary-key"
SETTINGS = {
    "HOLDGATE_KEYS": '[{"owner": "me", "key_env": "GATEWAY_KEY"}]',
    "GATEWAY_KEY": KEY,
    "ROUTECODEX_CLOCK_NTP": "off",
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, wheelhouse: Path) -> Iterator[Path | None]:
    """The root of the last stage; None where Docker keeps it."""
    if has_docker():
        yield None
        return
    if not has_chroot():
        pytest.fail(
            "This test needs a Docker engine, or root with the right to mount.", pytrace=False
        )
    place = tmp_path_factory.mktemp("image")
    yield ChrootBuilder(place, wheelhouse).build(STAGES)
    shutil.rmtree(place)


def start(image: Path | None, home: Path) -> AbstractContextManager[Container]:
    """Run a container of the image."""
    if image is None:
        return run_with_docker(LAST, SETTINGS)
    return run_in_chroot(image, LAST, home, SETTINGS)


@pytest.fixture(scope="module")
def container(image: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container for all tests that leave it running."""
    with start(image, tmp_path_factory.mktemp("run")) as running:
        yield running


def test_it_has_no_rights(container: Container) -> None:
    status = dict(re.findall(r"^(\w+):\t(.*)$", container.read_proc("status"), re.MULTILINE))
    assert set(status["Uid"].split()) == {"10001"}
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
    assert status["NoNewPrivs"] == "1"
    mounts = [line.split() for line in container.read_proc("mountinfo").splitlines()]
    assert ["ro" in mount[5].split(",") for mount in mounts if mount[4] == "/"][-1:] == [True]
    if not isinstance(container, ChrootContainer):
        # Docker mounts some files of its own below /etc.
        return
    writable = {mount[4] for mount in mounts if "rw" in mount[5].split(",")}
    assert {place for place in writable if not place.startswith(("/dev", "/proc"))} == {
        LAST.only("VOLUME").exec_form[0]
    }


def test_a_large_request_needs_no_writable_directory(container: Container) -> None:
    # It is handled in a helper process.
    with open_stream(container.url, "demo: tokens=3\n" + "word " * 60_000, KEY) as pieces:
        assert len(list(pieces)) == 3


def test_state_goes_to_the_volume(container: Container) -> None:
    with open_stream(container.url, "remind me in 90 seconds to drink tea", KEY, "tea") as pieces:
        next(pieces)
    reminders = httpx.get(
        f"{container.url}/api/sessions/tea/reminders",
        headers={"authorization": f"Bearer {KEY}"},
        trust_env=False,
    )
    assert "drink tea" in reminders.text
    if isinstance(container, ChrootContainer):
        assert list(container.process.home.glob("volume/sessions/clock/tea*.json"))


def test_it_does_not_start_without_keys(image: Path | None, tmp_path: Path) -> None:
    if image is None:
        started = subprocess.run(
            ("docker", "run", "--rm", build_with_docker()), capture_output=True, text=True
        )
        assert started.returncode != 0
        assert "keys" in started.stderr
        return
    with pytest.raises(AssertionError, match="keys"):
        run_in_chroot(image, LAST, tmp_path, {}).__enter__()


def test_it_is_healthy_until_it_has_drained(image: Path | None, tmp_path: Path) -> None:
    with start(image, tmp_path) as container:
        assert container.check_health() == 0
        assert httpx.get(f"{container.url}/v1/models", trust_env=False).status_code == 401
        with open_stream(container.url, "demo: tokens=30 delay_ms=50", KEY) as pieces:
            first = next(pieces)
            container.terminate()
            rest = list(pieces)
        # Not one token is missing, and the end was proper.
        assert len([first, *rest]) == 30
        assert container.wait() == 0
        assert container.check_health() != 0


class TestForm:
    """The rules that the Dockerfile and what goes with it keep."""

    def test_the_base_is_pinned_and_small(self) -> None:
        assert {stage.base for stage in STAGES} == {STAGES[0].base}
        # No host before the name, and a tag that says the whole version and the release of Debian.
        assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", STAGES[0].base)

    def test_the_base_is_a_python_that_we_support(self) -> None:
        minor = re.findall(r"3\.\d+", STAGES[0].base)[0]
        project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
        assert f"Programming Language :: Python :: {minor}" in project["classifiers"]

    def test_it_has_two_stages_and_the_last_installs_nothing(self) -> None:
        assert len(STAGES) == 2
        assert not [step for step in LAST.find("RUN") if re.search(r"pip|apt", step.value)]

    def test_it_does_not_run_as_root(self) -> None:
        user, group = LAST.only("USER").value.split(":")
        assert int(user) > 1000
        assert int(group) > 1000
        names = [step.name for step in LAST.steps]
        assert "RUN" not in names[names.index("USER") :]

    @pytest.mark.parametrize("name", ["ENTRYPOINT", "CMD", "HEALTHCHECK"])
    def test_commands_run_without_a_shell(self, name: str) -> None:
        assert LAST.only(name).exec_form

    def test_nothing_is_fetched_by_address(self) -> None:
        assert not [step for step in STEPS if step.name == "ADD"]
        assert "://" not in DOCKERFILE.read_text()

    def test_packages_are_checked_by_hash_or_are_ours(self) -> None:
        installs = [
            step.value for step in STEPS if " install " in step.value and "pip" in step.value
        ]
        assert len(installs) == 2
        assert all("--require-hashes" in one or "--no-deps ." in one for one in installs)

    def test_no_secret_is_in_it(self) -> None:
        names = [
            word.partition("=")[0] for s in STEPS if s.name in ("ENV", "ARG") for word in s.words
        ]
        assert not [n for n in names if re.search("KEY|TOKEN|SECRET|PASSWORD", n)]
        assert {path.name for path in list_context()} == {
            *(
                "requirements-postgres.lock",
                "pyproject.toml",
                "MANIFEST.in",
                "README.md",
                "LICENSE",
                "gateway",
            )
        }

    def test_all_state_is_in_the_volume(self) -> None:
        (volume,) = LAST.only("VOLUME").exec_form
        assert LAST.environment["HOLDGATE_SESSION_DIR"].startswith(f"{volume}/")
        assert LAST.environment["HOME"] == volume
