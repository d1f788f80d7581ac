"""Signing in to the console: a cookie stands for a key, in the gateway's own pages and nowhere else."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.console.sign_in import DAY_MS
from gateway.version import __version__
from tests.console.browser import LOGIN, LOGOUT, ME, Browser
from tests.gateway.wire import chat, get, streaming, turn
from tests.jobs.words import NOW, key, keys
from tests.run import Running, as_process, in_process

PAGES = "https://pages.example"
KEYS = keys("ann", "bob", "root", admin="root")
JOB = {"name": "tea", "message": "tea", "schedule_text": "hourly", "session_id": "s"}
JOBS = "/api/cron/list"
SERVE = ("gateway", "serve", "--session-dir", "kept", "--port")
QUIET = {"ROUTECODEX_CLOCK_NTP": "off", "HOLDGATE_SERVER__LOG_LEVEL": "debug"}


def gateway(**more: Any) -> AbstractAsyncContextManager[Running]:
    """Run a gateway with keys and jobs."""
    tables = {"keys": KEYS, **more.pop("tables", {})}
    clock = more.pop("clock", None) or ManualClock(NOW)
    return in_process(streaming(turn("one")), tables=tables, clock=clock, **more)


async def signed_in(gate: Running, owner: str = "ann") -> Browser:
    browser = Browser(gate)
    assert (await browser.log_in(f"key-{owner}")).status == 200
    return browser


async def jobs_of(gate: Running, owner: str) -> list[str]:
    """Look by key at the jobs that somebody has."""
    answer = await gate.fetch(get(JOBS, key(owner)))
    return [job["name"] for job in answer.json["data"]["jobs"]]


class TestWithoutKeys:
    async def test_everybody_is_the_local_owner_and_an_admin(self) -> None:
        async with in_process(None, clock=ManualClock(NOW)) as gate:
            me = (await Browser(gate).get(ME)).json
            exchange = (await gate.fetch(get("/healthz"))).headers["x-holdgate-exchange"]
            assert exchange.startswith(f"req_{me.pop('instance')}")
            assert me == {
                "owner": "local",
                "admin": True,
                "signed_in": False,
                "needs_key": False,
                "now": NOW,
                "version": __version__,
                "zone": gate.gateway.parts.base.zone.name,
                "demo": False,
            }

    async def test_a_login_is_not_needed_and_gives_no_cookie(self) -> None:
        async with in_process(None) as gate:
            browser = Browser(gate)
            answer = await browser.log_in("whatever")
        assert (answer.status, answer.json["owner"]) == (200, "local")
        assert "set-cookie" not in answer.headers


class TestSigningIn:
    async def test_the_right_key_gives_a_cookie_that_works_everywhere(self) -> None:
        async with gateway() as gate:
            browser = Browser(gate)
            assert (await browser.get(ME)).status == 401
            answer = await browser.log_in("key-ann")
            assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
            me = await browser.get(ME)
            assert me.headers["cache-control"] == "no-store"
            assert me.json == answer.json
            seen = {name: me.json[name] for name in ("owner", "admin", "signed_in", "needs_key")}
            assert seen == {"owner": "ann", "admin": False, "signed_in": True, "needs_key": True}
            assert (await browser.get(JOBS)).status == 200
            assert (await browser.get("/v1/models")).status == 200
            said = await browser.post("/v1/chat/completions", json.loads(chat()))
            assert said.text == "one"
            assert "cookie" not in [name.decode() for name in gate.requests[0].headers]

    async def test_the_cookie_is_for_this_port_and_out_of_reach_of_scripts(self) -> None:
        async with gateway() as gate:
            answer = await Browser(gate).log_in("key-ann")
            name = f"holdgate_{gate.port}"
        kept, *rules = answer.headers["set-cookie"].split("; ")
        assert kept.partition("=")[0] == name
        assert rules == ["Max-Age=604800", "Path=/", "HttpOnly", "SameSite=Strict"]

    async def test_the_cookie_of_a_page_over_https_is_secure(self) -> None:
        async with gateway() as gate:
            answer = await Browser(gate, "https").log_in("key-ann")
        assert answer.headers["set-cookie"].endswith("; Secure")

    @pytest.mark.parametrize("wrong", ["key-eve", "KEY-ANN", "key-ann2", "ключ"])
    async def test_a_wrong_key_gives_nothing(self, wrong: str) -> None:
        async with gateway() as gate:
            browser = Browser(gate)
            answer = await browser.log_in(wrong)
            assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
            assert answer.headers["cache-control"] == "no-store"
            assert "set-cookie" not in answer.headers
            assert (await browser.get(ME)).status == 401

    @pytest.mark.parametrize(
        "body", [{}, {"key": ""}, {"key": 7}, {"key": None}, {"key": "key-ann", "more": 1}, []]
    )
    async def test_a_login_that_is_none_is_refused(self, body: Any) -> None:
        async with gateway() as gate:
            answer = await Browser(gate).post(LOGIN, body)
        assert (answer.status, answer.error["code"]) == (400, "bad_request")

    async def test_after_ten_wrong_keys_no_more_are_tried_for_a_minute(self) -> None:
        clock = ManualClock(NOW)
        async with gateway(clock=clock) as gate:
            browser = Browser(gate)
            statuses = []
            for _ in range(10):
                statuses.append((await browser.log_in("guess")).status)
                clock.advance(1000)
            assert statuses == [401] * 10
            refused = await browser.log_in("key-ann")
            assert (refused.status, refused.headers["retry-after"]) == (429, "50")
            assert "set-cookie" not in refused.headers
            # Who has a key is served all the same.
            assert (await gate.fetch(get(ME, key("ann")))).status == 200
            clock.advance(50_000)
            assert (await browser.log_in("key-ann")).status == 200

    async def test_an_admin_who_signed_in_is_an_admin(self) -> None:
        async with gateway() as gate:
            assert (await (await signed_in(gate, "root")).get("/metrics")).status == 200
            assert (await (await signed_in(gate, "ann")).get("/metrics")).status == 403

    async def test_a_key_in_a_header_wins(self) -> None:
        async with gateway() as gate:
            browser = await signed_in(gate)
            me = (await browser.get(ME, key("bob"))).json
            assert (me["owner"], me["signed_in"]) == ("bob", False)
            assert (await browser.get(ME, key("eve"))).status == 401
            # It comes from no page, so that it needs no Origin.
            added = await browser.send("POST", "/api/cron/add", key("bob"), body=JOB)
            assert added.status == 200
            assert (await jobs_of(gate, "bob"), await jobs_of(gate, "ann")) == (["tea"], [])

    async def test_what_belongs_to_others_is_not_seen(self) -> None:
        async with gateway() as gate:
            ann, bob = await signed_in(gate, "ann"), await signed_in(gate, "bob")
            added = await ann.post("/api/cron/add", JOB)
            job_id = added.json["data"]["job"]["job_id"]
            assert (await bob.get(JOBS)).json["data"]["jobs"] == []
            assert (await bob.get(f"/api/cron/get?job_id={job_id}")).status == 404
            assert (await bob.post("/api/cron/remove", {"job_id": job_id})).status == 404
            assert (await ann.get(f"/api/cron/get?job_id={job_id}")).status == 200


class TestTheEnd:
    async def test_who_signs_out_is_not_known_any_more(self) -> None:
        async with gateway() as gate:
            browser = await signed_in(gate)
            answer = await browser.log_out()
            assert (answer.status, answer.headers["cache-control"]) == (204, "no-store")
            assert browser.cookies == {}
            assert (await browser.get(ME)).status == 401
            # Once more does no harm.
            assert (await browser.log_out()).status == 204

    async def test_it_ends_after_seven_days(self) -> None:
        clock = ManualClock(NOW)
        async with gateway(clock=clock) as gate:
            browser = await signed_in(gate)
            clock.advance(7 * DAY_MS - 1)
            assert (await browser.get(ME)).status == 200
            clock.advance(1)
            assert (await browser.get(ME)).status == 401

    async def test_it_ends_with_its_key(self) -> None:
        async with gateway() as gate:
            ann, bob = await signed_in(gate, "ann"), await signed_in(gate, "bob")
            await gate.reload(keys=keys("bob"))
            assert (await ann.get(ME)).status == 401
            assert (await ann.post("/v1/chat/completions", json.loads(chat()))).status == 401
            assert (await bob.get(ME)).json["owner"] == "bob"

    async def test_keys_that_a_reload_brings_can_be_signed_in_with(self) -> None:
        async with in_process(None) as gate:
            await gate.reload(keys=keys("ann"))
            browser = await signed_in(gate)
            assert (await browser.get(ME)).json["owner"] == "ann"

    async def test_a_token_that_was_changed_is_none(self) -> None:
        async with gateway() as gate:
            browser, other = await signed_in(gate), await signed_in(gate, "root")
            name = f"holdgate_{gate.port}"
            ends, owner, signature = browser.cookies[name].split(".")
            whose = other.cookies[name].split(".")[1]
            for forged in (
                f"{int(ends) + 1}.{owner}.{signature}",
                f"{ends}.{whose}.{signature}",
                f"{ends}.{owner}.{'0' * 64}",
                f"{ends}.{owner}",
                "",
            ):
                browser.cookies[name] = forged
                assert (await browser.get(ME)).status == 401, forged


class TestOtherSites:
    """A browser adds the cookie to whatever any page sends; only our own pages may use it."""

    @pytest.mark.parametrize(
        "headers",
        [
            (),
            ("sec-fetch-site: same-origin",),
            ("origin: null",),
            (f"origin: {PAGES}",),
            ("origin: http://127.0.0.1:1",),
            ("origin: http://localhost",),
        ],
        ids=str,
    )
    async def test_a_post_needs_our_own_origin(self, headers: tuple[str, ...]) -> None:
        # One of them may call the gateway, with a key.
        async with gateway(server__cors_origins=[PAGES]) as gate:
            browser = await signed_in(gate)
            answer = await browser.send("POST", "/api/cron/add", *headers, body=JOB)
            assert (answer.status, answer.error["code"]) == (403, "forbidden")
            said = await browser.send(
                "POST", "/v1/chat/completions", *headers, body=json.loads(chat())
            )
            assert (said.status, gate.requests) == (403, [])
            deleted = await browser.send("DELETE", "/api/sessions/s", *headers)
            assert deleted.status == 403
            out = await browser.send("POST", LOGOUT, *headers)
            assert (out.status, "set-cookie" in out.headers) == (403, False)
            assert await jobs_of(gate, "ann") == []
            assert (await browser.get(ME)).status == 200

    @pytest.mark.parametrize("headers", [(), (f"origin: {PAGES}",)], ids=str)
    async def test_nobody_is_signed_in_from_elsewhere(self, headers: tuple[str, ...]) -> None:
        async with gateway(server__cors_origins=[PAGES]) as gate:
            answer = await Browser(gate).send("POST", LOGIN, *headers, body={"key": "key-ann"})
        assert (answer.status, "set-cookie" in answer.headers) == (403, False)

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ((), 200),
            (("sec-fetch-site: same-origin",), 200),
            (("sec-fetch-site: none",), 200),
            (("sec-fetch-site: same-site",), 403),
            (("sec-fetch-site: cross-site",), 403),
            (("sec-fetch-site: other",), 403),
            ((f"origin: {PAGES}",), 403),
            (("origin: http://elsewhere.example",), 403),
        ],
        ids=str,
    )
    async def test_a_get_is_refused_if_another_site_sent_it(
        self, headers: tuple[str, ...], status: int
    ) -> None:
        async with gateway(server__cors_origins=[PAGES]) as gate:
            browser = await signed_in(gate)
            assert (await browser.get(ME, *headers)).status == status
            assert (await browser.send("HEAD", JOBS, *headers)).status == status

    async def test_an_unknown_host_is_refused(self) -> None:
        async with gateway(server__hosts=["127.0.0.1"]) as gate:
            browser = await signed_in(gate)
            for method, path, origin in (
                ("GET", ME, ()),
                ("GET", "/console/", ()),
                ("POST", LOGIN, ("origin: http://evil.example",)),
            ):
                answer = await browser.send(method, path, *origin, host="evil.example")
                assert (answer.status, answer.error["code"]) == (403, "forbidden"), path

    async def test_a_key_may_still_come_from_a_listed_origin(self) -> None:
        async with gateway(server__cors_origins=[PAGES]) as gate:
            browser = await signed_in(gate)
            answer = await browser.send("GET", ME, f"origin: {PAGES}", key("bob"))
        assert (answer.status, answer.json["owner"]) == (200, "bob")
        assert "access-control-allow-credentials" not in answer.headers

    async def test_gateways_of_one_host_do_not_share_a_cookie(self) -> None:
        async with gateway() as one, gateway() as other:
            browser, second = await signed_in(one), Browser(other)
            # A browser sends the cookies of a host to all its ports.
            second.cookies = browser.cookies
            assert (await second.get(ME)).status == 401
            assert (await second.log_in("key-bob")).status == 200
            assert len(second.cookies) == 2
            assert (await browser.get(ME)).json["owner"] == "ann"
            assert (await second.get(ME)).json["owner"] == "bob"
            # Not even under the name that the other one looks for.
            token = browser.cookies[f"holdgate_{one.port}"]
            second.cookies = {f"holdgate_{other.port}": token}
            assert (await second.get(ME)).status == 401


class TestProcess:
    """A gateway that keeps its secret in a directory."""

    async def test_a_sign_in_outlives_a_restart_and_the_key_is_nowhere(
        self, tmp_path: Path
    ) -> None:
        canary = "canary-of-ann"
        table = [{"owner": "ann", "key": canary}]
        settings = {**QUIET, "HOLDGATE_KEYS": json.dumps(table)}
        async with as_process(tmp_path, settings, command=(*SERVE, "0")) as gate:
            browser, port = Browser(gate), gate.port
            assert (await browser.log_in(f"{canary}-not")).status == 401
            login = await browser.log_in(canary)
            assert login.status == 200
            said = [str(login.headers), bytes(login.body).decode()]
            assert await gate.terminate() == 0
        async with as_process(tmp_path, settings, command=(*SERVE, str(port))) as gate:
            me = await browser.get(ME)
            assert (me.status, me.json["owner"]) == (200, "ann")
            assert (await browser.post("/api/cron/add", JOB)).status == 200
            assert await gate.terminate() == 0
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        (secret,) = [path for path in kept if path.name == "sign-in-secret"]
        assert secret.stat().st_mode & 0o777 == 0o600
        assert secret.parent.stat().st_mode & 0o777 == 0o700
        said += [path.read_bytes().decode("latin-1") for path in kept]
        assert [text for text in said if canary in text] == []
        # Of the cookie nothing is kept or logged, either.
        (token,) = browser.cookies.values()
        assert [text for text in said[1:] if token in text or token[-64:] in text] == []

    async def test_a_secret_that_others_can_read_is_not_used(self, tmp_path: Path) -> None:
        table = json.dumps([{"owner": "ann", "key": "key-ann"}])
        secret = tmp_path / "kept" / "console" / "sign-in-secret"
        secret.parent.mkdir(parents=True)
        secret.write_bytes(b"x" * 32)
        secret.chmod(0o644)
        settings = {**QUIET, "HOLDGATE_KEYS": table}
        async with as_process(tmp_path, settings, command=(*SERVE, "0")) as gate:
            browser = Browser(gate)
            assert (await browser.log_in("key-ann")).status == 200
            assert (await browser.get(ME)).status == 200
            assert await gate.terminate() == 0
        assert "ERROR sign_in_secret_not_kept" in gate.log.read_text()
        assert secret.read_bytes() == b"x" * 32
