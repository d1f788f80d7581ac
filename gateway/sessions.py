"""Sessions: what a request's directives do, and what its session says at the end of a turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec

from gateway.core.directive_forms import BLANKS
from gateway.core.directives import (
    NOTHING,
    Found,
    Routing,
    SetStopMessage,
    SetStopMessageFile,
    Unreadable,
    forced_route,
    read,
)
from gateway.core.model import Asked, Route
from gateway.core.session import (
    SessionState,
    StopMessage,
    StopRules,
    Told,
    decoded,
    directed,
    disarm,
    encoded,
    needs_session,
    use_one,
)
from gateway.core.work import none_left
from gateway.dialects.base import Dialect
from gateway.stores.base import Documents, Key, Shape, StoreUnavailable, amend, fetch
from gateway.tools.bd import Tracker

R = TypeVar("R")
Note = Callable[..., None]
Change = Callable[[SessionState], tuple[SessionState, R]]

KIND = "session"
SHAPE = Shape(KIND, 1, SessionState(), encoded, decoded)
REMEMBERED_SESSIONS = 10_000
NEEDS_SESSION = "this needs a session id, for instance the header x-session-id"
SIDE_REQUEST = "side requests of an agent do not act"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator says about sessions."""

    rules: StopRules = field(default_factory=StopRules)
    files_dir: Path | None = None
    bd_mode: str = "auto"
    sentinels: tuple[str, ...] = ()


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A request after its session was looked at: what to send, where to, and what to tell."""

    asked: Asked
    session: Session | None = None
    routing: Routing = NOTHING
    forced: Route | None = None
    told: str = ""


class Visit(msgspec.Struct, frozen=True, gc=False):
    """One request on its way into its session."""

    owner: str
    name: str | None
    asked: Asked
    dialect: Dialect

    @property
    def key(self) -> Key | None:
        """Where the session's state is kept, if the request names a session."""
        return Key(KIND, self.owner, self.name) if self.name is not None else None


class Sessions:
    """Opens the session of each request."""

    def __init__(self, store: Documents, settings: Settings, tracker: Tracker, note: Note) -> None:
        self.store = store
        self.settings = settings
        self.tracker = tracker
        self.note = note
        # Counts what this process changes, so that an exchange need not read again what it read.
        self.changes = 0
        self._tooled: OrderedDict[Key, bytes] = OrderedDict()

    async def enter(self, visit: Visit, upstreams: Collection[str]) -> Entry:
        """Take directives out of a request, let them act, and say what is in force."""
        if not visit.asked.directives:
            return await self._pass_by(visit)
        ordinal, found, visit = self._read(visit, upstreams)
        forced = forced_route(item.directive for item in found)
        if self._is_auxiliary(visit):
            state = await self._state(visit.key)
            told = Told((SIDE_REQUEST,) * len(found))
            return Entry(visit.asked, None, state.routing, None, told.header())
        state, told = await self._act(visit, await self._with_files(found), ordinal)
        self._log(visit, told)
        session = Session(self, visit, state)
        return Entry(visit.asked, session, state.routing, forced, told.header())

    async def _pass_by(self, visit: Visit) -> Entry:
        """Say what is in force for a request that asks for no change of it, as nearly all do."""
        key = visit.key
        if key is None:
            return Entry(visit.asked)
        state = await self._state(key)
        session = None if self._is_auxiliary(visit) else Session(self, visit, state)
        return Entry(visit.asked, session, state.routing)

    async def change(self, key: Key, change: Change[R]) -> R:
        """Change a session's state, durably; raises if that cannot be."""
        try:
            return await amend(self.store, key, change, SHAPE)
        finally:
            self.changes += 1

    async def forget(self, owner: str, name: str) -> None:
        """Remove all that is kept of a session."""
        await self.store.delete(Key(KIND, owner, name))
        self.changes += 1

    async def state(self, owner: str, name: str) -> SessionState:
        """Return what is kept of a session; raises if the store is down."""
        return await fetch(self.store, Key(KIND, owner, name), SHAPE)

    def _read(
        self, visit: Visit, upstreams: Collection[str]
    ) -> tuple[int, tuple[Found, ...], Visit]:
        body = visit.asked.body
        ordinal, texts = visit.dialect.newest_user(body)
        found = tuple(item for text in texts for item in read(text, upstreams).directives)
        plain = visit.dialect.edit_user_texts(body, partial(_without_directives, upstreams))
        asked = msgspec.structs.replace(visit.asked, body=plain)
        return ordinal, found, msgspec.structs.replace(visit, asked=asked)

    async def _act(
        self, visit: Visit, found: tuple[Found, ...], ordinal: int
    ) -> tuple[SessionState, Told]:
        now = self.store.now_ms()
        if visit.key is None:
            here = tuple(item for item in found if not needs_session(item))
            state, told = directed(SessionState(), here, ordinal, self.settings.rules, now)
            elsewhere = (NEEDS_SESSION,) * (len(found) - len(here))
            return state, Told((*told.effects, *elsewhere), told.lowered_to)
        if not found:
            return await self._state(visit.key), Told()
        return await self._act_durably(visit.key, found, ordinal, now)

    async def _act_durably(
        self, key: Key, found: tuple[Found, ...], ordinal: int, now: int
    ) -> tuple[SessionState, Told]:
        def change(state: SessionState) -> tuple[SessionState, tuple[SessionState, Told]]:
            after = directed(state, found, ordinal, self.settings.rules, now)
            return after[0], after

        try:
            return await self.change(key, change)
        except StoreUnavailable as error:
            self.note("directive_not_stored", session=key.session, why=error.message)
            return await self._state(key), Told((f"not stored: {_plain(error.message)}",))

    def _log(self, visit: Visit, told: Told) -> None:
        who = {"owner": visit.owner, "session": visit.name}
        if told.reasons:
            # The reasons may repeat what the user wrote; they are told to the user alone.
            self.note("directive_ignored", **who, count=len(told.reasons))
        if told.lowered_to is not None:
            self.note("stop_message_lowered", **who, repeats=told.lowered_to)

    async def _state(self, key: Key | None) -> SessionState:
        """Return what is in force; without a working store, nothing is."""
        if key is None:
            return SessionState()
        try:
            return await fetch(self.store, key, SHAPE)
        except StoreUnavailable as error:
            self.note("session_not_read", owner=key.owner, session=key.session, why=error.message)
            return SessionState()

    async def _with_files(self, found: tuple[Found, ...]) -> tuple[Found, ...]:
        """Put the texts of files in the place of their names."""
        if not any(isinstance(item.directive, SetStopMessageFile) for item in found):
            return found
        return tuple([await self._with_file(item) for item in found])

    async def _with_file(self, item: Found) -> Found:
        if not isinstance(item.directive, SetStopMessageFile):
            return item
        text = await anyio.to_thread.run_sync(_loaded, item.directive, self.settings)
        return replace(item, directive=text)

    def _is_auxiliary(self, visit: Visit) -> bool:
        """Tell a coding agent's side call (a title, a summary) from its conversation.

        Once a session has sent tools, a request without any, under another system text, is one.
        """
        key = visit.key
        if key is None or (not visit.asked.has_tools and key not in self._tooled):
            return False
        system = "\0".join(visit.dialect.system_texts(visit.asked.body))
        digest = sha256(system.encode(errors="surrogatepass")).digest()
        if not visit.asked.has_tools:
            return self._tooled[key] != digest
        self._tooled[key] = digest
        self._tooled.move_to_end(key)
        if len(self._tooled) > REMEMBERED_SESSIONS:
            self._tooled.popitem(last=False)
        return False


class Session:
    """A session, for the length of one exchange: what it says when a turn has ended."""

    def __init__(self, sessions: Sessions, visit: Visit, state: SessionState) -> None:
        self._sessions = sessions
        self._visit = visit
        self._read = state
        self._read_at = sessions.changes
        self._offered: StopMessage | None = None
        self._claimed: StopMessage | None = None
        self._compacts: bool | None = None

    async def repeat(self) -> str | None:
        """Return the text to go on with, if the stop message may be sent once more."""
        # Without an id what is in force lives and dies with the exchange.
        if self._read_at != self._sessions.changes and self._visit.key is not None:
            self._read_at = self._sessions.changes
            self._read = await self._sessions._state(self._visit.key)
        stop = self._read.stop
        if stop is None or not stop.armed or not self._sessions.settings.rules.enabled:
            return None
        self._offered = stop
        return None if self._is_compaction() else stop.text

    async def claim(self, said: str) -> bool:
        """Count one use of what was offered, durably; False when none is left, or no work is."""
        if await self._no_work_left(said):
            self._log("stop_message_rests", why="no work is left")
            return False
        stop, now = self._offered, self._sessions.store.now_ms()
        assert stop is not None
        self._claimed = stop
        return await self._change(lambda state: use_one(state, stop, now), failed=False)

    async def disarm(self, reason: str) -> None:
        """Take the stop message that was claimed last as spent."""
        stop = self._claimed
        assert stop is not None
        self._log("stop_message_disarmed", why=reason)
        await self._change(lambda state: (disarm(state, stop), None), failed=None)

    async def _change(self, change: Change[R], failed: R) -> R:
        if self._visit.key is None:
            self._read, answer = change(self._read)
            return answer
        try:
            return await self._sessions.change(self._visit.key, change)
        except StoreUnavailable as error:
            self._log("session_not_stored", why=error.message)
            return failed

    async def _no_work_left(self, said: str) -> bool:
        mode = self._sessions.settings.bd_mode
        left = None if mode == "heuristic" else await self._sessions.tracker.work_left()
        if left is None and mode != "runtime":
            return none_left(said)
        return left is False

    def _is_compaction(self) -> bool:
        if self._compacts is None:
            dialect, body = self._visit.dialect, self._visit.asked.body
            texts = (*dialect.newest_user(body)[1], *dialect.system_texts(body))
            starts = tuple(s.casefold() for s in self._sessions.settings.sentinels)
            self._compacts = any(text.lstrip().casefold().startswith(starts) for text in texts)
        return self._compacts

    def _log(self, event: str, **fields: object) -> None:
        self._sessions.note(event, owner=self._visit.owner, session=self._visit.name, **fields)


def _without_directives(upstreams: Collection[str], text: str) -> str:
    plain = read(text, upstreams).text
    return plain if plain == text or plain.strip(BLANKS) else ""


def _loaded(directive: SetStopMessageFile, settings: Settings) -> SetStopMessage | Unreadable:
    """Read the text of a file inside the operator's directory, and of no other."""
    if settings.files_dir is None:
        return Unreadable("stopMessage", "files are switched off (stop_message.files_dir)")
    root, longest = settings.files_dir.resolve(), settings.rules.longest_bytes
    name = Path(directive.name)
    try:
        path = (root / name).resolve(strict=True)
        if name.is_absolute() or ".." in name.parts or not path.is_relative_to(root):
            return Unreadable("stopMessage", "the file is not inside stop_message.files_dir")
        # Of anything but a plain file the reading might never end.
        if not path.is_file() or path.stat().st_size > longest:
            return Unreadable("stopMessage", f"it is not a file of at most {longest} bytes")
        return SetStopMessage(path.read_bytes().decode(), directive.repeats)
    except (OSError, RuntimeError, ValueError):
        return Unreadable("stopMessage", "the file cannot be read")


def _plain(text: str) -> str:
    """Fit a sentence into a quoted header value."""
    ascii_only = text.encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() and c not in '"\\' else "'" for c in ascii_only)
