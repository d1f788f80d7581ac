"""What the turns of one streamed Responses answer share, and what is left of each."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gateway.dialects.events import CallIds, Json
from gateway.dialects.openai_responses.items import fields_in, text_in
from gateway.dialects.raw_json import Fields


@dataclass(slots=True, eq=False)
class ResponsesAnswer:
    """What all turns of one answer share: how it is named, and which tools are ours."""

    _ids: CallIds
    tools: frozenset[str]
    envelope: Fields | None = None

    @property
    def id(self) -> str:
        """The id by which the client knows it."""
        return text_in(self.envelope or {}, "id")

    def adopt(self, response: msgspec.Raw) -> None:
        """Take the first response that comes as the answer's; its id stays."""
        if self.envelope is None:
            self.envelope = fields_in({"response": response}, "response") or None

    def call_id(self, turn: int, ordinal: int) -> str:
        """Make up an id for a call that came without one."""
        return self._ids.make(self.id, turn, ordinal)


class FinishedResponsesTurn(msgspec.Struct, frozen=True, gc=False):
    """What the rest of an answer takes of a turn that is part of it."""

    final: Fields
    end_kind: str
    end_frame: bytes
    edited: bool
    items: list[Json]
    sequence: int

    def visible(self) -> list[Json]:
        """Return the items that the client has seen of it."""
        return self.items

    def last_sequence(self) -> int:
        """Return the number of the last event that was shown."""
        return self.sequence
