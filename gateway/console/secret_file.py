"""The file that keeps the secret of sign-ins over a restart."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SECRET_BYTES = 32


class SecretFileError(Exception):
    """The file holds no secret; says why."""


def load_secret(path: Path, draw: Callable[[int], bytes]) -> bytes:
    """Return the secret in a file; if there is no file, draw one and keep it there.

    Raises `SecretFileError` for a file that is no secret of ours, and `OSError`.
    """
    with suppress(FileNotFoundError):
        return _read(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(path, draw(SECRET_BYTES))
    # Another gateway in the same directory may have been first.
    return _read(path)


def _read(path: Path) -> bytes:
    # Whatever stands there must neither lead away nor block.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != SECRET_BYTES:
            raise SecretFileError(f"It is not a regular file of {SECRET_BYTES} bytes.")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise SecretFileError("Others may read it; its mode must be 0600.")
        return os.read(descriptor, SECRET_BYTES)
    finally:
        os.close(descriptor)


def _write(path: Path, secret: bytes) -> None:
    """Keep a secret, if there is none yet; a crash leaves a whole one or none."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        temporary.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    try:
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
