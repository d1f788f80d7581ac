"""`holdgate keys`: make a key for an owner, to be added to the configuration."""

from __future__ import annotations

import argparse
import secrets
import string
from collections.abc import Callable
from hashlib import sha256

from gateway.config.problems import quote

# A scanner for leaked secrets finds keys by it; one double click selects all of a key.
PREFIX = "holdgate_"
SIGNS = string.ascii_letters + string.digits
# 40 of 62 signs are 238 bits.
LENGTH = 40

NEW = """\
New key of {owner}:

  {key}

It is shown only now: Holdgate stores it nowhere. Give it to {owner}. Add these lines to
holdgate.toml, and restart the gateway or send it SIGHUP:

[[keys]]
owner = {quoted}
key_sha256 = "{digest}"
"""
ADMIN = "admin = true\n"


def add_key_actions(parser: argparse.ArgumentParser) -> None:
    """Describe the actions of `holdgate keys`."""
    actions = parser.add_subparsers(required=True, metavar="action")
    says = "print a new key once, and the lines to add to holdgate.toml"
    new = actions.add_parser("new", help=says, description=says)
    new.add_argument("owner", metavar="OWNER", type=_read_owner, help="whose key it is")
    new.add_argument(
        "--admin", action="store_true", help="may use the admin routes, and act for other owners"
    )
    new.set_defaults(run=run_keys_new)


def run_keys_new(arguments: argparse.Namespace) -> int:
    """Print a new key, and its hash as the configuration takes it."""
    print(write_key(arguments.owner, make_key(), arguments.admin), end="")
    return 0


def make_key(choose: Callable[[str], str] = secrets.choice) -> str:
    """Return a key that nobody can guess."""
    return PREFIX + "".join(choose(SIGNS) for _ in range(LENGTH))


def write_key(owner: str, key: str, admin: bool) -> str:
    """Write what a person has to know about a new key."""
    digest = sha256(key.encode()).hexdigest()
    text = NEW.format(owner=owner, key=key, quoted=quote(owner), digest=digest)
    return text + (ADMIN if admin else "")


def _read_owner(text: str) -> str:
    """Take a name as it can stand in the configuration, in logs and in a terminal."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the owner must not be empty")
    if text != text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(
            "an owner has no space at its ends, no control characters and no line breaks"
        )
    return text
