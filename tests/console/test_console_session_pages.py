"""Pages of sessions: whatever is in which list, each session comes once, the last used first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.console.session_pages import SessionPages, SessionPlace, SessionQuery
from gateway.reminders.reminder_documents import KIND as CLOCK
from gateway.sessions.session_request import KIND as STATE
from gateway.stores.conversation_rows import AgentConversation
from gateway.stores.documents import DocumentKey, SealedDocument, SessionKey, Stored
from gateway.stores.memory import Memory
from gateway.stores.sqlite.rows import RowServices, open_memory_rows

Entry = tuple[str, str, str, int]
"""In which list, whose, which session, and when it was used."""
LISTS = (STATE, CLOCK, "conversation", "other")
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(LISTS),
        st.sampled_from(["ann", "bob", "cy"]),
        st.sampled_from(["a", "b", "c", "d", "a\0", ""]),
        st.integers(1, 4),
    ),
    unique_by=lambda entry: entry[:3],
    max_size=30,
)


class CountingMemory(Memory):
    """A store that counts how many documents were read."""

    reads = 0

    async def read(self, key: DocumentKey) -> Stored | None:
        self.reads += 1
        return await super().read(key)


def quiet(name: str, reason: str) -> None:
    raise AssertionError(name)


async def find_all(entries: Sequence[Entry], owner: str | None, limit: int) -> list[SessionKey]:
    store, others = CountingMemory(lambda: 0, quiet), dict[SessionKey, int]()
    rows = open_memory_rows(RowServices(lambda: 0, lambda: 0, quiet))
    found: list[SessionKey] = []
    try:
        for kind, of, session, at_ms in entries:
            if kind == "other":
                others[of, session] = at_ms
            elif kind == "conversation":
                talk = AgentConversation(of, "agent", session, updated_ms=at_ms)
                await rows.conversations.put(talk)
            else:
                await store.write(DocumentKey(kind, of, session), SealedDocument(b"x", at_ms), 0)
        pages, after = SessionPages(store, rows.conversations, others), None
        while page := await pages.find_page(SessionQuery(owner, limit, after)):
            assert len(page) <= limit
            found += [place.key for place in page]
            after = page[-1]
    finally:
        await rows.aclose()
    assert store.reads == 0
    return found


def order(entries: Sequence[Entry], owner: str | None) -> list[SessionKey]:
    newest: dict[SessionKey, int] = {}
    for _, of, session, at_ms in entries:
        if owner in (None, of):
            newest[of, session] = max(newest.get((of, session), 0), at_ms)
    places = [SessionPlace(at_ms, session, of) for (of, session), at_ms in newest.items()]
    return [place.key for place in sorted(places, reverse=True)]


@given(ENTRIES, st.sampled_from([None, "ann", "bob"]), st.integers(1, 5))
async def test_pages_together_are_the_list(
    entries: list[Entry], owner: str | None, limit: int
) -> None:
    assert await find_all(entries, owner, limit) == order(entries, owner)


@pytest.mark.parametrize("limit", [1, 7, 500])
async def test_nothing_is_read_but_the_index(limit: int) -> None:
    entries = [(STATE, "ann", f"s{number}", number) for number in range(1, 40)]
    assert await find_all(entries, "ann", limit) == order(entries, "ann")
