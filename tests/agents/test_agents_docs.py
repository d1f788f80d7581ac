"""The page about agents names every event, reason and code there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.agents import model as values
from gateway.api.chat import BUSY, BUSY_IN_CHINESE, ChatAnswer, ChatMessageBody

PAGE = Path(__file__).parents[2].joinpath("docs", "agents.md").read_text()
ROWS = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


def test_every_event_has_its_row() -> None:
    names = [name for name in vars(ChatAnswer) if not name.startswith("_")]
    assert {*names, "end"} <= set(ROWS)


def test_every_reason_has_its_row() -> None:
    reasons = ("COMPLETED", "LENGTH", "FILTERED", "TURNS", "TAKEN_OVER", "DRAINING")
    assert {getattr(values, name) for name in reasons} <= set(ROWS)


def test_every_member_has_its_row() -> None:
    assert set(ChatMessageBody.__struct_encode_fields__) <= set(ROWS)


@pytest.mark.parametrize("sentence", [BUSY, BUSY_IN_CHINESE])
def test_what_who_comes_too_early_reads(sentence: str) -> None:
    assert sentence in PAGE
