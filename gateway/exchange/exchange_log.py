"""What requests come to, as log lines: one for each request, and one for what deserves its own.

The line of an exchange is made on every request, so with little ado. Other lines are noted where
something happens, in the task of the exchange, and get its ids there (`gateway/logs.py`). With the
level `debug` every happening is a line. Texts of messages and arguments of tools are in none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args

from gateway.errors import Draining, HoldgateError, Unavailable, UpstreamAuth
from gateway.exchange.events import HoldEnded, RouteFailed
from gateway.exchange.model import ExchangeInfo, Route, Usage
from gateway.exchange.observer import (
    ExchangeEnded,
    FirstFrame,
    Happening,
    Heartbeat,
    HeldUntil,
    HoldMoved,
    RequestAnswered,
    RequestRefused,
    RouteTried,
    Spliced,
    StateChanged,
    StopMessageFired,
    ToolReturned,
    ToolStarted,
    TurnBroke,
    TurnEnded,
    UpstreamClosed,
    UsageRefused,
    Wants,
)
from gateway.logs import DEBUG, ERROR, INFO, WARNING, EventLog, Fields, members, quote
from gateway.timestamps import iso

LONGEST_NAME = 100
CHECK_KEY = "The upstream refused the gateway's key, or there is none; the operator has to check."
NO_USAGE = "It refuses stream_options; set ask_usage = false for it. Its streams count no tokens."
EVERYTHING: Wants = frozenset(get_args(Happening))
# Asked every few seconds by machines, and not worth a line each.
PROBES = frozenset({"/", "/healthz", "/readyz", "/metrics"})
H = TypeVar("H", bound=Happening)


class ExchangeLog:
    """Writes one line about each request, and lines about some of its steps."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._describe = FORMS[event_log.form]
        self._shows_steps = event_log.writes(DEBUG)
        self.wants: Wants = EVERYTHING if self._shows_steps else frozenset(LINES)

    def observe(self, at: float, happening: Happening) -> None:
        """Have a line written, with many others a moment later."""
        if type(happening) is ExchangeEnded and happening.error is None:
            # Nearly all lines are of this kind.
            self._event_log.defer("exchange", self._describe, happening)
            return
        if type(happening) is TurnEnded and happening.number == 1 and not self._shows_steps:
            # The line of the exchange says all there is to say of a first turn.
            return
        kind = type(happening)
        if (write := LINES.get(kind)) is not None:
            write(self._event_log, happening)
        if self._shows_steps and kind not in WHOLE_REQUESTS:
            describe = STEPS.get(kind)
            fields = describe(happening) if describe is not None else {}
            self._event_log.note("step", level=DEBUG, what=kind.__name__, **fields)


def level_of(error: HoldgateError | None) -> str:
    """Return how grave an error is: `error` is for what the gateway has to answer for."""
    if error is None:
        return INFO
    is_ours = isinstance(error, Unavailable) and not isinstance(error, Draining)
    return ERROR if is_ours else WARNING


def _log_exchange(log: EventLog, ended: ExchangeEnded) -> None:
    error = ended.error
    log.defer("exchange", FORMS[log.form], ended, level=level_of(error))
    if error is not None and error.code == UpstreamAuth.code:
        upstream = ended.route.upstream
        log.note(UpstreamAuth.code, level=WARNING, upstream=upstream, says=CHECK_KEY)


def _log_refusal(log: EventLog, refused: RequestRefused) -> None:
    error = refused.error
    fields = {
        **describe_request(refused.info),
        "method": refused.method or None,
        "path": refused.path[:LONGEST_NAME] or None,
        "status": error.status,
        "code": error.code,
        "says": error.message,
    }
    log.note("refused", level=level_of(error), **fields)


def _log_request(log: EventLog, answered: RequestAnswered) -> None:
    is_probe = answered.path in PROBES and answered.status < 400
    fields = {
        **describe_request(answered.info),
        "method": answered.method,
        "path": answered.path[:LONGEST_NAME],
        "status": answered.status,
        "ms": round(answered.seconds * 1000, 1),
    }
    log.note("request", level=DEBUG if is_probe else INFO, **fields)


def describe_request(info: ExchangeInfo) -> Fields:
    """Return the fields that say which request it is; what is not known of it is left out."""
    fields = describe_ids(info) | {"owner": info.owner or None, "session": info.session}
    return fields | {"dialect": info.dialect or None, "model": info.model[:LONGEST_NAME] or None}


def describe_ids(info: ExchangeInfo) -> Fields:
    """Return the fields that lines of one request have in common."""
    named = info.request_id != info.exchange_id
    return {"exchange": info.exchange_id, "request": info.request_id if named else None}


def _log_turn(log: EventLog, ended: TurnEnded) -> None:
    # The line of the exchange says all there is to say of a first turn.
    if ended.number > 1:
        route, tokens = ended.route, describe_tokens(ended.turn.usage)
        fields = {"turn": ended.number, **describe_route(route), "stop": str(ended.turn.stop)}
        log.note("turn", **fields, ms=round(ended.seconds * 1000, 1), **tokens)


def describe_route(route: Route) -> Fields:
    """Return the fields that say who was asked; a client may have written the model's name."""
    return {"upstream": route.upstream, "upstream_model": route.model[:LONGEST_NAME]}


def describe_tokens(usage: Usage | None) -> Fields:
    """Return the fields that say how many tokens were used, if that was reported."""
    return {
        "tokens_in": usage.input if usage else None,
        "tokens_cached": (usage.cached or None) if usage else None,
        "tokens_out": usage.output if usage else None,
        "tokens_reasoning": (usage.reasoning or None) if usage else None,
    }


def _log_tool(log: EventLog, returned: ToolReturned) -> None:
    call, failed = returned.call, bool(returned.error)
    # Why it failed may quote what the model wrote.
    level = WARNING if failed else INFO
    log.note("tool", level=level, tool=call.name, call=call.id, ms=returned.ms, failed=failed)


def _log_failed_route(log: EventLog, failed: RouteFailed) -> None:
    error, route = failed.error, failed.route
    # An error that no other route could better is told by the line of the exchange.
    if error.may_fail_over and route is not None:
        told = {"status": error.status, "code": error.code, "says": error.message}
        log.note("route_failed", level=WARNING, **describe_route(route), **told)


def _log_refused_usage(log: EventLog, refused: UsageRefused) -> None:
    log.note("usage_refused", level=WARNING, upstream=refused.upstream, says=NO_USAGE)


LINES: Mapping[type[Happening], Callable[[EventLog, Any], None]] = {
    ExchangeEnded: _log_exchange,
    RequestRefused: _log_refusal,
    RequestAnswered: _log_request,
    TurnEnded: _log_turn,
    ToolReturned: _log_tool,
    RouteFailed: _log_failed_route,
    UsageRefused: _log_refused_usage,
}
WHOLE_REQUESTS = (ExchangeEnded, RequestRefused, RequestAnswered)

# What a step says beside its name. None of it is text that a user or a model wrote.
STEPS: Mapping[type[Happening], Callable[[Any], Fields]] = {
    StateChanged: lambda step: {
        "state": str(step.state),
        "turn": step.turn,
        "why": step.reason or None,
    },
    RouteTried: lambda step: {"turn": step.turn, **describe_route(step.route)},
    FirstFrame: lambda step: {"turn": step.turn},
    TurnEnded: lambda step: {
        "turn": step.number,
        "stop": str(step.turn.stop),
        "bytes": step.bytes,
        **describe_tokens(step.turn.usage),
    },
    TurnBroke: lambda step: {"turn": step.number, **describe_route(step.route)},
    Heartbeat: lambda step: {**describe_ids(step.info), "turn": step.turn},
    Spliced: lambda step: {"turn": step.turn},
    UpstreamClosed: lambda step: {"turn": step.turn, "was_cut": step.was_cut},
    ToolStarted: lambda step: {"tool": step.call.name, "call": step.call.id},
    HeldUntil: lambda step: {"until": iso(step.until_ms)},
    HoldMoved: lambda step: {"until": iso(step.until_ms)},
    HoldEnded: lambda step: {"why": step.reason},
    StopMessageFired: lambda step: {"n": step.n, "of": step.of},
}


def text_of(report: ExchangeEnded) -> str:
    """Write it for people."""
    info, route, usage, error = report.info, report.route, report.usage, report.error
    # Each part is written only where there is something to say: this is made for every request.
    named = f" request={info.request_id}" if info.request_id != info.exchange_id else ""
    session = f" session={_quote_name(info.session[:LONGEST_NAME])}" if info.session else ""
    first = "" if report.first_seconds is None else f" first_ms={report.first_seconds * 1000:.1f}"
    tokens = ""
    if usage is not None:
        cached = f" tokens_cached={usage.cached}" if usage.cached else ""
        thought = f" tokens_reasoning={usage.reasoning}" if usage.reasoning else ""
        tokens = f" tokens_in={usage.input}{cached} tokens_out={usage.output}{thought}"
    lost = f" lost={quote(','.join(report.lost))}" if report.lost else ""
    failed = "" if error is None else f" code={error.code} says={quote(error.message)}"
    return (
        f"exchange={info.exchange_id}{named} owner={_quote_name(info.owner[:LONGEST_NAME])}"
        f"{session} {_write_target(info.dialect, info.model[:LONGEST_NAME], route)} "
        f"state={report.state} status={report.status}{failed} stream={info.stream} "
        f"turns={report.turns} tries={report.tries}{first} ms={report.seconds * 1000:.1f} "
        f"bytes={report.bytes}{tokens}{lost}"
    )


@lru_cache(maxsize=1024)
def _write_target(dialect: str, model: str, route: Route) -> str:
    """Write what was asked, and of whom: the same for most requests."""
    upstream_model = _quote_name(route.model[:LONGEST_NAME])
    return (
        f"dialect={dialect} model={_quote_name(model)} "
        f"upstream={route.upstream} upstream_model={upstream_model}"
    )


@lru_cache(maxsize=1024)
def _quote_name(name: str) -> str:
    return quote(name)


def fields_of(report: ExchangeEnded) -> Fields:
    """Write it for machines."""
    info, route, first, error = report.info, report.route, report.first_seconds, report.error
    return {
        **describe_request(info),
        **describe_route(route),
        "state": str(report.state),
        "status": report.status,
        "code": None if error is None else error.code,
        "says": None if error is None else error.message,
        "stream": info.stream,
        "turns": report.turns,
        "tries": report.tries,
        "first_ms": None if first is None else round(first * 1000, 1),
        "ms": round(report.seconds * 1000, 1),
        "bytes": report.bytes,
        **describe_tokens(report.usage),
        "lost": list(report.lost) or None,
    }


FORMS: Mapping[str, Callable[[ExchangeEnded], str]] = {
    "text": text_of,
    "json": lambda report: members(fields_of(report)),
}
