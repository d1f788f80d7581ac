"""What a session remembers between requests, and the pure changes to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gateway.exchange.additions import ToolResult
from gateway.exchange.model import Route
from gateway.sessions.directives.memory import (
    NewestMessage,
    SentMessage,
    choose_new,
    end_sent,
    remember_sent,
)
from gateway.sessions.directives.model import (
    Clear,
    ClearReminders,
    ClearStopMessage,
    Directive,
    ForceRoute,
    Found,
    SetReminder,
    SetStopMessage,
    SetStopMessageFile,
    Target,
    Unreadable,
)
from gateway.sessions.directives.routing import NOTHING, Routing, routing_after


@dataclass(frozen=True, slots=True)
class StopMessage:
    """A text that is sent as the next user message when a turn ends with stop, N times."""

    text: str
    max_repeats: int
    updated_at_ms: int
    used: int = 0
    last_used_at_ms: int | None = None

    @property
    def armed(self) -> bool:
        """Whether it may be sent once more."""
        return self.used < self.max_repeats


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """A turn that called server tools beside the client's own, and what the server tools returned.

    The client was shown only its own calls. When it sends their results, the turn is rebuilt.
    """

    message: bytes
    """The assistant's message with all its calls, as JSON of its dialect."""
    dialect: str
    calls: tuple[str, ...]
    """The ids of the calls that the client was shown."""
    results: tuple[ToolResult, ...]
    at_ms: int

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        returned = [text for r in self.results for text in (r.call_id, r.text)]
        return len(self.message) + sum(len(text.encode()) for text in (*self.calls, *returned))


@dataclass(frozen=True, slots=True)
class SessionState:
    """The stored state of one session."""

    stop: StopMessage | None = None
    routing: Routing = NOTHING
    seen: Mapping[str, int] = field(default_factory=dict)
    """When each directive was last seen, by fingerprint: a resent directive does not act again."""
    sent: tuple[SentMessage, ...] = ()
    """Messages with directives that came without any history, the newest last."""
    kept: tuple[KeptTurn, ...] = ()
    """Turns to rebuild, the oldest first."""
    setter: str = ""
    """The digest of the system text under which directives acted last, if tools were offered."""


@dataclass(frozen=True, slots=True)
class StopRules:
    """The operator's settings for stop messages."""

    enabled: bool = True
    default_repeats: int = 10
    max_repeats: int = 0
    longest_bytes: int = 4096

    def repeats(self, asked: int | None) -> int:
        """Return how often a stop message that was set with this count is sent."""
        wanted = asked or self.default_repeats
        return min(wanted, self.max_repeats) if self.max_repeats else wanted

    def lower_repeats(self, directive: Directive | Unreadable) -> int | None:
        """Return the allowed count if the directive asks for a larger one; else None."""
        asked = directive.repeats if isinstance(directive, SetStopMessage) else None
        return self.repeats(asked) if asked and self.repeats(asked) < asked else None


LONGEST_REASON = 200
MOST_TOLD = 5
RENEW_MS = 5 * 60 * 1000
KEPT_MS = 24 * 60 * 60 * 1000
MOST_KEPT = 64
# Written as JSON it may take six times as much, and has to fit into a document.
MOST_KEPT_BYTES = 512 * 1024
UNCHANGED, DONE = "unchanged", "set"
ASK_AGAIN = "clock: another request changed this session; send it again"


@dataclass(frozen=True, slots=True)
class DirectiveReport:
    """What became of the directives of one message."""

    effects: tuple[str, ...] = ()
    """For each directive `set`, `unchanged`, or the reason why it did nothing."""
    lowered_to: int | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why directives did nothing, each reason once."""
        return tuple(e for e in dict.fromkeys(self.effects) if e not in (DONE, UNCHANGED))

    def header(self) -> str:
        """Write it for the answer header: each outcome once, in order, and not too many."""
        reasons = self.reasons
        outcomes = [
            f'ignored; reason="{effect[:LONGEST_REASON]}"' if effect in reasons else effect
            for effect in dict.fromkeys(self.effects)
        ]
        more = [f"and {len(outcomes) - MOST_TOLD} more"] if len(outcomes) > MOST_TOLD else []
        return ", ".join(outcomes[:MOST_TOLD] + more)


@dataclass(frozen=True, slots=True)
class DirectiveContext:
    """The message with the directives, the time, and the outcomes of reminder directives."""

    message: NewestMessage
    now_ms: int
    reminded: Mapping[str, str] = field(default_factory=dict)
    """By the source text of each directive: `set`, or the reason why not."""


def apply_directives(
    state: SessionState, found: tuple[Found, ...], rules: StopRules, context: DirectiveContext
) -> tuple[SessionState, DirectiveReport]:
    """Apply the directives of a message to a session, each once."""
    message, now_ms = context.message, context.now_ms
    chosen = choose_new(found, message, state.seen, state.sent, now_ms)
    effects: list[str] = []
    for item in chosen.new:
        if isinstance(item.directive, SetReminder | ClearReminders):
            effects.append(context.reminded.get(item.source, ASK_AGAIN))
            continue
        state, effect = _apply_directive(state, item.directive, rules, now_ms)
        effects.append(effect)
    if any(isinstance(item.directive, ClearStopMessage) for item in chosen.new):
        state = clear_stop(state)
    done = [item for item, effect in zip(chosen.new, effects, strict=True) if effect == DONE]
    # A directive that did nothing is not remembered: when it is sent again, it is reported again.
    idle = {message.fingerprint_of(item) for item in chosen.new if item not in done}
    seen = {name: at for name, at in chosen.remembered.items() if name not in idle}
    lowered = [n for item in done if (n := rules.lower_repeats(item.directive)) is not None]
    effects += [UNCHANGED] * len(chosen.unchanged)
    state = _remembering(state, seen)
    if message.alone and any(message.fingerprint_of(item) in seen for item in found):
        state = replace(state, sent=remember_sent(state.sent, message, now_ms))
    return state, DirectiveReport(tuple(effects), lowered[-1] if lowered else None)


def is_sent(state: SessionState, message: NewestMessage) -> bool:
    """Whether a message is remembered as one that came without history."""
    return message.alone and any(sent.fingerprint == message.fingerprint for sent in state.sent)


def end_message(state: SessionState, message: NewestMessage) -> SessionState:
    """Note that the exchange of a message ended normally: sent again, it acts again."""
    return replace(state, sent=end_sent(state.sent, message))


def _remembering(state: SessionState, seen: Mapping[str, int]) -> SessionState:
    """Store what was seen, unless that is recent: a tool loop must not write each time."""
    fresh = all(
        name in state.seen and at - state.seen[name] < RENEW_MS for name, at in seen.items()
    )
    return state if fresh else replace(state, seen=seen)


def _apply_directive(
    state: SessionState, directive: Directive | Unreadable, rules: StopRules, now_ms: int
) -> tuple[SessionState, str]:
    match directive:
        case Unreadable():
            return state, f"{directive.keyword}: {directive.reason}"
        case SetStopMessage(text, repeats):
            if reason := _refusal(text, rules):
                return state, f"stopMessage: {reason}"
            return replace(state, stop=StopMessage(text, rules.repeats(repeats), now_ms)), DONE
        case SetStopMessageFile():
            return state, "stopMessage: files are switched off (stop_message.files_dir)"
        case Clear():
            state = clear_stop(state)
    return replace(state, routing=routing_after(state.routing, directive)), DONE


def _refusal(text: str, rules: StopRules) -> str:
    if not rules.enabled:
        return "switched off (stop_message.enabled)"
    if not text.strip():
        return "the text is empty"
    if len(text.encode(errors="replace")) > rules.longest_bytes:
        return f"the text is longer than {rules.longest_bytes} bytes"
    return ""


def needs_session(found: Found) -> bool:
    """Whether a directive has no effect in a request that names no session."""
    return not isinstance(
        found.directive,
        SetStopMessage | SetStopMessageFile | ClearStopMessage | ForceRoute | Unreadable,
    )


def sign(state: SessionState, setter: str, report: DirectiveReport) -> SessionState:
    """Store which kind of request set the state, if it offered tools or changed something."""
    if state.setter == setter or not (setter or DONE in report.effects):
        return state
    return replace(state, setter=setter)


def use_one(state: SessionState, meant: StopMessage, now_ms: int) -> tuple[SessionState, bool]:
    """Count one more use of a stop message; return whether it was still set and not used up."""
    stop = _find_armed(state, meant)
    if stop is None:
        return state, False
    used = replace(stop, used=stop.used + 1, last_used_at_ms=now_ms)
    return replace(state, stop=used), True


def disarm(state: SessionState, meant: StopMessage) -> SessionState:
    """Mark a stop message as used up: it stays visible, and is not sent until it is set again."""
    stop = _find_armed(state, meant)
    return state if stop is None else replace(state, stop=replace(stop, used=stop.max_repeats))


def _find_armed(state: SessionState, meant: StopMessage) -> StopMessage | None:
    """Return the session's stop message if it is still the meant one and may be sent."""
    stop = state.stop
    if stop is None or (stop.text, stop.updated_at_ms) != (meant.text, meant.updated_at_ms):
        return None
    return stop if stop.armed else None


def clear_stop(state: SessionState) -> SessionState:
    """Forget the stop message."""
    return replace(state, stop=None)


def clear_routing(state: SessionState) -> SessionState:
    """Forget the routing directives."""
    return replace(state, routing=NOTHING)


def keep(state: SessionState, kept: KeptTurn, now_ms: int) -> SessionState:
    """Store one more turn to rebuild later; if there is no room, the oldest are dropped."""
    if not kept.calls or kept.size > MOST_KEPT_BYTES:
        # It could not be found by the client's ids, or all others would be dropped for it.
        return state
    room = MOST_KEPT_BYTES
    left: list[KeptTurn] = []
    for item in reversed((*living(state, now_ms), kept)):
        room -= item.size
        if room < 0 or len(left) == MOST_KEPT:
            break
        left.append(item)
    return replace(state, kept=tuple(reversed(left)))


def living(state: SessionState, now_ms: int) -> tuple[KeptTurn, ...]:
    """Return the kept turns that are not too old, the oldest first."""
    return tuple(item for item in state.kept if now_ms - item.at_ms < KEPT_MS)


def without_old(state: SessionState, now_ms: int) -> SessionState:
    """Forget the kept turns that are too old."""
    left = living(state, now_ms)
    return state if left == state.kept else replace(state, kept=left)


def find_expiry(state: SessionState) -> int | None:
    """Return when the oldest kept turn expires; None if there is none."""
    return min(item.at_ms for item in state.kept) + KEPT_MS if state.kept else None


def encode_state(state: SessionState) -> dict[str, object]:
    """Write a session's state as the members of its document."""
    document: dict[str, object] = {}
    if state.stop is not None:
        document |= {
            "stopMessageText": state.stop.text,
            "stopMessageMaxRepeats": state.stop.max_repeats,
            "stopMessageUsed": state.stop.used,
            "stopMessageUpdatedAt": state.stop.updated_at_ms,
        }
        if state.stop.last_used_at_ms is not None:
            document["stopMessageLastUsedAt"] = state.stop.last_used_at_ms
    if state.routing != Routing():
        document["routing"] = _write_routing(state.routing)
    if state.seen:
        document["directives"] = dict(state.seen)
    if state.sent:
        document["directiveMessages"] = msgspec.to_builtins(state.sent)
    if state.kept:
        document["pendingTools"] = [_write_kept(kept) for kept in state.kept]
    if state.setter:
        document["setter"] = state.setter
    return document


def decode_state(document: Mapping[str, Any]) -> SessionState:
    """Read a session's state from its document; raise a lookup, type or value error if invalid."""
    return SessionState(
        stop=_read_stop(document),
        routing=_read_routing(document),
        seen=_read_seen(document),
        sent=msgspec.convert(document.get("directiveMessages", []), tuple[SentMessage, ...]),
        kept=tuple(map(_read_kept, _array(document.get("pendingTools", [])))),
        setter=_text(document.get("setter", "")),
    )


def _write_routing(routing: Routing) -> dict[str, object]:
    prefer = routing.prefer
    return {
        "allow": list(routing.allow),
        "prefer": [prefer.upstream, prefer.model] if prefer else None,
        "exclude": [list(target) for target in routing.exclude],
    }


def _write_kept(kept: KeptTurn) -> dict[str, object]:
    return {
        # As text it is restored byte for byte, whatever numbers it contains.
        "message": kept.message.decode(),
        "dialect": kept.dialect,
        "calls": list(kept.calls),
        "results": [{"callId": r.call_id, "text": r.text} for r in kept.results],
        "keptAtMs": kept.at_ms,
    }


def _read_stop(document: Mapping[str, Any]) -> StopMessage | None:
    if "stopMessageText" not in document:
        return None
    last = document.get("stopMessageLastUsedAt")
    return StopMessage(
        text=_text(document["stopMessageText"]),
        max_repeats=_count(document["stopMessageMaxRepeats"]),
        used=_count(document["stopMessageUsed"]),
        updated_at_ms=_count(document["stopMessageUpdatedAt"]),
        last_used_at_ms=None if last is None else _count(last),
    )


def _read_routing(document: Mapping[str, Any]) -> Routing:
    routing = document.get("routing")
    if routing is None:
        return NOTHING
    prefer = routing["prefer"]
    return Routing(
        allow=tuple(map(_text, routing["allow"])),
        prefer=Route(*map(_text, prefer)) if prefer else None,
        exclude=tuple(_read_target(*pair) for pair in routing["exclude"]),
    )


def _read_target(upstream: object, model: object) -> Target:
    return Target(_text(upstream), None if model is None else _text(model))


def _read_seen(document: Mapping[str, Any]) -> dict[str, int]:
    seen = document.get("directives", {})
    if not isinstance(seen, dict):
        raise TypeError("an object was expected")
    return {_text(name): _count(at) for name, at in seen.items()}


def _read_kept(kept: Mapping[str, Any]) -> KeptTurn:
    return KeptTurn(
        message=_text(kept["message"]).encode(),
        dialect=_text(kept["dialect"]),
        calls=tuple(map(_text, _array(kept["calls"]))),
        results=tuple(
            ToolResult(_text(result["callId"]), _text(result["text"]))
            for result in _array(kept["results"])
        ),
        at_ms=_count(kept["keptAtMs"]),
    )


def _array(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("an array was expected")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("a number was expected")
    return value
