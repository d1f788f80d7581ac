"""License, security policy, changelog, metadata and compose file agree with the code."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import yaml

from gateway.config import load
from gateway.version import __version__

from .conftest import LOCK, POSTGRES_LOCK, ROOT
from .dockerfile import DOCKERFILE, read_stages

PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
CHANGELOG = ROOT.joinpath("docs/changelog.md").read_text()
HEADINGS = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)


def test_the_license_is_what_the_metadata_says() -> None:
    text = ROOT.joinpath("LICENSE").read_text()
    assert text.startswith(f"{PROJECT['license']} License\n")
    (author,) = PROJECT["authors"]
    assert author["name"] == "Holdgate contributors"
    assert author["name"] in text


def test_the_metadata_names_no_home_yet() -> None:
    assert "urls" not in PROJECT
    assert "no address for reports yet" in ROOT.joinpath("SECURITY.md").read_text()


def test_what_is_supported_is_classified() -> None:
    lowest = PROJECT["requires-python"].removeprefix(">=")
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert versions[0] == lowest
    assert versions == sorted(versions)
    install = ROOT.joinpath("docs/install.md").read_text()
    assert f"Python {lowest} or newer" in install
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_changelog_has_dates_and_a_place_for_what_comes() -> None:
    assert HEADINGS[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", one) for one in HEADINGS[1:])
    assert HEADINGS[1].split()[0] == __version__
    dates = [one.split()[-1] for one in HEADINGS[1:]]
    assert dates == sorted(dates, reverse=True)
    assert "docs/changelog.md" in ROOT.joinpath("CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", ["docs/install.md", "docs/upgrade.md"])
def test_pages_name_files_of_this_version(page: str) -> None:
    text = ROOT.joinpath(page).read_text()
    assert set(re.findall(r"holdgate-(\d+\.\d+\.\d+)", text)) <= {__version__}


def test_the_lock_with_postgresql_has_only_its_driver_beside_the_others() -> None:
    own, more = (re.split(r"\n(?=\S)", one.read_text().strip()) for one in (LOCK, POSTGRES_LOCK))
    (added,) = set(more) - set(own)
    assert set(own) < set(more)
    # The tests run with the same one.
    assert added in ROOT.joinpath("requirements-dev.lock").read_text()
    assert added.startswith("asyncpg==")


def test_every_dependency_is_locked() -> None:
    locked = set(re.findall(r"^([\w.-]+)==", LOCK.read_text(), re.MULTILINE))
    needed = {re.split(r"[<>=;~! ]", one)[0] for one in PROJECT["dependencies"]}
    assert needed <= locked


class TestCompose:
    """The compose file starts one gateway, with few rights, for this machine only."""

    @pytest.fixture
    def services(self) -> dict[str, Any]:
        document = yaml.safe_load(ROOT.joinpath("compose.yaml").read_text())
        found: dict[str, Any] = document["services"]
        assert set(document["volumes"]) == {"state", "database"}
        return found

    @pytest.fixture
    def gateway(self, services: dict[str, Any]) -> dict[str, Any]:
        service: dict[str, Any] = services["gateway"]
        return service

    def test_the_database_is_only_there_if_it_is_wanted(self, services: dict[str, Any]) -> None:
        (database,) = [one for name, one in services.items() if name != "gateway"]
        assert database["profiles"] == ["postgres"]
        # Nobody but the gateway reaches it.
        assert "ports" not in database
        wanted = "HOLDGATE_STORE_URL=postgresql://holdgate@database/holdgate"
        assert wanted in ROOT.joinpath("docs/install.md").read_text()
        environ = services["gateway"]["environment"]
        assert environ["HOLDGATE_STORE__URL"] == "${HOLDGATE_STORE_URL:-}"
        settings = {
            "HOLDGATE_STORE__URL": wanted.partition("=")[2],
            "HOLDGATE_SERVER__WORKERS": "2",
        }
        assert load(None, settings, {}).server.workers == 2
        assert load(None, {"HOLDGATE_STORE__URL": ""}, {}).store.url == ""

    def test_it_gives_few_rights(self, gateway: dict[str, Any]) -> None:
        assert gateway["read_only"] is True
        assert gateway["cap_drop"] == ["ALL"]
        assert gateway["security_opt"] == ["no-new-privileges:true"]

    def test_it_is_for_this_machine(self, gateway: dict[str, Any]) -> None:
        last = read_stages(DOCKERFILE.read_text())[-1]
        port = last.environment["HOLDGATE_SERVER__PORT"]
        assert gateway["ports"] == [f"127.0.0.1:{port}:{port}"]

    def test_its_state_is_kept(self, gateway: dict[str, Any]) -> None:
        (volume,) = read_stages(DOCKERFILE.read_text())[-1].only("VOLUME").exec_form
        assert f"state:{volume}" in gateway["volumes"]

    def test_it_waits_longer_than_a_drain_takes(self, gateway: dict[str, Any]) -> None:
        drain_ms = load(None, {}, {}).server.drain_ms
        assert int(gateway["stop_grace_period"].removesuffix("s")) * 1000 > drain_ms

    def test_it_has_a_key_that_somebody_must_set(self, gateway: dict[str, Any]) -> None:
        environ = gateway["environment"]
        (key,) = json.loads(environ["HOLDGATE_KEYS"])
        assert environ[key["key_env"]].startswith("${HOLDGATE_KEY:?")
        config = load(
            None, {"HOLDGATE_KEYS": environ["HOLDGATE_KEYS"], key["key_env"]: "secret"}, {}
        )
        assert [one.owner for one in config.keys] == [key["owner"]]
