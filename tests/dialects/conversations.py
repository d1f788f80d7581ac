"""Generated conversations: what each dialect can carry whole, and all that any of them can say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st

from gateway.dialects.canonical import (
    Call,
    Choice,
    Conversation,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Result,
    Text,
    Tool,
)
from gateway.dialects.translate.content_parts import ERROR_MARK
from gateway.dialects.translate.effort import EFFORTS
from gateway.dialects.translate.history import merge_turns, order_history

# Few words, chosen for what could go wrong with them: generated ones cost more and find no more.
WORDS = [
    "a",
    "two\nlines",
    "{}",
    '{"input":1}',
    "[tool",
    "é\u2028\U0001f600",
    '"\\',
    "data:x",
    "<system>",
]
trimmed = st.sampled_from(WORDS)
words = st.sampled_from([*WORDS, " a ", "b\n"])
names = st.sampled_from(["look", "apply_patch", "mcp__files__read", "clock"])
base64 = st.sampled_from(["AAAA", "iVBORw0KGgo=", "JVBERi0="])
objects = st.dictionaries(words, words | st.integers(-9, 9) | st.booleans(), max_size=2)
json_texts = objects.map(lambda value: msgspec.json.encode(value).decode())
schemas = objects.map(lambda extra: {"type": "object", "properties": {}, "x": extra})
GRAMMAR = {"syntax": "lark", "definition": "start: /.+/"}


@dataclass(frozen=True)
class Carries:
    """What one dialect can carry; the strategies are of single parts."""

    said: st.SearchStrategy[list[Part]]
    answered: st.SearchStrategy[list[Part]]
    arguments: st.SearchStrategy[str]
    returned: st.SearchStrategy[list[Any]]
    system: int
    inside: bool
    custom: bool
    strict: tuple[bool | None, ...]


def pictures(*details: str) -> st.SearchStrategy[Image]:
    there = st.builds(Image, url=st.just("https://x.test/a.png"), detail=st.sampled_from(details))
    here = st.builds(
        Image, media_type=st.just("image/png"), data=base64, detail=st.sampled_from(details)
    )
    return there | here


pdfs = st.builds(File, name=trimmed, media_type=st.just("application/pdf"), data=base64)
ids = st.builds(File, name=trimmed, id=st.just("file-1"))
urls = st.builds(File, url=st.just("https://x.test/a.pdf"))
plain = st.builds(File, name=trimmed | st.just(""), text=words)
texts = st.builds(Text, words)
refusals = st.builds(Refusal, words)
signed = st.builds(Reasoning, words, signature=trimmed)
redacted = st.builds(Reasoning, st.just(""), encrypted=trimmed, redacted=st.just(True))
encrypted = st.builds(
    Reasoning, words | st.just(""), encrypted=trimmed, id=st.just("rs_1") | st.just("")
)


def some(*parts: st.SearchStrategy[Any], least: int = 1) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(*parts), min_size=least, max_size=3)


def in_a_row(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """At most one of each, in this order."""
    return st.tuples(*(st.lists(part, max_size=1) for part in parts)).map(
        lambda found: [part for few in found for part in few]
    )


CARRIES = {
    "openai-chat": Carries(
        said=st.tuples(texts).map(list[Part])
        | st.tuples(pictures("", "low"), texts | pdfs | ids).map(list),
        answered=in_a_row(texts, refusals).filter(bool),
        arguments=json_texts | words,
        returned=st.lists(texts, min_size=1, max_size=1),
        system=1,
        inside=True,
        custom=False,
        strict=(None, True, False),
    ),
    "openai-responses": Carries(
        said=some(texts, pictures("", "high"), pdfs, ids, urls),
        answered=some(texts, refusals, encrypted, least=0),
        arguments=json_texts | words,
        returned=st.tuples(texts, some(texts, pictures(""), pdfs, least=0)).map(
            lambda found: [found[0], *found[1]]
        ),
        system=3,
        inside=True,
        custom=True,
        strict=(True, False),
    ),
    "anthropic-messages": Carries(
        said=some(texts, pictures(""), pdfs, urls, plain),
        answered=some(texts.map(lambda text: Text(text.text.strip())), signed, redacted, least=0),
        arguments=json_texts,
        returned=some(texts, pictures(""), pdfs, least=0),
        system=3,
        inside=False,
        custom=False,
        strict=(None, True),
    ),
}
ANYTHING = Carries(
    said=some(st.builds(Text, words | st.just("")), pictures("", "low"), pdfs, ids, urls, plain),
    answered=some(
        texts, refusals, signed, redacted, encrypted, st.builds(Reasoning, words), least=0
    ),
    arguments=json_texts | words,
    returned=some(texts, pictures("", "low"), pdfs, urls, plain, least=0),
    system=3,
    inside=True,
    custom=True,
    strict=(None, True, False),
)


@st.composite
def histories(draw: st.DrawFn, carries: Carries) -> tuple[Message, ...]:
    """A history that begins with the user, and in which some calls may wait for their results."""
    told: list[Message] = []
    for turn in range(draw(st.integers(1, 3))):
        if turn and carries.inside and draw(st.booleans()):
            told.append(Message("system", (Text(draw(words)),)))
        told.append(Message("user", tuple(draw(carries.said))))
        calls = [
            draw(_calls(carries, f"call_{turn}_{at}")) for at in range(draw(st.integers(0, 2)))
        ]
        parts = draw(carries.answered)
        told.append(Message("assistant", (*parts, *calls)))
        results = [Result(call.id, *draw(_outcomes(carries))) for call in calls]
        told.append(Message("user", tuple(results)))
    # What a model cannot go on from is not carried: its own thinking.
    told.append(Message("user", tuple(draw(carries.said))))
    return order_history(told, "messages")[1]


def _calls(carries: Carries, call_id: str) -> st.SearchStrategy[Call]:
    functions = st.builds(Call, st.just(call_id), names, carries.arguments)
    if not carries.custom:
        return functions
    return functions | st.builds(Call, st.just(call_id), names, words, st.just(True))


def _outcomes(carries: Carries) -> st.SearchStrategy[tuple[tuple[Any, ...], bool]]:
    unmarked = carries.returned.filter(
        lambda parts: not (parts and isinstance(parts[0], Text) and ERROR_MARK in parts[0].text)
    )
    return st.tuples(unmarked.map(tuple), st.booleans())


@st.composite
def tools(draw: st.DrawFn, carries: Carries) -> tuple[tuple[Tool, ...], Choice | None, bool | None]:
    """Tools, which of them is to be called, and whether several may be at once."""
    offered = []
    for name in draw(st.lists(names, unique=True, max_size=3)):
        if carries.custom and draw(st.booleans()):
            grammar = draw(st.sampled_from([{}, GRAMMAR]))
            offered.append(Tool(name, draw(words | st.just("")), grammar, custom=True))
        else:
            strict = draw(st.sampled_from(carries.strict))
            offered.append(Tool(name, draw(words | st.just("")), draw(schemas), strict))
    if not offered:
        return (), None, None
    choices = [None, *map(Choice, ("auto", "none", "required")), Choice("tool", offered[0].name)]
    parallel = draw(st.sampled_from([None, True, False]))
    return tuple(offered), draw(st.sampled_from(choices)), parallel


@st.composite
def conversations(draw: st.DrawFn, dialect: str) -> Conversation:
    """What a dialect can carry whole; an empty name for all that any can say."""
    carries = CARRIES.get(dialect, ANYTHING)
    offered, choice, parallel = draw(tools(carries))
    stream = draw(st.booleans())
    said = Conversation(
        model="m",
        stream=stream,
        system=tuple(draw(st.lists(words, max_size=carries.system))),
        messages=draw(histories(carries)),
        tools=offered,
        choice=choice,
        parallel=parallel,
        max_tokens=draw(st.none() | st.integers(16, 99)),
        temperature=draw(st.none() | st.sampled_from([0, 0.5, 1])),
        top_p=draw(st.none() | st.just(0.9)),
        stop=tuple(draw(st.lists(words, max_size=2))),
        effort=draw(st.sampled_from(["", *EFFORTS])),
        format=draw(st.sampled_from([None, {}, {"name": "n", "schema": {"a": 1}, "strict": True}])),
        user=draw(words | st.just("")),
        metadata=draw(st.sampled_from([{}, {"k": "v"}])),
        wants_usage=True,
    )
    return LIMITS[dialect](said)


def _chat(said: Conversation) -> Conversation:
    return msgspec.structs.replace(said, metadata={}, wants_usage=said.stream)


def _responses(said: Conversation) -> Conversation:
    return msgspec.structs.replace(said, stop=())


def _messages(said: Conversation) -> Conversation:
    """Think nothing: where that can be told depends on all the rest."""
    asked = None if not said.format else {"schema": said.format["schema"], "strict": True}
    told = said.choice is not None and said.choice.kind != "none"
    return msgspec.structs.replace(
        said,
        # The user and the model take turns there.
        messages=merge_turns(said.messages),
        max_tokens=said.max_tokens or 8192,
        top_p=None,
        effort="",
        format=asked,
        metadata={},
        parallel=said.parallel if told else None,
    )


LIMITS: dict[str, Callable[[Conversation], Conversation]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _messages,
    "": lambda said: said,
}
