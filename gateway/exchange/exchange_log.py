"""How an exchange went, as a log line; made on every request, so with little ado."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from gateway.errors import UpstreamAuth
from gateway.exchange.observer import ExchangeEnded, Happening, Wants
from gateway.logs import EventLog, members, quote

LONGEST_NAME = 100
CHECK_KEY = "The gateway has no key that the upstream takes: the operator has to check it."


class ExchangeLog:
    """Writes one line about each exchange that ended."""

    wants: Wants = frozenset({ExchangeEnded})

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log

    def observe(self, at: float, happening: Happening) -> None:
        """Have a line written, with many others a moment later."""
        if isinstance(happening, ExchangeEnded):
            self._event_log.defer("exchange", FORMS[self._event_log.form], happening)
            if happening.code == UpstreamAuth.code:
                told = {"id": happening.request_id, "upstream": happening.upstream}
                self._event_log.note(UpstreamAuth.code, **told, says=CHECK_KEY)


def text_of(report: ExchangeEnded) -> str:
    """Write it for people."""
    first = "" if report.first_seconds is None else f" first_ms={report.first_seconds * 1000:.1f}"
    code = f" code={report.code}" if report.code else ""
    usage = report.usage
    tokens = f" tokens_in={usage.input} tokens_out={usage.output}" if usage else ""
    lost = f" lost={quote(','.join(report.lost))}" if report.lost else ""
    return (
        f"id={report.request_id} owner={_quote_name(report.owner[:LONGEST_NAME])} "
        f"model={_quote_name(report.model[:LONGEST_NAME])} upstream={report.upstream} "
        f"state={report.state} status={report.status}{code} stream={report.stream} "
        f"turns={report.turns}{first} ms={report.seconds * 1000:.1f}{tokens}{lost}"
    )


@lru_cache(maxsize=1024)
def _quote_name(name: str) -> str:
    return quote(name)


def fields_of(report: ExchangeEnded) -> dict[str, Any]:
    """Write it for machines."""
    first, usage = report.first_seconds, report.usage
    return {
        "id": report.request_id,
        "owner": report.owner,
        "model": report.model[:LONGEST_NAME],
        "upstream": report.upstream,
        "state": str(report.state),
        "status": report.status,
        "code": report.code or None,
        "stream": report.stream,
        "turns": report.turns,
        "first_ms": None if first is None else round(first * 1000, 1),
        "ms": round(report.seconds * 1000, 1),
        "tokens_in": usage.input if usage else None,
        "tokens_out": usage.output if usage else None,
        "lost": list(report.lost) or None,
    }


FORMS: Mapping[str, Callable[[ExchangeEnded], str]] = {
    "text": text_of,
    "json": lambda report: members(fields_of(report)),
}
