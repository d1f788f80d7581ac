"""Which path of the demo upstream answers what."""

from __future__ import annotations

from gateway.demo import chat, messages, responses
from gateway.demo.output import Outputs, ResponseHead
from gateway.demo.play import AnswerStamp, DialectModule, RequestRefused, document, perform, refuse
from gateway.demo.replies import script_for
from gateway.demo.script import Fail

MODEL = "demo"
MODELS = "/v1/models"
DIALECTS: dict[str, DialectModule] = {
    dialect.path: dialect for dialect in (chat, responses, messages)
}

MODEL_CARD = b'{"id":"demo","object":"model","created":1767225600,"owned_by":"holdgate"}'
MODEL_LIST = b'{"object":"list","data":[' + MODEL_CARD + b"]}"
DOCUMENTS = {MODELS: MODEL_LIST, f"{MODELS}/{MODEL}": MODEL_CARD}


def respond(method: str, path: str, body: bytes, stamp: AnswerStamp) -> Outputs:
    """Answer one request with beats."""
    if method == "HEAD":
        return (
            beat for beat in respond("GET", path, body, stamp) if isinstance(beat, ResponseHead)
        )
    if path in DIALECTS:
        if method != "POST":
            return refuse(Fail(405, f"Use POST on {path}."), DIALECTS[path])
        return answer(DIALECTS[path], body, stamp)
    if path in DOCUMENTS and method == "GET":
        return document(200, DOCUMENTS[path])
    return refuse(Fail(404, f"Invalid URL ({method} {path})."), chat)


def answer(dialect: DialectModule, body: bytes, stamp: AnswerStamp) -> Outputs:
    """Read a model request, decide what to say, and play it."""
    try:
        ask = dialect.read(body)
    except RequestRefused as refused:
        return refuse(refused.fail, dialect)
    return perform(script_for(ask.dialogue), dialect, ask, stamp)
