"""What the writers of requests do alike: they say one conversation to one upstream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from gateway.dialects.canonical import Conversation, Tool
from gateway.dialects.profiles import Profile, form_for
from gateway.dialects.translate.effort import nearest
from gateway.dialects.translate.json_format import Format, describe_format
from gateway.dialects.translate.json_node import Losses

Members = dict[str, Any]

JSON_OBJECT: Members = {"type": "json_object"}


class RequestWriter(ABC):
    """Writes one request; what cannot be told is named as lost, or refused by `BadRequest`."""

    def __init__(self, conversation: Conversation, profile: Profile, losses: Losses) -> None:
        self._conversation = conversation
        self._profile = profile
        self._losses = losses

    def write(self) -> bytes:
        """Return the whole request; a member without a value is left to the upstream."""
        members = self._members()
        kept = {name: value for name, value in members.items() if self._keeps(name, value)}
        return msgspec.json.encode(kept)

    @abstractmethod
    def _members(self) -> Members:
        """Return all members, None for those that nothing is said about."""

    def _keeps(self, name: str, value: object) -> bool:
        return value is not None


class OpenAIRequestWriter(RequestWriter):
    """Writes what Chat Completions and Responses say by the same rules."""

    def _format(self) -> tuple[Members | None, tuple[str, ...]]:
        """Return the format that is asked for, and the instructions that stand in for the rest."""
        asked, system = self._conversation.format, self._conversation.system
        if asked is None:
            return None, system
        if not asked:
            return JSON_OBJECT, system
        if self._profile.schemas:
            return self._schema({"name": "answer", **asked}), system
        # Any JSON object is the most that this upstream can be held to: the rest is asked in words.
        self._losses.add("format")
        return JSON_OBJECT, (*system, describe_format(asked))

    def _effort(self) -> tuple[str, str]:
        """Return by which member the effort is told, and its word; nothing if it cannot be told."""
        effort, profile = self._conversation.effort, self._profile
        form = form_for(profile.effort, self._conversation.model)
        word = nearest(effort, profile.efforts) if effort and form else ""
        if effort and not word:
            self._losses.add("effort")
        return form, word

    def _tools(self) -> Members:
        conversation, choice = self._conversation, self._conversation.choice
        if not conversation.tools:
            # Upstreams refuse a choice, or a word on parallel calls, where no tool is offered.
            return {}
        word: Any = choice.kind if choice else None
        if choice and choice.kind == "tool":
            word = self._force_tool(choice.name)
        return {
            "tools": [self._tool(tool) for tool in conversation.tools],
            "tool_choice": word,
            "parallel_tool_calls": conversation.parallel,
        }

    @abstractmethod
    def _schema(self, asked: Format) -> Members:
        """Return the format of an answer that has to follow a JSON schema."""

    @abstractmethod
    def _tool(self, tool: Tool) -> Members:
        """Return the declaration of a tool."""

    @abstractmethod
    def _force_tool(self, name: str) -> Members:
        """Return the choice that forces this tool."""


def describe_tool(tool: Tool) -> Members:
    """Return the name of a tool, and what it does if that is said."""
    return {"name": tool.name} | present(description=tool.description)


def present(**members: Any) -> Members:
    """Return the members that say something."""
    return {name: value for name, value in members.items() if value}
