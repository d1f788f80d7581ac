"""File names of sessions: readable where possible, never shared, never a path."""

from __future__ import annotations

import re
from hashlib import sha256

from gateway.stores.documents import LOCAL_OWNER

SUFFIX = ".json"
TEMPORARY = ".tmp-"
# A file of this name stands beside the documents and is not one.
RESERVED = "ntp-state"
# What a session directory is locked by, and where its rows are.
DIRECTORY_LOCK = ".lock"
ROWS_FILE = "holdgate.sqlite3"
# Says that there are rows, so that a file that lost its content is not taken for a new one.
ROWS_MARKER = "jobs.json"
LONGEST_PREFIX = 40
HASH_DIGITS = 24

_is_plain = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}").fullmatch
_odd = re.compile(r"[^A-Za-z0-9._-]+")


def name_of(owner: str, session: str) -> str:
    """Name the file of a session, without its suffix: its id if that is plain, else a hash."""
    if owner == LOCAL_OWNER and session != RESERVED and _is_plain(session):
        return session
    readable = _odd.sub("_", session)[:LONGEST_PREFIX].lstrip(".")
    whole = owner.encode() + b"\0" + session.encode()
    return f"{readable}~{sha256(whole).hexdigest()[:HASH_DIGITS]}"


def is_document(file_name: str) -> bool:
    """Tell whether a file of this name is a session's."""
    return (
        file_name.endswith(SUFFIX)
        and not file_name.startswith(".")
        and file_name != RESERVED + SUFFIX
    )
