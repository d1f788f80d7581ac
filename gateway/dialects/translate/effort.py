"""How much to think: the words of two dialects, the token budgets of the third.

| effort  | budget |
|---------|--------|
| none    | thinking is off |
| minimal | 1024   |
| low     | 2048   |
| medium  | 8192   |
| high    | 16384  |
| xhigh   | 32768  |
| max     | 65536  |

A budget between two rows is the word of the smaller one.
"""

from __future__ import annotations

from gateway.dialects.translate.json_node import JsonNode, Losses

BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}
EFFORTS = ("none", *BUDGETS)
SMALLEST_BUDGET = BUDGETS["minimal"]


def effort_word(node: JsonNode, name: str, losses: Losses) -> str:
    """Read how much to think; a word nobody knows is left out."""
    effort = node.text(name)
    if effort in EFFORTS:
        return effort
    if effort:
        losses.add(node.place(name))
    return ""


def effort_of(budget: int) -> str:
    """Return the word for a budget of tokens."""
    below = [effort for effort, least in BUDGETS.items() if least <= budget]
    return below[-1] if below else "minimal"


def budget_of(effort: str, max_tokens: int | None) -> int:
    """Return the budget for an effort, less than what the whole answer may take; 0 for none."""
    budget = BUDGETS.get(effort, 0)
    if max_tokens is not None:
        budget = min(budget, max_tokens - 1)
    return budget if budget >= SMALLEST_BUDGET else 0


def nearest(effort: str, understood: tuple[str, ...]) -> str:
    """Return the word that comes closest from below, or the least one; not to think has no other.

    Empty when it cannot be said.
    """
    if effort == "none" or effort in understood:
        return effort if effort in understood else ""
    words = [word for word in EFFORTS[1:] if word in understood]
    below = [word for word in words if EFFORTS.index(word) <= EFFORTS.index(effort)]
    return below[-1] if below else words[0]
