"""A translation has the commands, links, names and figures of its original."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import FENCE, ROOT, TRANSLATED, read_blocks

TRANSLATIONS = sorted([*ROOT.glob(f"*{TRANSLATED}"), *ROOT.glob(f"docs/**/*{TRANSLATED}")])
COMMENT = re.compile(r"\s+#.*$", re.MULTILINE)
# What a person says to a model or a schedule, which is said in the language of the page.
SAID = re.compile(r'("(?:content|message|schedule_text)": ?)"[^"]*"')
WORDS = re.compile(r"[^\x00-\x7f…]")

pages = pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)


def original_of(page: Path) -> Path:
    return page.with_name(page.name.replace(TRANSLATED, ".md"))


def prose_of(page: Path) -> str:
    """Return a page without its examples."""
    return FENCE.sub("", page.read_text())


def commands_of(page: Path) -> list[tuple[str, str, str, str]]:
    """Return the examples of a page, without what may differ between languages."""
    return [
        (block.language, block.mark, block.about, SAID.sub(r"\1", COMMENT.sub("", block.code)))
        for block in read_blocks(page)
    ]


def links_of(page: Path) -> list[str]:
    """Return where a page links to, except to the same page in another language."""
    own = {page.name, original_of(page).name, page.name.replace(".md", TRANSLATED)}
    found = re.findall(r"\]\(([^)]+)\)", prose_of(page))
    links = [link.replace(TRANSLATED, ".md") for link in found if link not in own]
    # Anchors into a translation are in its language.
    return sorted(link.partition("#")[0] if "quickstart" in link else link for link in links)


def names_of(page: Path) -> set[str]:
    """Return what stands in the text as code."""
    return set(re.findall(r"`([^`\n]+)`", prose_of(page)))


def numbers_of(page: Path) -> set[str]:
    """Return all numbers of the text, except those in names, links and the words between them."""
    text = re.sub(r"`[^`\n]+`|\]\([^)]+\)", "", prose_of(page))
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def test_there_are_translations() -> None:
    names = [str(page.relative_to(ROOT)) for page in TRANSLATIONS]
    assert names == ["README.zh-CN.md", "docs/quickstart.zh-CN.md"]


@pages
def test_original_and_translation_link_to_each_other(page: Path) -> None:
    index = {"README.md": "README.md"}.get(original_of(page).name, "docs/README.md")
    assert f"({page.name})" in ROOT.joinpath(index).read_text()
    assert f"[English]({original_of(page).name})" in page.read_text()


@pages
def test_the_commands_are_those_of_the_original(page: Path) -> None:
    assert commands_of(page) == commands_of(original_of(page))


@pages
def test_the_headings_are_those_of_the_original(page: Path) -> None:
    levels = [
        re.findall(r"^(#+) ", prose_of(one), re.MULTILINE) for one in (page, original_of(page))
    ]
    assert levels[0] == levels[1]


@pages
def test_the_links_are_those_of_the_original(page: Path) -> None:
    assert links_of(page) == links_of(original_of(page))


@pages
def test_the_names_are_those_of_the_original(page: Path) -> None:
    names, original = names_of(page), names_of(original_of(page))
    said = {name for name in names if WORDS.search(name)}
    assert names - said <= original
    # Each thing that is said in another language stands for one of the original.
    assert len(original - names) == len(said)


@pages
def test_the_numbers_are_those_of_the_original(page: Path) -> None:
    assert numbers_of(page) == numbers_of(original_of(page))


def test_the_figures_are_those_of_the_original() -> None:
    def figures(page: str) -> list[list[str]]:
        rows = re.findall(r"^\| .*[µ×–].* \|$", ROOT.joinpath(page).read_text(), re.MULTILINE)
        return [row.split("|")[2:] for row in rows]

    assert len(figures("README.md")) == 8
    assert figures("README.zh-CN.md") == figures("README.md")


@pages
def test_chinese_paragraphs_are_not_broken_into_lines(page: Path) -> None:
    # A line break is shown as a space, which Chinese does not have between words.
    broken = re.findall(r"[^\x00-\x7f]\n(?:  )?[^\x00-\x7f\s]", prose_of(page))
    assert broken == []
