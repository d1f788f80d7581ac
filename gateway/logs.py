"""Log lines: one line a record, text or JSON, never a secret or a user's words."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any, TextIO

FIELDS = "fields"
_BARE = re.compile(r"[\w.,:/@*+-]+").fullmatch


def set_up(form: str, stream: TextIO, level: int = logging.INFO) -> None:
    """Send all records to this stream in this form."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("holdgate").setLevel(level)


def note(logger: logging.Logger, event: str, **fields: Any) -> None:
    """Log what happened, with its particulars as fields."""
    if logger.isEnabledFor(logging.INFO):
        logger.info(event, extra={FIELDS: fields})


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextLines(logging.Formatter):
    """`time level logger event name=value …`, for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line; control characters and spaces are quoted, as JSON does it."""
        fields: dict[str, Any] = getattr(record, FIELDS, {})
        parts = [_time(record), record.levelname, record.name, _plain(record.getMessage())]
        parts += [f"{name}={_quoted(value)}" for name, value in fields.items() if value is not None]
        line = " ".join(parts)
        if record.exc_info:
            line += " exception=" + json.dumps(self.formatException(record.exc_info))
        return line


class JsonLines(logging.Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _plain(text: str) -> str:
    return json.dumps(text)[1:-1]


def _quoted(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if _BARE(text) else json.dumps(text)
