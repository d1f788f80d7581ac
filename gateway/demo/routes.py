"""Which path of the demo upstream answers what."""

from __future__ import annotations

from gateway.demo import chat, messages, responses
from gateway.demo.dialect import AnswerStamp, DialectModule, UnreadableRequest
from gateway.demo.output import Outputs, ResponseHead
from gateway.demo.play import perform, refuse, send_document
from gateway.demo.replies import script_for
from gateway.demo.script import Fail

DIALECTS: dict[str, DialectModule] = {d.path: d for d in (chat, responses, messages)}

MODEL_CARD = b'{"id":"demo","object":"model","created":1767225600,"owned_by":"holdgate"}'
MODEL_LIST = b'{"object":"list","data":[' + MODEL_CARD + b"]}"
DOCUMENTS = {"/v1/models": MODEL_LIST, "/v1/models/demo": MODEL_CARD}


def respond(method: str, path: str, body: bytes, stamp: AnswerStamp) -> Outputs:
    """Answer one request: read it, decide what to say, and play that."""
    if method == "HEAD":
        outputs = respond("GET", path, body, stamp)
        return (output for output in outputs if isinstance(output, ResponseHead))
    if path in DOCUMENTS and method == "GET":
        return send_document(200, DOCUMENTS[path])
    dialect = DIALECTS.get(path)
    if dialect is None:
        return refuse(Fail(404, f"Invalid URL ({method} {path})."), chat)
    if method != "POST":
        return refuse(Fail(405, f"Use POST on {path}."), dialect)
    try:
        request = dialect.read(body)
    except UnreadableRequest as refused:
        return refuse(refused.fail, dialect)
    return perform(script_for(request.dialogue), dialect, request, stamp)
