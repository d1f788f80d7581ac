"""Budgets as the configuration writes them: `20 USD/month`, `2M tokens/day`."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

MICROS = 1_000_000
FORMS = 'write it like "20 USD/month" or "2M tokens/day"'
NO_PIECES = "write a whole number of tokens"
NOTHING = "would refuse every request; to lock an owner out, remove its [[keys]]"
_BUDGET = re.compile(
    r"(\d{1,12})(?:\.(\d{1,6}))?\s*([kKmM]?)\s*(USD|usd|tokens)\s*/\s*(day|month)", re.ASCII
)
_THOUSANDS = {"": 1, "k": 1000, "m": 1_000_000}


class WrittenBudget(NamedTuple):
    """What may be spent: tokens, or millionths of a dollar, in a day or a month."""

    amount: int
    unit: Literal["USD", "tokens"]
    period: Literal["day", "month"]


def read_budget(text: str) -> WrittenBudget:
    """Read a budget, or raise `ValueError` saying how to write it."""
    found = _BUDGET.fullmatch(text.strip())
    if found is None:
        raise ValueError(FORMS)
    whole, fraction, thousands, unit, period = found.groups()
    scale = _THOUSANDS[thousands.lower()]
    micros = (int(whole) * MICROS + int((fraction or "").ljust(6, "0"))) * scale
    if unit == "tokens" and micros % MICROS:
        raise ValueError(NO_PIECES)
    if not micros:
        raise ValueError(NOTHING)
    in_tokens = unit == "tokens"
    return WrittenBudget(
        micros // MICROS if in_tokens else micros,
        "tokens" if in_tokens else "USD",
        "month" if period == "month" else "day",
    )
