"""Stop messages whose text is in a file of the operator."""

from __future__ import annotations

from pathlib import Path

from gateway.sessions.directives.model import SetStopMessage, SetStopMessageFile, Unreadable
from gateway.sessions.session_request import SessionSettings


def load_stop_message(
    directive: SetStopMessageFile, settings: SessionSettings
) -> SetStopMessage | Unreadable:
    """Read a stop message from a file; only files inside the operator's directory are read."""
    if settings.files_dir is None:
        return Unreadable("stopMessage", "files are switched off (stop_message.files_dir)")
    root, longest = settings.files_dir.resolve(), settings.rules.longest_bytes
    name = Path(directive.name)
    try:
        path = (root / name).resolve(strict=True)
        if name.is_absolute() or ".." in name.parts or not path.is_relative_to(root):
            return Unreadable("stopMessage", "the file is not inside stop_message.files_dir")
        # Reading anything but a plain file might never end.
        if not path.is_file() or path.stat().st_size > longest:
            return Unreadable("stopMessage", f"it is not a file, or is larger than {longest} bytes")
        return SetStopMessage(path.read_bytes().decode(), directive.repeats)
    except (OSError, RuntimeError, ValueError):
        return Unreadable("stopMessage", "the file cannot be read")
