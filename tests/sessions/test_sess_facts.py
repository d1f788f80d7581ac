"""What a session looks up of a request, within bounds."""

import json

import pytest

from gateway.dialects import DIALECTS
from gateway.exchange.model import Mark, ModelRequest
from gateway.sessions.request_kind import Sentinels, last_calls, read_facts

CHAT = DIALECTS["openai-chat"]


def turn(name: str) -> dict[str, object]:
    call = {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize("is_large", [True, False])
def test_a_call_whose_id_is_megabytes_long_is_not_looked_up(is_large: bool) -> None:
    body = json.dumps({"model": "m", "messages": [turn("c" * 2**20), turn("c1")]}).encode()
    facts = read_facts(CHAT, body, False, Sentinels((), ())) if is_large else None
    assert last_calls(CHAT, ModelRequest("m", body, facts=facts)) == ("c1",)


SENTINELS = (
    "checkpoint compaction",
    "you are performing a checkpoint compaction",
    "handoff summary for another llm",
    'say "summary"',
    "line one\nline two",
    "a/b",
)
BLANKS = ("", " ", "\n\t")


@pytest.mark.parametrize("sentinel", SENTINELS)
@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("as_ascii", [True, False])
def test_the_quick_search_misses_no_sentinel(sentinel: str, blank: str, as_ascii: bool) -> None:
    """Whatever the case of its letters, and however JSON writes what stands around it."""
    sentinels = Sentinels(SENTINELS, ())
    for text in (sentinel, sentinel.upper(), f"{sentinel} now; “quoted” \\ and more"):
        message = {"role": "user", "content": blank + text}
        body = json.dumps({"model": "m", "messages": [message]}, ensure_ascii=as_ascii).encode()
        for written in (body, body.replace(b"/", b"\\/"), body.replace(b"\\n", b"\\u000a")):
            assert sentinels.find_mark(CHAT, written) is Mark.COMPACTION
    for text in ("summary", f"x {sentinel}", sentinel[:-1]):
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
        assert sentinels.find_mark(CHAT, body) is None
