"""What a gateway left behind, as text: requests, answers, files, tables, log lines, counters."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.gateway.client import Dechunker
from tests.outbox.receiver import Posted
from tests.wire.fake import Request

_SQLITE = b"SQLite format 3\x00"
# Differ from run to run, since tests ask again until something is so, or from release to release.
UNSTABLE = (
    "holdgate_frame_gap_seconds",
    "holdgate_requests_answered_total",
    "holdgate_build_info",
)
# Which process stored usage, and in how many batches, is chance.
_UNTOLD = {"usage_writers"}


def quoted(mark: str, text: str) -> list[str]:
    """Return the lines of a text, marked."""
    return [f"{mark} {line}".rstrip() for line in text.split("\n")]


def head_lines(mark: str, head: bytes, body: bytes) -> list[str]:
    """Return a start line and headers; a length that is the body's is only said to be so."""
    text = head.decode("latin-1").removesuffix("\r\n\r\n").replace("\r\n", "\n")
    text = text.replace(f"content-length: {len(body)}\n", "content-length: <that of the body>\n")
    if text.endswith(f"content-length: {len(body)}"):
        text = text.removesuffix(str(len(body))) + "<that of the body>"
    return [*quoted(mark, text), mark]


def request_lines(head: bytes, body: bytes) -> list[str]:
    """Return a request as it was sent."""
    return [*head_lines(">", head, body), *quoted(">", body.decode())]


def upstream_lines(requests: list[Request]) -> list[str]:
    """Return what an upstream was asked."""
    if not requests:
        return ["(was not asked)"]
    return [line for one in requests for line in ("", *request_lines(one.head, one.body))][1:]


def answer_lines(raw: bytes, ending: str, beating: bool) -> list[str]:
    """Return an answer: its head, its body without the chunks' frames, and how it ended."""
    if not raw:
        return [f"({ending}: no answer)"]
    head, _, rest = raw.partition(b"\r\n\r\n")
    body = rest
    if b"transfer-encoding: chunked" in head.lower():
        coded = Dechunker()
        coded.feed(rest)
        body = b"".join(coded.chunks)
        assert not (coded.over and coded.unread), coded.unread
        ending = ending or ("whole" if coded.over else "unfinished")
    frames = body.decode()
    if beating:
        frames = _once_each(frames)
    return [*head_lines("<", head, body), *quoted("<", frames), f"({ending})"]


def _once_each(frames: str) -> str:
    """Leave one of equal frames in a row: how many heartbeats there are is chance."""
    kept: list[str] = []
    for frame in frames.split("\n\n"):
        if kept and frame and kept[-1].removesuffix("\n(again and again)") == frame:
            kept[-1] = f"{frame}\n(again and again)"
        else:
            kept.append(frame)
    return "\n\n".join(kept)


def store_lines(directory: Path) -> list[str]:
    """Return all files in a directory, and all rows of those that are databases."""
    lines: list[str] = []
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or path.name.endswith(("-wal", "-shm")):
            continue
        name = str(path.relative_to(directory))
        data = path.read_bytes()
        if data.startswith(_SQLITE):
            lines += _table_lines(name, path)
        else:
            text = _show_chance(name, data) or _text(data)
            lines += ["", f"### file {name}", *text.split("\n")]
    return lines[1:] or ["(nothing)"]


def _show_chance(name: str, data: bytes) -> str:
    """Return what stands for the content of a file that differs from run to run."""
    if name == ".lock" and data.strip().isdigit():
        return "<process id>"
    return f"<{len(data)} random bytes>" if name == "console/sign-in-secret" else ""


def _text(data: bytes) -> str:
    return data.decode().rstrip("\n") or "(empty)"


def _table_lines(name: str, path: Path) -> list[str]:
    """Return the rows of a database; tables that have none are left out."""
    lines: list[str] = []
    with closing(sqlite3.connect(path)) as database:
        schema = "SELECT name, sql FROM sqlite_master WHERE type='table' ORDER BY name"
        for table, sql in database.execute(schema).fetchall():
            cursor = database.execute(f'SELECT * FROM "{table}"')
            columns = [column[0] for column in cursor.description]
            rows = sorted([_cell(value) for value in row] for row in cursor.fetchall())
            assert sql
            if not rows or table in _UNTOLD:
                continue
            lines += ["", f"### {name}, table {table}"]
            for row in rows:
                lines += [
                    f"{column}: {cell}" for column, cell in zip(columns, row, strict=True)
                ] + ["-"]
    return lines or ["", f"### {name} (no rows)"]


def _cell(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return "null" if value is None else str(value)


def metric_lines(body: bytes) -> list[str]:
    """Return the counters that counted something; how long things took is chance.

    So is in how many reads an answer came, which the gaps between frames are counted by.
    """
    counted = [
        line
        for line in body.decode().splitlines()
        if line.startswith("holdgate_") and not line.startswith(UNSTABLE)
    ]
    told = [
        re.sub(r"(_seconds_(?:sum|total)\S*) .*", r"\1 <duration>", line)
        for line in counted
        if not line.endswith((" 0", " 0.0"))
    ]
    return sorted(one for one in told if "_bucket{" not in one and "_created" not in one)


def posted_lines(posted: list[Posted]) -> list[str]:
    """Return what was posted to a webhook."""
    lines: list[str] = []
    for one in posted:
        headers = [f"{name}: {value}" for name, value in one.headers.items() if name]
        head = "\r\n".join([one.line, *headers]).encode()
        lines += ["", *request_lines(head, one.body)]
    return lines[1:]


def log_lines(log: str) -> list[str]:
    """Return log lines, as they were written, without those of the story's own questions."""
    lines = log.splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    # How often a story asks the API until something has happened is chance.
    return [line for line in lines if event_of(line) != "request"] or ["(nothing)"]


def event_of(line: str) -> str:
    """Return what a log line tells of."""
    found: str = json.loads(line)["event"]
    return found
