"""Any course of events on a store, against a dictionary that does the same."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gateway.stores import Conflict, DocumentKey, Documents, Listed, SealedDocument

from .conftest import Backend

KEYS = st.builds(
    DocumentKey,
    st.sampled_from(["clock", "session"]),
    st.sampled_from(["local", "ann"]),
    st.sampled_from(["a", "A", "a/b", "a_b", "ntp-state", "", "🦆"]),
)
TIMES = st.integers(0, 50)


class AgainstADictionary(RuleBasedStateMachine):
    """The store, and what it should hold: the draft and revision of each key."""

    backend_name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[DocumentKey, tuple[SealedDocument, int]] = {}
        self.revisions: set[int] = {0, 999_999}
        self.directory = tempfile.TemporaryDirectory()
        self.backend = Backend(self.backend_name, Path(self.directory.name))
        self.runner = asyncio.Runner()
        self.serial = 0
        self.store: Documents = self.run(self.backend.open())

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def revision(self, key: DocumentKey) -> int:
        return self.model[key][1] if key in self.model else 0

    def draft(self, key: DocumentKey, updated_ms: int, due_ms: int | None) -> SealedDocument:
        # A document of its own each time, that says what a scan after opening has to find.
        self.serial += 1
        fields = (
            f'{{"version":1,"owner":"{key.owner}","sessionId":"{key.session}","count":{self.serial},'
            f'"text":"","dueMs":{"null" if due_ms is None else due_ms},"updatedAtMs":{updated_ms}}}'
        )
        return SealedDocument(fields.encode(), updated_ms, due_ms)

    @rule(key=KEYS, updated_ms=TIMES, due_ms=st.none() | TIMES)
    def write(self, key: DocumentKey, updated_ms: int, due_ms: int | None) -> None:
        draft = self.draft(key, updated_ms, due_ms)
        revision = self.run(self.store.write(key, draft, self.revision(key)))
        assert revision not in self.revisions
        self.revisions.add(revision)
        self.model[key] = (draft, revision)

    @rule(key=KEYS, data=st.data())
    def write_another_revision(self, key: DocumentKey, data: st.DataObject) -> None:
        stale = data.draw(st.sampled_from(sorted(self.revisions - {self.revision(key)})))
        with pytest.raises(Conflict):
            self.run(self.store.write(key, self.draft(key, 1, None), stale))
        with pytest.raises(Conflict):
            self.run(self.store.delete(key, stale))

    @rule(key=KEYS, named=st.booleans())
    def delete(self, key: DocumentKey, named: bool) -> None:
        self.run(
            self.store.delete(key, self.revision(key) if named and key in self.model else None)
        )
        self.model.pop(key, None)

    @rule(key=KEYS)
    def set_aside(self, key: DocumentKey) -> None:
        before = len(self.backend.quarantined)
        self.run(self.store.set_aside(key, self.revision(key), "It is a test."))
        there = self.model.pop(key, None) is not None
        assert len(self.backend.quarantined) == before + there

    @precondition(lambda self: self.backend_name != "memory")
    @rule()
    def close_and_open(self) -> None:
        self.run(self.store.aclose())
        self.store = self.run(self.backend.open())

    @rule(key=KEYS)
    def read(self, key: DocumentKey) -> None:
        stored = self.run(self.store.read(key))
        found = stored and (stored.document, stored.revision)
        expected = self.model.get(key)
        assert found == (expected and (expected[0].document, expected[1]))

    @invariant()
    def due_is_what_is_due(self) -> None:
        ordered = sorted(
            (draft.due_ms, key)
            for key, (draft, _) in self.model.items()
            if key.kind == "clock" and draft.due_ms is not None
        )
        expected = [key for due_ms, key in ordered if due_ms < 25]
        assert self.run(self.store.due("clock", 25, 3)) == expected[:3]

    @invariant()
    def listing_is_all_there_is(self) -> None:
        expected = sorted(
            (
                Listed(draft.updated_ms, key.session)
                for key, (draft, _) in self.model.items()
                if key[:2] == ("clock", "ann")
            ),
            reverse=True,
        )
        found: list[Listed] = []
        while page := self.run(self.store.listing("clock", "ann", found[-1] if found else None, 2)):
            found += page
        assert found == expected

    def teardown(self) -> None:
        self.run(self.store.aclose())
        self.runner.close()
        self.directory.cleanup()


@pytest.mark.parametrize("name", ["memory", "files", "sqlite"])
def test_any_course_of_events(name: str) -> None:
    machine = type("Machine", (AgainstADictionary,), {"backend_name": name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
