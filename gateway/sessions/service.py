"""Opens the session of a request: applies directives, restores kept turns, finds its routing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, partial

import anyio
import msgspec

from gateway.errors import InvalidInput
from gateway.exchange.model import Mark, ModelRequest, RequestFacts, Route
from gateway.offload import Offload
from gateway.reminders.clock_calls import read_item
from gateway.reminders.service import ReminderService
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
from gateway.sessions.directives.routing import NOTHING, Routing, find_forced_route
from gateway.sessions.directives.syntax import BLANKS
from gateway.sessions.model import (
    DONE,
    DirectiveContext,
    DirectiveReport,
    KeptTurn,
    SessionState,
    apply_directives,
    living,
    needs_session,
    sign,
)
from gateway.sessions.request_kind import (
    Sentinels,
    SideCalls,
    SnapshotSetters,
    find_mark,
    last_calls,
    read_facts,
    requester_of,
)
from gateway.sessions.request_session import RequestSession, SessionServices, SessionStates
from gateway.sessions.session_request import CALL, KIND, NEW, Kind, SessionRequest, SessionSettings
from gateway.sessions.stop_message_files import load_stop_message
from gateway.sessions.task_tracker import TaskTracker
from gateway.stores.documents import DocumentKey, StoreUnavailable

NEEDS_SESSION = "this needs a session id, for instance the header x-session-id"
SIDE_REQUEST = "directives have no effect in an agent's side request"
SUB_AGENT = "directives have no effect in a sub-agent's request"


class SessionView(msgspec.Struct, frozen=True, gc=False):
    """A request after its session was opened: what to send, the routing in force, the report."""

    asked: ModelRequest
    kind: Kind = Kind.PLAIN
    session: RequestSession | None = None
    routing: Routing = NOTHING
    forced: Route | None = None
    report: str = ""
    """What became of the directives, as the answer header says it."""
    is_away: bool = False
    """Whether the session's state could not be read, so that the answer does without it."""


class Sessions:
    """Opens the session of each request."""

    def __init__(
        self,
        states: SessionStates,
        settings: SessionSettings,
        tracker: TaskTracker,
        reminders: ReminderService | None,
        snapshots: SnapshotSetters | None = None,
        offload: Offload | None = None,
    ) -> None:
        self.states = states
        self.offload = offload or Offload()
        self._reminders = reminders
        self._side_calls = SideCalls(reminders, snapshots, states.store.entries)
        states.on_forget = self._side_calls.forget
        self.services = SessionServices(states, settings, tracker, self._side_calls)
        self.sentinels = Sentinels(settings.compaction_sentinels, settings.side_call_sentinels)

    def glance(self, request: SessionRequest) -> SessionView | None:
        """Return the view without I/O if nothing is stored for the session, as in nearly all.

        The fast form of `enter`, without its five coroutines. None: `enter` is needed.
        """
        key = request.key
        if request.main or request.asked.directives:
            return None
        if key is None:
            return None if last_calls(request.dialect, request.asked) else self._view_new(request)
        if not self.states.store.absent(key):
            return None
        kind = self._kind(request)
        is_side_call = kind is Kind.AUXILIARY or self._side_calls.judge_at_once(request)
        if is_side_call is None:
            return None
        if is_side_call:
            return SessionView(request.asked, Kind.AUXILIARY)
        return SessionView(request.asked, kind, RequestSession(self.services, request, NEW, kind))

    def _view_new(self, request: SessionRequest) -> SessionView:
        """Return the view of a request of which nothing can be stored."""
        kind = self._kind(request)
        if kind is Kind.AUXILIARY:
            return SessionView(request.asked, kind)
        return SessionView(request.asked, kind, RequestSession(self.services, request, NEW, kind))

    async def enter(self, request: SessionRequest, upstreams: Collection[str]) -> SessionView:
        """Remove directives from a request, apply them, and return what is in force."""
        if not request.asked.directives:
            return await self._pass_by(request)
        request = await self._whole(
            request, await self._find_kept(request, await self.states.read(request.key))
        )
        message, found, request = await self._read(request, upstreams)
        forced = find_forced_route(item.directive for item in found)
        state = await self.states.read(request.key)
        kind = await self._judge(request, state)
        if kind is Kind.AUXILIARY or request.main:
            report = DirectiveReport((SUB_AGENT if request.main else SIDE_REQUEST,) * len(found))
            entry = await self._entry(request, state, kind)
            return msgspec.structs.replace(entry, report=report.header())
        state, report = await self._act(request, await self._with_files(found), message)
        # What it changed itself is read already.
        request = msgspec.structs.replace(request, mark=self.states.hints.mark())
        self._log(request, report)
        session = RequestSession(self.services, request, state, kind, message)
        return SessionView(request.asked, kind, session, state.routing, forced, report.header())

    def go_without(self, view: SessionView, owner: str, name: str | None) -> SessionView:
        """Return a view for a session whose state is away: only the last known routing counts."""
        assert name is not None
        routing = self.states.recall_routing(owner, name)
        return msgspec.structs.replace(view, routing=routing, is_away=True)

    async def look(self, request: SessionRequest) -> SessionView:
        """Return what is in force for a request whose directives do not act."""
        state = await self.states.read(request.key)
        return SessionView(request.asked, routing=state.routing)

    async def preview(self, request: SessionRequest, upstreams: Collection[str]) -> SessionView:
        """Return what would be sent and the kind of request; nothing is applied or stored."""
        state = NEW if request.key is None else await self.states.read(request.key)
        # Only a request without tools can be a side call, and only one with tools is remembered.
        kind = self._kind(request) if request.asked.tools else await self._judge(request, state)
        if kind is not Kind.AUXILIARY:
            request = await self._whole(request, await self._find_kept(request, state))
        if request.asked.directives:
            _, _, request = await self._read(request, upstreams)
        return SessionView(request.asked, kind)

    async def _pass_by(self, request: SessionRequest) -> SessionView:
        """Return what is in force for a request without directives, as nearly all are."""
        key = request.key
        state = NEW if key is None else await self.states.read(key)
        kind = await self._judge(request, state)
        if kind is not Kind.AUXILIARY and (state.kept or key is None):
            request = await self._whole(request, await self._find_kept(request, state))
        return await self._entry(request, state, kind)

    async def _judge(self, request: SessionRequest, state: SessionState) -> Kind:
        """Return the kind of a request, by its text and by what is known about its session."""
        kind = self._kind(request)
        if kind is Kind.AUXILIARY or request.key is None:
            return kind
        return Kind.AUXILIARY if await self._side_calls.judge(request, state) else kind

    async def _entry(self, request: SessionRequest, state: SessionState, kind: Kind) -> SessionView:
        """Make the view; a sub-agent has the routing of its main session."""
        routing = state.routing
        if request.main:
            routing = (
                await self.states.read(DocumentKey(KIND, request.owner, request.main))
            ).routing
        if kind is Kind.AUXILIARY:
            return SessionView(request.asked, kind, None, routing)
        return SessionView(
            request.asked, kind, RequestSession(self.services, request, state, kind), routing
        )

    async def _find_kept(
        self, request: SessionRequest, state: SessionState
    ) -> tuple[KeptTurn, ...]:
        """Return the kept turns that this request may contain parts of."""
        now_ms = self.states.store.now_ms
        if request.name is not None:
            return living(state, now_ms())
        found: list[KeptTurn] = []
        calls, entries = last_calls(request.dialect, request.asked), self.states.store.entries
        # All of them in one look; without one there is no time for them either.
        keys = [(request.owner, CALL + call) for call in calls]
        if keys and entries is not None and not await entries.look_also(keys):
            return ()
        for call in calls:
            state = await self.states.read(DocumentKey(KIND, request.owner, CALL + call))
            found += living(state, now_ms())
        return tuple(found)

    async def _whole(self, request: SessionRequest, kept: tuple[KeptTurn, ...]) -> SessionRequest:
        if not kept:
            return request
        body = request.asked.body
        work = partial(request.dialect.restore_turns, body, kept)
        body = await self.offload.run(request.owner, len(body), work)
        asked = request.asked.with_body(body)
        return msgspec.structs.replace(request, asked=asked)

    def _kind(self, request: SessionRequest) -> Kind:
        """Return the kind of a request, by the request alone."""
        mark = find_mark(request.dialect, request.asked, self.sentinels)
        if mark is Mark.COMPACTION:
            return Kind.COMPACTION
        if mark is Mark.SIDE_CALL and not request.asked.tools:
            return Kind.AUXILIARY
        return Kind.STRUCTURED if request.asked.structured else Kind.PLAIN

    async def _read(
        self, request: SessionRequest, upstreams: Collection[str]
    ) -> tuple[NewestMessage, tuple[Found, ...], SessionRequest]:
        keep_unknown = self.services.settings.keep_unknown
        work = partial(_take_directives, request, frozenset(upstreams), keep_unknown)
        if request.asked.facts is not None:
            work = partial(_take_from_large, request, work, self.sentinels)
        taken = await self.offload.run(request.owner, len(request.asked.body), work)
        asked = msgspec.structs.replace(request.asked.with_body(taken.body), facts=taken.facts)
        return taken.message, taken.found, msgspec.structs.replace(request, asked=asked)

    async def _act(
        self, request: SessionRequest, found: tuple[Found, ...], message: NewestMessage
    ) -> tuple[SessionState, DirectiveReport]:
        now = self.states.store.now_ms()
        if request.key is None:
            here = tuple(item for item in found if not needs_session(item))
            state, report = apply_directives(
                NEW, here, self.services.settings.rules, DirectiveContext(message, now)
            )
            elsewhere = (NEEDS_SESSION,) * (len(found) - len(here))
            return state, DirectiveReport((*report.effects, *elsewhere), report.lowered_to)
        if not found:
            return await self.states.read(request.key), DirectiveReport()
        reminded = await self._remind(request, found, message, now)
        context = DirectiveContext(message, now, reminded)
        setter = requester_of(request.dialect, request.asked).setter
        return await self._act_durably(request.key, found, context, setter)

    async def _remind(
        self, request: SessionRequest, found: tuple[Found, ...], message: NewestMessage, now: int
    ) -> Mapping[str, str]:
        """Set and clear reminders by the directives that are new; return the outcomes by source.

        This is done before the directives are remembered as seen. If the process dies in between,
        they act once more, and a reminder that exists already is not set again.
        """
        if not any(isinstance(item.directive, SetReminder | ClearReminders) for item in found):
            return {}
        state = await self.states.read(request.key)
        new = choose_new(found, message, state.seen, state.sent, now).new
        return {item.source: await self._clock(request, item.directive) for item in new}

    async def _clock(self, request: SessionRequest, directive: Directive | Unreadable) -> str:
        reminders, owner, name = self._reminders, request.owner, request.name
        if reminders is None or name is None:
            return "clock: switched off (clock.enabled)"
        try:
            if isinstance(directive, ClearReminders):
                await reminders.clear(owner, name)
            elif isinstance(directive, SetReminder):
                now_ms, rules = reminders.clock.now_ms(), reminders.rules
                wanted = read_item(directive.time, directive.message, "", "", now_ms, rules)
                setter = requester_of(request.dialect, request.asked).setter
                await reminders.schedule(owner, name, (wanted,), request.exchange_id, setter)
        except InvalidInput as invalid:
            return f"clock: {_plain(str(invalid))}"
        except StoreUnavailable as error:
            return f"clock: not stored: {_plain(error.message)}"
        return DONE

    async def _act_durably(
        self, key: DocumentKey, found: tuple[Found, ...], context: DirectiveContext, setter: str
    ) -> tuple[SessionState, DirectiveReport]:
        def change(
            state: SessionState,
        ) -> tuple[SessionState, tuple[SessionState, DirectiveReport]]:
            after, report = apply_directives(state, found, self.services.settings.rules, context)
            after = sign(after, setter, report)
            return after, (after, report)

        try:
            return await self.states.change(key, change)
        except StoreUnavailable as error:
            self.states.note("directive_not_stored", session=key.session, why=error.message)
            return await self.states.read(key), DirectiveReport(
                (f"not stored: {_plain(error.message)}",)
            )

    def _log(self, request: SessionRequest, report: DirectiveReport) -> None:
        who = {"owner": request.owner, "session": request.name}
        if report.reasons:
            # The reasons may quote what the user wrote, so they are not logged.
            self.states.note("directive_ignored", **who, count=len(report.reasons))
        if report.lowered_to is not None:
            self.states.note("stop_message_lowered", **who, repeats=report.lowered_to)

    async def _with_files(self, found: tuple[Found, ...]) -> tuple[Found, ...]:
        """Replace stop messages that name a file by the text of the file."""
        if not any(isinstance(item.directive, SetStopMessageFile) for item in found):
            return found
        return tuple([await self._with_file(item) for item in found])

    async def _with_file(self, item: Found) -> Found:
        if not isinstance(item.directive, SetStopMessageFile):
            return item
        settings = self.services.settings
        text = await anyio.to_thread.run_sync(load_stop_message, item.directive, settings)
        return replace(item, directive=text)


class _Taken(msgspec.Struct, frozen=True):
    """The newest user message, its directives, and the body without directives."""

    message: NewestMessage
    found: tuple[Found, ...]
    body: bytes
    facts: RequestFacts | None = None


def _take_directives(
    request: SessionRequest, upstreams: Collection[str], keep_unknown: bool
) -> _Taken:
    dialect, body = request.dialect, request.asked.body
    ordinal, texts = dialect.newest_user(body)
    alone = ordinal == 1 and dialect.has_one_message(body)
    message = NewestMessage(ordinal, texts, alone, request.attempt)
    # The newest message is read twice, and histories repeat texts.
    read_text = cache(partial(read, upstreams=upstreams, keep_unknown=keep_unknown))
    found = tuple(item for text in texts for item in read_text(text).directives)
    plain = dialect.edit_user_texts(body, partial(_without_directives, read_text))
    return _Taken(message, found, plain)


def _take_from_large(
    request: SessionRequest, work: Callable[[], _Taken], sentinels: Sentinels
) -> _Taken:
    """Take directives out of a large body, and read its facts again.

    The text that is left may begin with a sentinel. The texts themselves are not sent back.
    """
    taken = work()
    facts = read_facts(request.dialect, taken.body, request.name is not None, sentinels)
    message = taken.message.without_texts()
    return msgspec.structs.replace(taken, message=message, facts=facts)


def _without_directives(read_text: Callable[[str], Reading], text: str) -> str:
    plain = read_text(text).text
    return plain if plain == text or plain.strip(BLANKS) else ""


def _plain(text: str) -> str:
    """Make a sentence safe for a quoted header value."""
    ascii_only = text.encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() and c not in '"\\' else "'" for c in ascii_only)
