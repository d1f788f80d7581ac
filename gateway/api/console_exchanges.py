"""Exchanges as the console shows them: a list, one trail, and two ways to end one by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.api.admission import INSTANCE, Keys, incoming_of
from gateway.api.requests import answer_json, read_positive
from gateway.api.route import ApiRoute, Parameter, Reply, bind_all
from gateway.console.errands import Errands, act
from gateway.console.live_board import ExchangeQuery, LiveBoard
from gateway.console.trail_view import LIVE, ExchangeRow, ExchangeView
from gateway.errors import BadRequest, Forbidden, HasEnded, HoldgateError, NotFound, NotHolding
from gateway.exchange.machine import State
from gateway.stores.shared_rows import Action, Outcome

PATH = "/api/console/exchanges"
PAGE = 100
LARGEST_PAGE = 500
GROUPS = {
    "live": frozenset(state.value for state in LIVE),
    "ended": frozenset(state.value for state in State) - {state.value for state in LIVE},
}
NO_STORE = {"cache-control": "no-store"}
_OTHER_ID = re.compile(r"req_([0-9a-f]{16})[0-9a-f]{8,}").fullmatch
ABSENT = "There is no such exchange, or it ended too long ago."
REFUSALS: Mapping[Outcome | None, Callable[[], HoldgateError]] = {
    "not_holding": lambda: NotHolding("This answer is not held."),
    "has_ended": lambda: HasEnded("This exchange has ended."),
}


class ExchangeList(msgspec.Struct, frozen=True):
    """A page of exchanges, those that began last first."""

    exchanges: list[ExchangeRow]
    next: Annotated[str | None, Meta(description="The `after` of the next page.")]
    total: Annotated[int, Meta(description="How many there are on all pages.")]


class HoldEndedByHand(msgspec.Struct, frozen=True):
    """The hold ends; the answer is finished."""

    ended: Literal[True] = True


class ExchangeCutByHand(msgspec.Struct, frozen=True):
    """The exchange ends."""

    cut: Literal[True] = True


@dataclass(frozen=True, slots=True)
class ConsoleExchangesArea:
    """The routes about exchanges; each owner sees only their own, an admin sees all."""

    board: LiveBoard
    keys: Keys
    errands: Errands | None = None
    """Acts on exchanges of other instances, where several share a store."""

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def list_exchanges(self, request: WebRequest) -> Response:
        """List live exchanges and those that ended lately."""
        scope = self._find_scope(request)
        query = _read_query(request, scope)
        limit = min(read_positive(request, "limit", PAGE), LARGEST_PAGE)
        found = self.board.list_all(scope, query)
        after = _read_cursor(request)
        left = found if after is None else [one for one in found if one.place < after]
        page = left[:limit]
        rows = [one.show_row() for one in page]
        last = "{}:{}".format(*page[-1].place) if len(left) > limit else None
        return answer_json(ExchangeList(rows, last, len(found)), headers=NO_STORE)

    async def show(self, request: WebRequest) -> Response:
        """Show the trail of an exchange, by its id or by the request id of its client."""
        scope, name = self._find_scope(request), request.path_params["id"]
        found = self.board.find(name, scope)
        if found is None:
            raise NotFound(await self._explain_absence(name), param="id")
        return answer_json(found.show(), headers=NO_STORE)

    async def end_hold(self, request: WebRequest) -> Response:
        """End the hold of an answer: what is there of it is finished."""
        await self._act(request, "end_hold")
        return answer_json(HoldEndedByHand(), headers=NO_STORE)

    async def cut(self, request: WebRequest) -> Response:
        """Cut an exchange off: its client gets an error, its upstream is closed."""
        await self._act(request, "cut")
        return answer_json(ExchangeCutByHand(), headers=NO_STORE)

    def _find_scope(self, request: WebRequest) -> str | None:
        """Return whose exchanges are seen; None: those of all."""
        incoming = incoming_of(request.scope)
        owner = self.keys.owner(incoming)
        incoming.owner = owner.name
        return None if owner.admin else owner.name

    async def _act(self, request: WebRequest, action: Action) -> None:
        """Act on an exchange, wherever it runs; raise an error if that cannot be."""
        scope, name = self._find_scope(request), request.path_params["id"]
        outcome: Outcome | None = act(self.board, name, action, scope)
        process = find_process(name)
        if outcome == "not_found" and self.errands is not None and process is not None:
            outcome = await self.errands.ask(process, name, action, scope)
            if outcome == "not_found":
                raise NotFound(ABSENT, param="id")
        if outcome in REFUSALS:
            raise REFUSALS[outcome]()
        if outcome != "done":
            raise NotFound(await self._explain_absence(name), param="id")

    async def _explain_absence(self, name: str) -> str:
        """Say why an exchange is not there."""
        process = find_process(name)
        if process is None:
            return ABSENT
        if self.errands is None:
            return f"This exchange is of the instance {process}; this one is {INSTANCE}."
        other = await self.errands.find_instance(process)
        if other is None:
            return f"This exchange is of the instance {process}, which has left."
        return f"This exchange is of the instance {process} (in the log {other.name}); ask there."


def find_process(name: str) -> str | None:
    """Return of which other process an exchange is; None: of this one, or that is not known."""
    named = _OTHER_ID(name)
    return named[1] if named is not None and named[1] != INSTANCE else None


def _read_query(request: WebRequest, scope: str | None) -> ExchangeQuery:
    given = request.query_params
    owner = given.get("owner", "")
    if scope is not None and owner not in ("", scope):
        raise Forbidden("Only an admin's key may ask for the exchanges of others.")
    return ExchangeQuery(
        _read_states(given.get("state", "")),
        owner,
        given.get("session", ""),
        given.get("model", ""),
        given.get("upstream", ""),
        given.get("q", ""),
    )


def _read_states(text: str) -> frozenset[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    states = frozenset(state.value for state in State)
    if any(word not in states and word not in GROUPS for word in words):
        known = ", ".join((*GROUPS, *sorted(states)))
        raise BadRequest(f"state must be one or more of {known}.", param="state")
    return frozenset().union(*[GROUPS.get(word, {word}) for word in words])


def _read_cursor(request: WebRequest) -> tuple[int, str] | None:
    text = request.query_params.get("after", "")
    if not text:
        return None
    begun, colon, name = text.partition(":")
    if not (colon and begun.isascii() and begun.isdigit()):
        raise BadRequest("after must be the `next` of an earlier answer.", param="after")
    return int(begun[:15]), name


EXCHANGE_ID = Parameter("id", str, "The exchange, or the request id of its client.", "path")
UNKNOWN = {404: "There is no such exchange, or it ended too long ago."}
ROUTES = (
    ApiRoute(
        "get",
        PATH,
        "listExchanges",
        ConsoleExchangesArea.list_exchanges,
        (
            Parameter("state", str, "States, separated by commas; also `live` and `ended`."),
            Parameter("owner", str, "Only that owner's; for others than you, an admin's key."),
            Parameter("session", str, "Only of that session."),
            Parameter("model", str, "Only those that ask for that model."),
            Parameter("upstream", str, "Only those that this upstream answers."),
            Parameter("q", str, "A part of an id or a name."),
            Parameter("after", str, "The `next` of an earlier answer."),
            Parameter("limit", Annotated[int, Meta(ge=1)], "How many; at most 500."),
        ),
        replies=(Reply("A page of exchanges.", ExchangeList),),
    ),
    ApiRoute(
        "get",
        PATH + "/{id}",
        "showExchange",
        ConsoleExchangesArea.show,
        (EXCHANGE_ID,),
        errors=UNKNOWN,
        replies=(Reply("The trail of an exchange.", ExchangeView),),
    ),
    ApiRoute(
        "post",
        PATH + "/{id}/end_hold",
        "endHold",
        ConsoleExchangesArea.end_hold,
        (EXCHANGE_ID,),
        errors={**UNKNOWN, 409: "The answer is not held."},
        replies=(Reply("The hold ends.", HoldEndedByHand),),
    ),
    ApiRoute(
        "post",
        PATH + "/{id}/cut",
        "cutExchange",
        ConsoleExchangesArea.cut,
        (EXCHANGE_ID,),
        errors={**UNKNOWN, 409: "The exchange has ended."},
        replies=(Reply("The exchange ends.", ExchangeCutByHand),),
    ),
)
