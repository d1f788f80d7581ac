"""The description of the API is that of the routes there are, and is shown to everybody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import schemathesis
from msgspec import to_builtins

from gateway.api.openapi import document
from gateway.jobs.model import Job, Run
from gateway.jobs.reader import CONDITION, OURS, SETTABLE
from gateway.jobs.schedule.model import Every
from gateway.jobs.view import show_job, show_run
from tests.gateway.wire import get
from tests.jobs.words import HELPER, key, keys
from tests.openapi.routes import nameless, ways
from tests.run import in_process

JOB = Job(job_id="j", user_id="u", session_id="s", name="n", schedule=Every(1000, 0), message="m")
RUN = Run(run_id="r", job_id="j", user_id="u", due_ms=0)


def told() -> Any:
    return json.loads(msgspec.json.encode(document()))


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, methods in told()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


async def test_every_route_is_described_and_nothing_else() -> None:
    described = {(method, nameless(path)) for method, path, _ in operations() if method != "HEAD"}
    async with in_process(None, tables={"agents": [HELPER]}) as gate:
        there = ways(gate.gateway.serving)
    assert there - described == set()
    assert described - there == set()


def test_it_is_valid_and_no_two_operations_have_one_name() -> None:
    schema = schemathesis.openapi.from_dict(told())
    schema.validate()
    names = [operation["operationId"] for _, _, operation in operations()]
    assert sorted(names) == sorted(set(names))


def test_whatever_is_named_is_there_and_whatever_is_there_is_named() -> None:
    text = json.dumps(told())
    named = set(re.findall(r'"#/components/([^"]+)"', text))
    there = {
        f"{kind}/{name}"
        for kind in ("schemas", "responses", "headers")
        for name in told()["components"][kind]
    }
    assert named - there == set()
    # Not every shape of errors meets every error.
    assert {one for one in there - named if not one.startswith("responses/")} == set()


def test_answers_name_their_request_and_say_when_to_try_again() -> None:
    for name, answer in told()["components"]["responses"].items():
        wanted = {"x-request-id", "x-holdgate-exchange"}
        if name.endswith(("429", "503")):
            wanted.add("retry-after")
        assert set(answer["headers"]) == wanted, name


async def test_it_is_shown_without_a_key_and_without_a_secret() -> None:
    tables = {"keys": keys("ann"), "agents": [{**HELPER, "id": "canary"}]}
    async with in_process(None, tables=tables, upstream={"api_key": "canary"}) as gate:
        shown = await gate.fetch(get("/openapi.json"))
        with_key = await gate.fetch(get("/openapi.json", key("ann")))
    assert (shown.status, shown.headers["content-type"]) == (200, "application/json")
    assert shown.json == told()
    assert shown.body == with_key.body
    assert b"canary" not in shown.body


async def test_every_way_to_send_a_key_is_described_and_works() -> None:
    schemes = told()["components"]["securitySchemes"]
    headers = {
        name: "authorization: Bearer" if one["type"] == "http" else f"{one['name']}:"
        for name, one in schemes.items()
    }
    assert sorted(headers.values()) == ["authorization: Bearer", "x-api-key:", "x-holdgate-key:"]
    for _, path, operation in operations():
        security = operation["security"]
        assert security in ([], [*({name: []} for name in schemes), {}]), path
    async with in_process(None, tables={"keys": keys("ann")}) as gate:
        for header in headers.values():
            assert (await gate.fetch(get("/api/sessions", f"{header} key-ann"))).status == 200
            assert (await gate.fetch(get("/api/sessions", f"{header} other"))).status == 401


def test_jobs_are_described_as_they_are_read_and_shown() -> None:
    schemas = told()["components"]["schemas"]
    # An id can only be refused in a job that is to be made.
    assert set(schemas["JobRequest"]["properties"]) == set(SETTABLE) - {"job_id"}
    assert set(schemas["JobChange"]["properties"]) == {*SETTABLE, *OURS, CONDITION}
    assert set(schemas["JobView"]["properties"]) == set(to_builtins(show_job(JOB)))
    assert set(schemas["RunView"]["properties"]) == set(to_builtins(show_run(RUN)))
