"""Usage over REST: what an owner used, or with an admin's key what all did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.api.admission import Keys, Owner, incoming_of
from gateway.api.route import ApiRoute, Parameter, bind_all
from gateway.errors import BadRequest, Forbidden
from gateway.timestamps import Timestamp, iso, start_of_hour
from gateway.usage.limits_model import BudgetStatus, Unit
from gateway.usage.meter import UsageMeter
from gateway.usage.model import (
    GROUPS,
    NO_USAGE,
    Group,
    RowKey,
    UsageCounts,
    UsageQuery,
    end_of_hour,
    read_time,
    sort_groups,
    start_of_month,
)

PATH = "/api/usage"
MOST_GROUPS = 5000
MICROS = 1_000_000


class UsageGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was used, by what it is grouped by; without groups all of it."""

    owner: str | UnsetType = UNSET
    model: Annotated[str, Meta(description="As clients call it.")] | UnsetType = UNSET
    upstream: str | UnsetType = UNSET
    hour: Annotated[Timestamp, Meta(description="When it began, UTC.")] | UnsetType = UNSET
    exchanges: int
    turns: Annotated[int, Meta(description="Answers of upstreams, also those that broke off.")]
    reported_turns: Annotated[int, Meta(description="Turns whose upstream reported tokens.")]
    input_tokens: Annotated[int, Meta(description="All of the prompts, cached or not.")]
    cached_tokens: Annotated[int, Meta(description="The part of them that was cached.")]
    output_tokens: Annotated[int, Meta(description="All of the answers, with reasoning.")]
    reasoning_tokens: Annotated[int, Meta(description="The part of them that is reasoning.")]
    cost_usd: Annotated[
        float | None,
        Meta(description="The cost of models with a price; null if no tokens of one were used."),
    ]


class BudgetUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of an owner's budget is spent in the present day or month."""

    limit: float
    spent: float
    unit: Unit
    resets_at: Annotated[Timestamp, Meta(description="When it begins again.")]


class UsageReport(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_time": "from"}
):
    """What was used from one full hour until before another, in the order of the groups."""

    data: list[UsageGroup]
    from_time: Timestamp
    to: Timestamp
    budget: Annotated[
        BudgetUse | None,
        Meta(description="The owner's, as of now; null without one, and for all owners together."),
    ]


@dataclass(frozen=True, slots=True)
class UsageArea:
    """The route about usage; each owner sees only their own, an admin sees all."""

    meter: UsageMeter
    keys: Keys
    now_ms: Callable[[], int]
    find_budget: Callable[[str], BudgetStatus | None]

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def show(self, request: WebRequest) -> UsageReport:
        """Show what you used; with an admin's key, what all owners used."""
        incoming = incoming_of(request.scope)
        owner = self.keys.owner(incoming)
        incoming.owner = owner.name
        query = _read_query(request, owner, self.now_ms())
        found = await self.meter.read(query)
        if len(found) > query.most:
            raise BadRequest(
                f"There are more than {query.most} groups; "
                "choose a shorter time with from and to, or group by less.",
                param="group_by",
            )
        # All of nothing is nothing; groups of nothing there are none.
        rows = sort_groups(found, query.group_by) or ([] if query.group_by else [NO_ROW])
        data = [_show_group(key, counts, query.group_by) for key, counts in rows]
        status = None if query.owner is None else self.find_budget(query.owner)
        budget = None if status is None else _show_budget(status)
        return UsageReport(data, iso(query.from_ms), iso(query.until_ms), budget)


NO_ROW: tuple[RowKey, UsageCounts] = (("", 0, "", ""), NO_USAGE)


def _read_query(request: WebRequest, owner: Owner, now_ms: int) -> UsageQuery:
    from_ms = start_of_hour(_read_time(request, "from", start_of_month(now_ms)))
    until_ms = end_of_hour(_read_time(request, "to", now_ms + 1))
    if from_ms >= until_ms:
        raise BadRequest("to must be later than from.", param="to")
    return UsageQuery(
        from_ms, until_ms, _read_owner(request, owner), _read_groups(request), MOST_GROUPS
    )


def _read_time(request: WebRequest, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    found = read_time(text) if text else default
    if found is None:
        raise BadRequest(
            f"{name} must be a date such as 2026-11-01, which begins at midnight UTC, "
            "or a time such as 2026-11-01T09:00:00Z.",
            param=name,
        )
    return found


def _read_owner(request: WebRequest, owner: Owner) -> str | None:
    """Return whose usage is asked for; None: that of all."""
    wanted = request.query_params.get("owner", "")
    if owner.admin:
        return wanted or None
    if wanted not in ("", owner.name):
        raise Forbidden("Only an admin's key may ask for the usage of others; leave out owner.")
    return owner.name


def _read_groups(request: WebRequest) -> tuple[Group, ...]:
    words = [word.strip() for word in request.query_params.get("group_by", "").split(",")]
    # A group that is named twice is one.
    found = dict.fromkeys(group for word in words for group in GROUPS if group == word)
    if any(word and word not in GROUPS for word in words):
        raise BadRequest(
            f"group_by must be one or more of {', '.join(GROUPS)}, separated by commas.",
            param="group_by",
        )
    return tuple(found)


def _show_group(key: RowKey, counts: UsageCounts, group_by: tuple[Group, ...]) -> UsageGroup:
    owner, hour_ms, model, upstream = key
    cost = counts.cost_micros
    return UsageGroup(
        owner=owner if "owner" in group_by else UNSET,
        model=model if "model" in group_by else UNSET,
        upstream=upstream if "upstream" in group_by else UNSET,
        hour=iso(hour_ms) if "hour" in group_by else UNSET,
        exchanges=counts.exchanges,
        turns=counts.turns,
        reported_turns=counts.reported_turns,
        input_tokens=counts.input,
        cached_tokens=counts.cached,
        output_tokens=counts.output,
        reasoning_tokens=counts.reasoning,
        cost_usd=None if cost is None else cost / MICROS,
    )


def _show_budget(status: BudgetStatus) -> BudgetUse:
    budget, spent = status.budget, status.spent
    scale = MICROS if budget.unit == "USD" else 1
    return BudgetUse(budget.amount / scale, spent / scale, budget.unit, iso(status.resets_ms))


_TIME = "a date, which begins at midnight UTC, or a time as RFC 3339 writes it; rounded to hours"
ROUTES = (
    ApiRoute(
        "get",
        PATH,
        "usage",
        UsageArea.show,
        parameters=(
            Parameter("from", str, f"From when: {_TIME}. Without: the begin of this UTC month."),
            Parameter("to", str, f"Until before when: {_TIME}. Without: now."),
            Parameter(
                "group_by", str, "What to tell apart: owner, model, upstream, hour, by commas."
            ),
            Parameter("owner", str, "Only that owner's; for others than you, with an admin's key."),
        ),
    ),
)
