"""What is written towards an upstream is what the vendor's own SDK could have sent."""

import json

from hypothesis import given, settings

from gateway.dialects.canonical import Conversation
from gateway.dialects.profiles import NONE
from gateway.dialects.translate.json_node import Losses
from gateway.dialects.translate.requests import WRITERS
from gateway.errors import BadRequest
from tests.dialects.conversations import conversations
from tests.dialects.sdk_types import misfits

# The newest models of Messages do not take them, so its SDK has dropped them.
SAMPLING = ("$.temperature", "$.top_p")


@settings(max_examples=60)
@given(conversations(""))
def test_what_is_written_is_what_the_sdk_would_send(said: Conversation) -> None:
    for dialect, writer in WRITERS.items():
        try:
            written = writer(said, NONE, Losses()).write()
        except BadRequest:
            continue
        found = misfits(dialect, json.loads(written))
        assert [one for one in found if one.split(":")[0] not in SAMPLING] == []


def test_the_oracle_sees_what_is_wrong() -> None:
    image = {"type": "image", "source": {"type": "url", "url": 1}}
    body = {
        "model": "m",
        "max_tokens": "1",
        "max_output_tokens": 1,
        "messages": [{"role": "tool", "content": ""}, {"role": "user", "content": [image]}],
    }
    assert {one.split(":")[0] for one in misfits("anthropic-messages", body)} == {
        "$.max_tokens",
        "$.max_output_tokens",
        "$.messages[0].role",
        "$.messages[1].content[0].source.url",
    }
