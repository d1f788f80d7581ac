"""Whose request it is: the owner comes from the key alone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.errors import Forbidden, Unauthorized


@dataclass(frozen=True, slots=True)
class Owner:
    """The user a key belongs to."""

    name: str
    admin: bool = False


LOCAL = Owner("local", admin=True)


class Keys:
    """Gateway keys, known by their hashes. Without any, everybody is the local owner."""

    def __init__(self, owners: Mapping[str, Owner]) -> None:
        self._owners = {digest: (digest, owner) for digest, owner in owners.items()}

    def __bool__(self) -> bool:
        return bool(self._owners)

    def owner(self, headers: Mapping[bytes, bytes]) -> Owner:
        """Return the owner of the request's key, or raise `Unauthorized`."""
        if not self._owners:
            return LOCAL
        key = _key(headers)
        if not key:
            raise Unauthorized(
                "No key: send `Authorization: Bearer <key>` or `x-api-key: <key>` of this gateway."
            )
        digest = hashlib.sha256(key).hexdigest()
        known, owner = self._owners.get(digest, ("", LOCAL))
        if not hmac.compare_digest(known, digest):
            raise Unauthorized("This key is not known to the gateway.")
        return owner

    def admin(self, headers: Mapping[bytes, bytes]) -> Owner:
        """Return the owner if the key is an admin's, or raise `Forbidden`."""
        owner = self.owner(headers)
        if not owner.admin:
            raise Forbidden("This request needs the key of an admin.")
        return owner


def _key(headers: Mapping[bytes, bytes]) -> bytes:
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and token.strip():
        return token.strip()
    return headers.get(b"x-api-key", b"").strip()
