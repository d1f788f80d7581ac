"""Opening the session of a request: directives, reminders, what was kept, what is in force."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, partial

import anyio
import msgspec

from gateway.dialects.requester import requester_of
from gateway.exchange.model import Asked, Mark, RequestFacts, Route
from gateway.offload import Offload
from gateway.reminders.model import Unfit, read_item
from gateway.reminders.service import Reminders
from gateway.sessions.directives.memory import NewestMessage, choose_new
from gateway.sessions.directives.model import (
    ClearReminders,
    Directive,
    Found,
    SetReminder,
    SetStopMessageFile,
    Unreadable,
)
from gateway.sessions.directives.reader import Reading, read
from gateway.sessions.directives.routing import NOTHING, Routing, forced_route
from gateway.sessions.directives.syntax import BLANKS
from gateway.sessions.facts import find_mark, last_calls, read_facts
from gateway.sessions.model import (
    DONE,
    Context,
    Kept,
    SessionState,
    Told,
    directed,
    living,
    needs_session,
    sign,
)
from gateway.sessions.request_session import Session, Surroundings
from gateway.sessions.sentinels import Sentinels
from gateway.sessions.session_request import CALL, KIND, NEW, Kind, Settings, Visit
from gateway.sessions.side_calls import SideCalls, SnapshotSetters
from gateway.sessions.state_store import States
from gateway.sessions.stop_message_files import loaded
from gateway.sessions.task_tracker import Tracker
from gateway.stores.documents import DocumentKey, StoreUnavailable

NEEDS_SESSION = "this needs a session id, for instance the header x-session-id"
SIDE_REQUEST = "side requests of an agent do not act"
SUB_AGENT = "directives do not act in a sub-agent's request"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A request after its session was looked at: what to send, where to, and what to tell."""

    asked: Asked
    kind: Kind = Kind.PLAIN
    session: Session | None = None
    routing: Routing = NOTHING
    forced: Route | None = None
    told: str = ""


class Sessions:
    """Opens the session of each request."""

    def __init__(
        self,
        states: States,
        settings: Settings,
        tracker: Tracker,
        reminders: Reminders | None,
        snapshots: SnapshotSetters | None = None,
        offload: Offload | None = None,
    ) -> None:
        self.states = states
        self.offload = offload or Offload()
        self._settings = settings
        self._reminders = reminders
        self._side_calls = SideCalls(reminders, snapshots)
        states.on_forget = self._side_calls.forget
        self.around = Surroundings(states, settings, tracker, self._side_calls)
        self.sentinels = Sentinels(settings.compaction_sentinels, settings.side_call_sentinels)

    def glance(self, visit: Visit) -> Entry | None:
        """Say without waiting what is in force where nothing is kept, as in nearly all sessions.

        None: it takes more than a glance.
        """
        key = visit.key
        if key is None or visit.main or visit.asked.directives:
            return None
        if not self.states.store.absent(key):
            return None
        kind = self._kind(visit)
        is_side_call = kind is Kind.AUXILIARY or self._side_calls.judge_at_once(visit)
        if is_side_call is None:
            return None
        if is_side_call:
            return Entry(visit.asked, Kind.AUXILIARY)
        return Entry(visit.asked, kind, Session(self.around, visit, NEW, kind))

    async def enter(self, visit: Visit, upstreams: Collection[str]) -> Entry:
        """Take directives out of a request, let them act, and say what is in force."""
        if not visit.asked.directives:
            return await self._pass_by(visit)
        visit = await self._whole(visit, await self._kept(visit, await self.states.read(visit.key)))
        message, found, visit = await self._read(visit, upstreams)
        forced = forced_route(item.directive for item in found)
        state = await self.states.read(visit.key)
        kind = await self._judge(visit, state)
        if kind is Kind.AUXILIARY or visit.main:
            told = Told((SUB_AGENT if visit.main else SIDE_REQUEST,) * len(found))
            entry = await self._entry(visit, state, kind)
            return msgspec.structs.replace(entry, told=told.header())
        state, told = await self._act(visit, await self._with_files(found), message)
        self._log(visit, told)
        session = Session(self.around, visit, state, kind, message)
        return Entry(visit.asked, kind, session, state.routing, forced, told.header())

    async def preview(self, visit: Visit, upstreams: Collection[str]) -> Entry:
        """Say what would be sent of a request, and of which kind it is; nothing acts or is kept."""
        state = NEW if visit.key is None else await self.states.read(visit.key)
        # Only a request without tools can be a side call, and only one with tools is remembered.
        kind = self._kind(visit) if visit.asked.tools else await self._judge(visit, state)
        if kind is not Kind.AUXILIARY:
            visit = await self._whole(visit, await self._kept(visit, state))
        if visit.asked.directives:
            _, _, visit = await self._read(visit, upstreams)
        return Entry(visit.asked, kind)

    async def _pass_by(self, visit: Visit) -> Entry:
        """Say what is in force for a request that asks for no change of it, as nearly all do."""
        key = visit.key
        state = NEW if key is None else await self.states.read(key)
        kind = await self._judge(visit, state)
        if kind is not Kind.AUXILIARY and (state.kept or key is None):
            visit = await self._whole(visit, await self._kept(visit, state))
        return await self._entry(visit, state, kind)

    async def _judge(self, visit: Visit, state: SessionState) -> Kind:
        """Say of what kind a request is, by its text and by all that is known of its session."""
        kind = self._kind(visit)
        if kind is not Kind.AUXILIARY and await self._side_calls.judge(visit, state):
            return Kind.AUXILIARY
        return kind

    async def _entry(self, visit: Visit, state: SessionState, kind: Kind) -> Entry:
        """Say what is in force; a sub-agent is bound to the upstreams of its main session."""
        routing = state.routing
        if visit.main:
            routing = (await self.states.read(DocumentKey(KIND, visit.owner, visit.main))).routing
        if kind is Kind.AUXILIARY:
            return Entry(visit.asked, kind, None, routing)
        return Entry(visit.asked, kind, Session(self.around, visit, state, kind), routing)

    async def _kept(self, visit: Visit, state: SessionState) -> tuple[Kept, ...]:
        """Return what is kept of turns that this request may carry."""
        now_ms = self.states.store.now_ms()
        if visit.name is not None:
            return living(state, now_ms)
        found: list[Kept] = []
        for call in last_calls(visit.dialect, visit.asked):
            state = await self.states.read(DocumentKey(KIND, visit.owner, CALL + call))
            found += living(state, now_ms)
        return tuple(found)

    async def _whole(self, visit: Visit, kept: tuple[Kept, ...]) -> Visit:
        if not kept:
            return visit
        body = visit.asked.body
        work = partial(visit.dialect.rebuilt, body, kept)
        body = await self.offload.run(visit.owner, len(body), work)
        asked = msgspec.structs.replace(visit.asked, body=body)
        return msgspec.structs.replace(visit, asked=asked)

    def _kind(self, visit: Visit) -> Kind:
        """Say of what kind a request is by itself."""
        mark = find_mark(visit.dialect, visit.asked, self.sentinels)
        if mark is Mark.COMPACTION:
            return Kind.COMPACTION
        if mark is Mark.SIDE_CALL and not visit.asked.tools:
            return Kind.AUXILIARY
        return Kind.STRUCTURED if visit.asked.structured else Kind.PLAIN

    async def _read(
        self, visit: Visit, upstreams: Collection[str]
    ) -> tuple[NewestMessage, tuple[Found, ...], Visit]:
        work = partial(_take_directives, visit, frozenset(upstreams), self._settings.keep_unknown)
        if visit.asked.facts is not None:
            work = partial(_take_from_large, visit, work, self.sentinels)
        taken = await self.offload.run(visit.owner, len(visit.asked.body), work)
        asked = msgspec.structs.replace(visit.asked, body=taken.body, facts=taken.facts)
        return taken.message, taken.found, msgspec.structs.replace(visit, asked=asked)

    async def _act(
        self, visit: Visit, found: tuple[Found, ...], message: NewestMessage
    ) -> tuple[SessionState, Told]:
        now = self.states.store.now_ms()
        if visit.key is None:
            here = tuple(item for item in found if not needs_session(item))
            state, told = directed(NEW, here, self._settings.rules, Context(message, now))
            elsewhere = (NEEDS_SESSION,) * (len(found) - len(here))
            return state, Told((*told.effects, *elsewhere), told.lowered_to)
        if not found:
            return await self.states.read(visit.key), Told()
        reminded = await self._remind(visit, found, message, now)
        context = Context(message, now, reminded)
        setter = requester_of(visit.dialect, visit.asked).setter
        return await self._act_durably(visit.key, found, context, setter)

    async def _remind(
        self, visit: Visit, found: tuple[Found, ...], message: NewestMessage, now: int
    ) -> Mapping[str, str]:
        """Set and clear reminders as directives say that have not acted yet; say what came of it.

        It comes before they are remembered as seen: if the process dies in between, they act
        once more, and a reminder that is there already is not set again.
        """
        if not any(isinstance(item.directive, SetReminder | ClearReminders) for item in found):
            return {}
        state = await self.states.read(visit.key)
        new = choose_new(found, message, state.seen, state.sent, now).new
        return {item.source: await self._clock(visit, item.directive) for item in new}

    async def _clock(self, visit: Visit, directive: Directive | Unreadable) -> str:
        reminders, owner, name = self._reminders, visit.owner, visit.name
        if reminders is None or name is None:
            return "clock: switched off (clock.enabled)"
        try:
            if isinstance(directive, ClearReminders):
                await reminders.clear(owner, name)
            elif isinstance(directive, SetReminder):
                now_ms, rules = reminders.clock.now_ms(), reminders.rules
                wanted = read_item(directive.time, directive.message, "", "", now_ms, rules)
                setter = requester_of(visit.dialect, visit.asked).setter
                await reminders.schedule(owner, name, (wanted,), visit.chain, setter)
        except Unfit as unfit:
            return f"clock: {_plain(str(unfit))}"
        except StoreUnavailable as error:
            return f"clock: not stored: {_plain(error.message)}"
        return DONE

    async def _act_durably(
        self, key: DocumentKey, found: tuple[Found, ...], context: Context, setter: str
    ) -> tuple[SessionState, Told]:
        def change(state: SessionState) -> tuple[SessionState, tuple[SessionState, Told]]:
            after, told = directed(state, found, self._settings.rules, context)
            after = sign(after, setter, told)
            return after, (after, told)

        try:
            return await self.states.change(key, change)
        except StoreUnavailable as error:
            self.states.note("directive_not_stored", session=key.session, why=error.message)
            return await self.states.read(key), Told((f"not stored: {_plain(error.message)}",))

    def _log(self, visit: Visit, told: Told) -> None:
        who = {"owner": visit.owner, "session": visit.name}
        if told.reasons:
            # The reasons may repeat what the user wrote; they are told to the user alone.
            self.states.note("directive_ignored", **who, count=len(told.reasons))
        if told.lowered_to is not None:
            self.states.note("stop_message_lowered", **who, repeats=told.lowered_to)

    async def _with_files(self, found: tuple[Found, ...]) -> tuple[Found, ...]:
        """Put the texts of files in the place of their names."""
        if not any(isinstance(item.directive, SetStopMessageFile) for item in found):
            return found
        return tuple([await self._with_file(item) for item in found])

    async def _with_file(self, item: Found) -> Found:
        if not isinstance(item.directive, SetStopMessageFile):
            return item
        text = await anyio.to_thread.run_sync(loaded, item.directive, self._settings)
        return replace(item, directive=text)


class _Taken(msgspec.Struct, frozen=True):
    """The newest user message with its directives, and a request without any."""

    message: NewestMessage
    found: tuple[Found, ...]
    body: bytes
    facts: RequestFacts | None = None


def _take_directives(visit: Visit, upstreams: Collection[str], keep_unknown: bool) -> _Taken:
    dialect, body = visit.dialect, visit.asked.body
    ordinal, texts = dialect.newest_user(body)
    alone = ordinal == 1 and dialect.has_one_message(body)
    message = NewestMessage(ordinal, texts, alone, visit.attempt)
    # The newest message is asked for twice, and histories repeat themselves.
    read_text = cache(partial(read, upstreams=upstreams, keep_unknown=keep_unknown))
    found = tuple(item for text in texts for item in read_text(text).directives)
    plain = dialect.edit_user_texts(body, partial(_without_directives, read_text))
    return _Taken(message, found, plain)


def _take_from_large(visit: Visit, work: Callable[[], _Taken], sentinels: Sentinels) -> _Taken:
    """Send back no texts; read the facts again, since what is left may begin with a sentinel."""
    taken = work()
    facts = read_facts(visit.dialect, taken.body, visit.name is not None, sentinels)
    message = taken.message.without_texts()
    return msgspec.structs.replace(taken, message=message, facts=facts)


def _without_directives(read_text: Callable[[str], Reading], text: str) -> str:
    plain = read_text(text).text
    return plain if plain == text or plain.strip(BLANKS) else ""


def _plain(text: str) -> str:
    """Fit a sentence into a quoted header value."""
    ascii_only = text.encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() and c not in '"\\' else "'" for c in ascii_only)
