"""Secrets reach whoever needs them, and are never shown."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256

import pytest

from gateway.config import Config, ConfigError, Secret, Url, render

Loader = Callable[..., Config]

CANARY = "canary-7f3a"

SECRETIVE = f"""
[server]
host = "0.0.0.0"
[[upstreams]]
id = "literal"
base_url = "https://{CANARY}:{CANARY}@a.example/v1"
api_key = "{CANARY}"
headers = {{ "x-token" = "{CANARY}" }}
query = {{ "key" = "{CANARY}" }}
[[upstreams]]
id = "variable"
base_url = "https://b.example/v1"
api_key_env = "UPSTREAM_KEY"
headers_env = {{ "x-token" = "UPSTREAM_KEY" }}
[[keys]]
owner = "alice"
key = "{CANARY}"
[[keys]]
owner = "bob"
key_env = "BOB_KEY"
[[keys]]
owner = "carol"
key_sha256 = "{sha256(b"carol").hexdigest().upper()}"
[[webhooks]]
owner = "alice"
url = "https://hooks.example/{CANARY}@x"
secret = "{CANARY}"
[[webhooks]]
owner = "bob"
url = "https://hooks.example"
secret_env = "HOOK_SECRET"
"""
ENVIRON = {"UPSTREAM_KEY": f"{CANARY}-u", "BOB_KEY": f"{CANARY}-b", "HOOK_SECRET": f"{CANARY}-h"}


def hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_secrets_are_where_they_are_needed(loaded: Loader) -> None:
    config = loaded(SECRETIVE, ENVIRON)
    literal, variable = config.upstreams
    assert dict(literal.query) == {"key": Secret(CANARY)}
    assert dict(variable.headers_found) == {"x-token": Secret(f"{CANARY}-u")}
    assert literal.api_key == Secret(CANARY)
    assert literal.headers == (("x-token", Secret(CANARY)),)
    assert literal.base_url == f"https://{CANARY}:{CANARY}@a.example/v1"
    assert variable.api_key == Secret(f"{CANARY}-u")
    assert [hook.secret for hook in config.webhooks] == [Secret(CANARY), Secret(f"{CANARY}-h")]


def test_of_keys_only_the_hash_is_kept(loaded: Loader) -> None:
    keys = loaded(SECRETIVE, ENVIRON).keys
    assert [key.sha256 for key in keys] == [hashed(CANARY), hashed(f"{CANARY}-b"), hashed("carol")]
    assert [key.key for key in keys] == [None, None, None]


def test_nothing_shows_a_secret(loaded: Loader) -> None:
    config = loaded(SECRETIVE, ENVIRON)
    shown = "\n".join([render(config), repr(config), str(config), f"{config}", str(asdict(config))])
    assert CANARY not in shown
    assert not [key.sha256 for key in config.keys if key.sha256 in shown.lower()]
    assert 'api_key = "***"' in shown
    assert 'api_key_env = "UPSTREAM_KEY"' in shown
    assert 'headers = { "x-token" = "***" }' in shown
    assert 'base_url = "https://***@a.example/v1"' in shown


LEAKS = (
    SECRETIVE.replace("api_key", "api_kye"),
    SECRETIVE.replace("headers", "api_key_env"),
    SECRETIVE.replace("https:", "ftp:"),
    SECRETIVE.replace("https:", ""),
    SECRETIVE.replace("/v1", "/v1?" + CANARY),
    SECRETIVE.replace("api_key =", "api_key_env ="),
    SECRETIVE.replace(f'"{CANARY}"', f'["{CANARY}"]'),
    SECRETIVE.replace(f'"{CANARY}"', f'"{CANARY}\\n"'),
    SECRETIVE.replace("key = ", "key_sha256 = "),
    SECRETIVE.replace(f'"{CANARY}"', f'"{CANARY}'),
    SECRETIVE + f'[store]\nlisten_url = "mysql://u:{CANARY}@db.example/d"',
    SECRETIVE + f'[store]\nurl = "{CANARY}:{CANARY}@db.example"',
)


@pytest.mark.parametrize("text", LEAKS)
def test_no_problem_repeats_a_secret(loaded: Loader, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text, ENVIRON)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.problems)
    assert CANARY not in shown


@pytest.mark.parametrize("text", ["{", f'["{CANARY}"]', f'[{{"id": "{CANARY}", "key": 1}}]'])
def test_no_problem_repeats_a_variable_with_secrets(loaded: Loader, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded("", {"HOLDGATE_KEYS": text, "HOLDGATE_WEBHOOKS": text})
    assert CANARY not in str(caught.value)


def test_a_secret_shows_itself_only_by_name() -> None:
    secret = Secret(CANARY)
    assert secret.reveal() == CANARY
    assert [str(secret), f"{secret}", f"{secret:>5}"] == [
        "***",
        "***",
        "  ***",
    ]
    assert repr([secret]) == "[Secret(***)]"
    assert (secret == Secret(CANARY), secret == CANARY) == (True, False)
    assert len({secret, Secret(CANARY), copy.deepcopy(secret)}) == 1
    assert pickle.loads(pickle.dumps(secret)) == secret


@pytest.mark.parametrize(
    "url, masked",
    [
        ("https://a.example/v1", "https://a.example/v1"),
        ("https://u:p@a.example/v1", "https://***@a.example/v1"),
        ("https://u:p/w@x@a.example/v1", "https://***@a.example/v1"),
        ("postgresql://h/d?password=p", "postgresql://h/d?***"),
        ("https://a.example/#p", "https://a.example/#***"),
        ("u:p@a.example", "***@a.example"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, masked: str) -> None:
    assert Url(url).masked == masked
    assert repr(Url(url)) == repr(masked)
    assert str(Url(url)) == url
