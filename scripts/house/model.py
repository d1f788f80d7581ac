"""A scripted model behind an HTTP server: what the traced gateway asks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Chunk = dict[str, Any]
Asked = dict[str, Any]


class Model:
    """Answers each request by what its last message says; remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._news = threading.Condition()

    def note(self, request: str) -> None:
        """Remember a request; wake who waits for it."""
        with self._news:
            self.requests.append(request)
            self._news.notify_all()

    def await_request(self, text: str, seconds: float = 20) -> None:
        """Wait until a request with this text has been answered."""
        with self._news:
            if not self._news.wait_for(lambda: any(text in r for r in self.requests), seconds):
                raise TimeoutError(f"the model was never asked {text!r}")


def chunks_for(request: Asked) -> list[Chunk]:
    """Return the deltas of an answer: a call of the clock if that is what the user asks for."""
    messages = request["messages"]
    is_asked = any("remind me" in str(m["content"]) for m in messages if m["role"] == "user")
    if is_asked and messages[-1]["role"] != "tool" and "[Clock Reminder]" not in str(messages):
        return [{"role": "assistant", "tool_calls": [_reminder_call()]}]
    return [{"role": "assistant", "content": ""}, *({"content": f"word{i} "} for i in range(5))]


def _reminder_call() -> Chunk:
    due = (datetime.now(UTC) + timedelta(seconds=1.5)).isoformat(timespec="milliseconds")
    item = {"dueAt": due, "task": "Drink tea.", "tool": "", "arguments": "{}"}
    arguments = json.dumps({"action": "schedule", "items": [item], "taskId": ""})
    function = {"name": "clock", "arguments": arguments}
    return {"index": 0, "id": f"call_{time.time_ns()}", "type": "function", "function": function}


def frames_of(deltas: list[Chunk], model: str) -> Iterator[bytes]:
    """Yield the server-sent events of a streamed chat completion."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    reason = "tool_calls" if "tool_calls" in deltas[0] else "stop"
    for delta, finish in [*((delta, None) for delta in deltas), ({}, reason)]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        yield b"data: %s\n\n" % json.dumps({**head, "choices": [choice]}).encode()
    yield b"data: [DONE]\n\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    note: Callable[[str], None]

    def do_POST(self) -> None:
        """Stream an answer."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        request = json.loads(body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        frames = b"".join(frames_of(chunks_for(request), request["model"]))
        # All at once, after the head: otherwise the calls would depend on how many events there
        # are, and on how the kernel cuts them.
        time.sleep(0.05)
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(frames), frames))
        self.note(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write nothing."""


@contextmanager
def running_model() -> Iterator[tuple[Model, int]]:
    """Serve a model on a free port."""
    model = Model()
    handler = type("Handler", (_Handler,), {"note": staticmethod(model.note)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield model, server.server_address[1]
        server.shutdown()
