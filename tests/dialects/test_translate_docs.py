"""The page on translation says what the code does."""

import re
from pathlib import Path

from gateway.dialects.profiles import PROFILES
from gateway.dialects.translate.effort import BUDGETS
from gateway.dialects.translate.messages_request_writer import MAX_TOKENS
from gateway.dialects.translate.responses_request_reader import KEPT_ELSEWHERE, KEPT_ITEMS
from gateway.dialects.translate.responses_request_writer import LEAST_TOKENS

PAGE = Path(__file__).parents[2].joinpath("docs/translation.md").read_text()


def test_the_table_of_efforts() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|$", PAGE, re.MULTILINE)
    assert {effort: int(budget) for effort, budget in rows} == BUDGETS


def test_every_profile_is_there() -> None:
    section = PAGE.partition("## Profiles")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
    named = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert named == PROFILES.keys() - {""}


def test_the_limits_and_refusals() -> None:
    assert f"{MAX_TOKENS} if absent" in PAGE
    assert f"at least {LEAST_TOKENS}" in PAGE
    for name in (*KEPT_ELSEWHERE, *KEPT_ITEMS):
        assert f"`{name}`" in PAGE
