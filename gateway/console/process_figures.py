"""What the system says of this process; None where it says nothing."""

from __future__ import annotations

import os
from pathlib import Path

STATM = Path("/proc/self/statm")
DESCRIPTORS = "/proc/self/fd"


def read_rss() -> int | None:
    """Return how many bytes of memory this process has."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def count_descriptors() -> int | None:
    """Return how many files and sockets this process has open."""
    try:
        # Newer kernels say the number at once; a list of thousands takes milliseconds.
        return os.stat(DESCRIPTORS).st_size or len(os.listdir(DESCRIPTORS))  # noqa: PTH116, PTH208
    except OSError:
        return None
