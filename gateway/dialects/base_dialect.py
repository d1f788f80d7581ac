"""What the dialects do alike; the class of each states only what differs.

A dialect's class says how one message is read and where messages, instructions and tools stand.
What only that dialect can decide (reading a request, adding to it, splices, errors) it brings as
methods or as functions of its own package. A new dialect is a package with such a class, and a
line in `__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    NULL,
    Fields,
    Raws,
    array,
    drop_duplicates,
    edit_items,
    fields_of,
    find_list,
    forces_one,
    name_model,
    raw,
    raws_in,
    read_as,
    readable,
    rename_model,
    type_in,
    write_object,
)
from gateway.dialects.seals import may_be_sealed
from gateway.dialects.text_editor import Edit, SpokenMessage, TextEditor, texts_in
from gateway.errors import BadRequest, HoldgateError
from gateway.exchange.additions import ToolDeclaration
from gateway.exchange.model import ModelRequest
from gateway.sessions.directives.reader import may_contain
from gateway.sessions.model import KeptTurn
from gateway.wire.sse import encode

TOOLS = "tools"
NO_MEMBERS: Mapping[str, bytes] = {}

_tools = msgspec.json.Decoder(list[Any])


class RequestMembers(msgspec.Struct, gc=False):
    """The members of a request that the gateway looks at; what is long stays a raw slice.

    A dialect adds those that only it has, and says what they mean.
    """

    identities: ClassVar[tuple[str, ...]] = ("metadata", "client_metadata", "conversation")
    """The members that may name a session."""
    model: str | None = None
    stream: bool | None = None
    tools: msgspec.Raw = ABSENT
    tool_choice: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT

    @abstractmethod
    def check(self) -> None:
        """Raise `BadRequest` if the conversation is not what it should be."""

    @abstractmethod
    def last_role(self) -> str:
        """Return who speaks last: `tool` for a tool's result; nothing if it cannot be told."""

    @abstractmethod
    def is_structured(self) -> bool:
        """Whether the answer has to have a form."""

    @abstractmethod
    def takes_tools(self) -> bool:
        """Whether a tool can be added, as far as its form does not forbid it."""

    def choices(self) -> int:
        """Return how many answers are wanted."""
        return 1

    @abstractmethod
    def wants_usage(self) -> bool:
        """Whether the client wants to be told the usage at the end of a stream."""

    def identity(self) -> Mapping[str, bytes]:
        """Return the members that may name a session, as JSON."""
        found: dict[str, bytes] = {}
        for name in self.identities:
            if (value := getattr(self, name)) is not ABSENT:
                found[name] = bytes(value)
        return found


class RequestWithMessages(RequestMembers, gc=False):
    """That of a request whose conversation is a list of messages."""

    messages: msgspec.Raw = ABSENT

    def check(self) -> None:
        """Raise `BadRequest` if there is no list of messages."""
        if bytes(memoryview(self.messages)[:1]) != b"[":
            raise BadRequest("`messages` must be an array of messages.", param="messages")


class BaseDialect(ABC):
    """Reads, changes and answers requests of one wire language."""

    name: str
    history: ClassVar[str] = "messages"
    """The member that holds the conversation."""
    quoted_history: ClassVar[bytes] = b'"messages"'
    splices: ClassVar[bool] = False
    """Whether `add` can put additions into a body where its history ends."""
    instructions: ClassVar[str | None] = None
    """The member beside it that instructs the model, if there is one."""
    system_roles: ClassVar[tuple[str, ...]] = ("system", "developer")
    tool_members: ClassVar[tuple[str, ...]]
    """The members that make sense only with the client's tools."""
    hosted_tools: ClassVar[tuple[str, ...]] = ()
    """How the types of tools begin that the upstream runs by itself."""
    request_decoder: ClassVar[msgspec.json.Decoder[Any]]
    """Reads the `RequestMembers` of a request."""
    read_members: ClassVar[tuple[bytes, ...]]
    """The members that are read, which the upstream must read as we do, each in its quotes."""
    forced_types: ClassVar[tuple[str, ...]] = ("function", "custom")
    """The types of a tool choice that forces one tool of the client's."""
    error_event: ClassVar[str] = ""
    """The name of an error's event; without a name for it, clients do not see some."""
    editor: ClassVar[TextEditor] = TextEditor("text")

    # Called for every request: the function itself, not a method that would only call it.
    rewrite = staticmethod(rename_model)

    def read(
        self, body: bytes, depth: int, prefers_stream: bool = False, default_model: str = ""
    ) -> ModelRequest:
        """Read a client's request, or raise `BadRequest` naming the field."""
        request: RequestMembers = read_as(self.request_decoder, body, depth)
        history, given = bytes(getattr(request, self.history)), body
        end, beside = find_list(body, self.quoted_history, history)
        body = drop_duplicates(body, self.read_members, history, beside if end else b"")
        model, body = name_model(body, request.model, default_model)
        request.check()
        can_splice = self.splices and body is given and request.tools is ABSENT
        said, choice = request.stream, request.tool_choice
        structured = request.is_structured()
        return ModelRequest(
            model=model,
            body=body,
            stream=prefers_stream if said is None else said,
            stream_implied=prefers_stream and said is None,
            choices=request.choices(),
            wants_usage=request.wants_usage(),
            tools=b"" if request.tools is ABSENT else array(request.tools, TOOLS),
            takes_tools=not structured and request.takes_tools(),
            structured=structured,
            forces_one=choice is not ABSENT and forces_one(choice, self.forced_types),
            last_role=request.last_role(),
            directives=may_contain(body),
            identity=request.identity(),
            history_end=end if can_splice else 0,
        )

    @abstractmethod
    def read_message(self, item: msgspec.Raw) -> SpokenMessage | None:
        """Read who speaks and what; None for what does not count as a message."""

    @abstractmethod
    def restore(self, body: bytes, kept: tuple[KeptTurn, ...]) -> bytes:
        """Put calls and results that were kept in this dialect back into their turns."""

    @abstractmethod
    def strip_reasoning(self, body: bytes) -> bytes:
        """Take reasoning out that is marked for another dialect's upstream."""

    @abstractmethod
    def error_body(self, error: HoldgateError) -> bytes:
        """Render an error as the whole answer."""

    def items_of(self, fields: Fields) -> Raws:
        """Return the messages of a request as raw slices."""
        return raws_in(fields.get(self.history, NULL)) or []

    def is_users(self, message: SpokenMessage) -> bool:
        """Whether the user says something."""
        return message.role == "user"

    def tool_name(self, tool: dict[str, Any]) -> object:
        """Return what a declared tool is called."""
        return tool.get("name")

    def strip_foreign_reasoning(self, body: bytes) -> bytes:
        """Take out reasoning that only an upstream of another dialect would take back."""
        # The search saves parsing the history of nearly every request (test_fast_paths.py).
        return self.strip_reasoning(body) if may_be_sealed(body) else body

    def ask_usage(self, body: bytes) -> bytes:
        """Return the body: a stream tells its usage unasked."""
        return body

    def strip_tools(self, body: bytes) -> bytes:
        """Take out the client's tools: nobody is there to run them when a job asks."""
        fields = fields_of(body)
        tools = raws_in(fields.pop(TOOLS, NULL)) or ()
        left = {name: value for name, value in fields.items() if name not in self.tool_members}
        if hosted := [tool for tool in tools if type_in(tool).startswith(self.hosted_tools)]:
            left[TOOLS] = raw(hosted)
        return write_object(left)

    def declares(self, tools: bytes, name: str) -> bool:
        """Whether the client offers a tool of this name."""
        # The search saves parsing the tools. A name may be written with escapes, so only where
        # there are none its bytes tell (test_fast_paths.py).
        if not tools or (name.encode() not in tools and b"\\u" not in tools):
            return False
        declared = (tool for tool in readable(_tools, tools) or () if isinstance(tool, dict))
        return name in map(self.tool_name, declared)

    def restore_turns(self, body: bytes, kept: tuple[KeptTurn, ...]) -> bytes:
        """Put kept calls and results back into the turns they were taken from."""
        return self.restore(body, tuple(item for item in kept if item.dialect == self.name))

    def newest_user(self, body: bytes) -> tuple[int, tuple[str, ...]]:
        """Return the ordinal and the texts of the newest user message; 0 and none without one."""
        messages = self._messages(fields_of(body))
        contents = [message.content for message in messages if self.is_users(message)]
        return len(contents), texts_in(contents[-1]) if contents else ()

    def has_one_message(self, body: bytes) -> bool:
        """Whether the user says one thing, and nothing of a model or a tool is in the request."""
        roles = [message.role for message in self._messages(fields_of(body))]
        return [role for role in roles if role not in self.system_roles] == ["user"]

    def system_texts(self, body: bytes) -> tuple[str, ...]:
        """Return the texts that instruct the model."""
        fields = fields_of(body)
        messages = self._messages(fields)
        contents = [message.content for message in messages if message.role in self.system_roles]
        if self.instructions is not None:
            contents.insert(0, fields.get(self.instructions, NULL))
        return tuple(text for content in contents for text in texts_in(content))

    def edit_user_texts(self, body: bytes, edit: Edit) -> bytes:
        """Change the texts of user messages that may hold a directive; keep the rest as it is."""
        fields = fields_of(body)
        return write_object(fields) if self.edit_history(fields, edit) else body

    def edit_history(self, fields: Fields, edit: Edit) -> bool:
        """Change what users said; tell whether anything was changed."""

        def edit_messages(items: Raws) -> Raws:
            return [self._edit_item(item, edit) for item in items]

        return edit_items(fields, self.history, edit_messages)

    def error_frame(self, error: HoldgateError, splice: Splice | None = None) -> bytes:
        """Render an error inside a stream."""
        body = self.error_body(error).replace(b"\n", b" ").replace(b"\r", b" ")
        return encode(body, self.error_event)

    def _messages(self, fields: Fields) -> list[SpokenMessage]:
        read = map(self.read_message, self.items_of(fields))
        return [message for message in read if message is not None]

    def _edit_item(self, item: msgspec.Raw, edit: Edit) -> msgspec.Raw:
        message = self.read_message(item)
        if message is None or message.role != "user":
            return item
        return self.editor.message(item, message.content, edit)


def describe_function(tool: ToolDeclaration) -> dict[str, object]:
    """Declare a tool of the gateway's as OpenAI's two dialects do."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.Raw(tool.schema.encode()),
        "strict": tool.strict,
    }
