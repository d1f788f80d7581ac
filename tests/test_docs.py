"""The docs cannot lie about what is easily checked: links, lengths, commands, machine paths."""

import re
from pathlib import Path

import pytest

from gateway.config import load

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted(ROOT.joinpath("docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert page.parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        there = page.parent.joinpath(target) if target else page
        titles = re.findall(r"^#+ (.+)$", there.read_text(), re.MULTILINE)
        assert anchor in {slug(title) for title in titles}, f"{target}#{anchor}"


def slug(title: str) -> str:
    """Write a heading as links name it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_the_readme_is_short_and_names_the_two_commands() -> None:
    text = ROOT.joinpath("README.md").read_text()
    assert len(text.splitlines()) < 150
    assert "scripts/serve" in text
    assert "scripts/test" in text


def test_every_page_is_reachable_from_the_index() -> None:
    index = ROOT.joinpath("docs/README.md").read_text()
    for page in ROOT.joinpath("docs").glob("*.md"):
        if page.name != "README.md":
            assert f"({page.name})" in index, page.name


CODE_PAGES = [ROOT / "docs/contributing.md", *sorted(ROOT.glob("docs/decisions/*.md"))]


@pytest.mark.parametrize("page", CODE_PAGES, ids=lambda p: p.stem)
def test_files_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`((?:gateway|tests|scripts|bench)/[\w/.]*)`", page.read_text()):
        assert ROOT.joinpath(name).exists(), name


def test_the_guide_names_what_is_in_the_files() -> None:
    text = ROOT.joinpath("docs/contributing.md").read_text()
    steps = re.findall(r"`(gateway/[\w/]+\.py)`\s+`([\w.]+)`", text)
    rows = re.findall(r"^\| (`.+?`) \| (`gateway/.+?`) \|", text, re.MULTILINE)
    assert len(steps) > 20
    assert len(rows) > 40
    for file, name in steps:
        for part in name.split("."):
            assert part in defined(file), f"{file} {name}"
    for words, files in rows:
        known = set().union(*[defined(file) for file in re.findall(r"`(.+?)`", files)])
        assert set(re.findall(r"`(.+?)`", words)) <= known, words


def defined(file: str) -> set[str]:
    """Return the names of classes, functions and module values that a file defines."""
    code = ROOT.joinpath(file).read_text()
    found = re.findall(r"^\s*(?:class|(?:async )?def) (\w+)|^(\w+)(?::| =)", code, re.MULTILINE)
    return {inner or value for inner, value in found}


def test_every_decision_is_linked() -> None:
    guide = ROOT.joinpath("docs/contributing.md").read_text()
    for page in ROOT.glob("docs/decisions/*.md"):
        assert f"(decisions/{page.name})" in guide, page.name


def test_the_version_is_in_the_changelog() -> None:
    version = re.search(r"__version__ = \"(.+)\"", ROOT.joinpath("gateway/version.py").read_text())
    assert version
    assert f"## {version[1]}" in ROOT.joinpath("docs/changelog.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_placeholder_is_left(page: Path) -> None:
    assert not re.search(r"@[A-Z]+@|TODO|FIXME", page.read_text())


@pytest.mark.parametrize(
    "page", ["README.md", "README.zh-CN.md", "docs/quickstart.md", "docs/quickstart.zh-CN.md"]
)
def test_reminders_of_ones_own_upstream_come_on_time(page: str, tmp_path: Path) -> None:
    configurations = re.findall(r"```toml\n(.*?)```", ROOT.joinpath(page).read_text(), re.DOTALL)
    file = tmp_path / "holdgate.toml"
    file.write_text(next(one for one in configurations if "[[upstreams]]" in one))
    environ = {"OPENAI_API_KEY": "k", "MY_KEY": "k"}
    assert load(file, environ, {}, tmp_path).clock.due_window_ms == 0


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_it_is_said_what_is_added_and_how_to_turn_it_off(page: str) -> None:
    text = ROOT.joinpath(page).read_text()
    assert "(docs/clock.md#what-the-gateway-adds-to-a-request)".removeprefix("(docs/") in text
    for switch in ("`enabled = false` in `[clock]`", "`clock = false`", "`x-holdgate-clock: off`"):
        assert switch in text


def test_the_figures_of_many_holds_are_those_that_were_measured() -> None:
    measured = ROOT.joinpath("docs/benchmarks/holds.md").read_text()
    figures = dict(re.findall(r"^\| all due at once: (.+), s \| ([\d.]+) \|$", measured, re.M))
    readme = ROOT.joinpath("README.md").read_text()
    assert f"hold ends after | – | {float(figures['the last is let go after']):.1f} s" in readme
    assert f"answer ends after | – | {figures['the last answer ends after']} s" in readme
