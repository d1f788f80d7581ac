"""Each mistake is found, named by its place, and answered with what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config import Config, ConfigError, load

Loader = Callable[..., Config]
Faults = Callable[..., list[str]]

GLM = '[[upstreams]]\nid = "glm"\nbase_url = "https://glm.example/v1"\nmodels = ["glm-4.7"]\n'
DIALECTS = "openai-chat, openai-responses, anthropic-messages"
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
NOT_A_WEB_URL = "must be a URL that begins with http:// or https:// and names a host"


def upstream(*lines: str) -> str:
    return GLM + "\n".join(lines)


def model(routes: str) -> str:
    return f'{GLM}[[models]]\nname = "default"\nroutes = {routes}'


DEFAULT = '["glm/glm-4.7"]'


def priced(members: str) -> str:
    return f"{model(DEFAULT)}\nprice = {{ {members} }}"


def key(lines: str) -> str:
    return f'[[keys]]\nowner = "ann"\n{lines}\n'


ONE_MISTAKE = {
    # names
    "[clock]\nhold_max_sm = 1": ("clock.hold_max_sm: unknown key; did you mean clock.hold_max_ms?"),
    "[clock]\nholdMaxSm = 1": "clock.holdMaxSm: unknown key; did you mean clock.hold_max_ms?",
    "[clock.ntp]\nserver = []": "clock.ntp.server: unknown key; did you mean clock.ntp.servers?",
    "[store]\nxyz = 1": "store.xyz: unknown key; valid are url, listen_url, schema, lease_ms, "
    "entry_ms, poll_ms, connections, outage",
    '[store]\n"a\\nb" = 1': (
        'store."a\\nb": unknown key; valid are url, listen_url, schema, lease_ms, entry_ms, poll_ms, '
        "connections, outage"
    ),
    "[clok]\nenabled = true": "clok: unknown section; did you mean clock?",
    "[budgets]\nx = 1": (
        "budgets: unknown section; valid are server, upstreams, models, keys, clock, directives, "
        "stop_message, cron, store, agents, webhooks, limits, metrics"
    ),
    "demo = true": (
        "demo: unknown section; valid are server, upstreams, models, keys, clock, directives, "
        "stop_message, cron, store, agents, webhooks, limits, metrics"
    ),
    '[server]\nsession_dir = "a\\u0000b"': (
        "server.session_dir: must not contain the character U+0000"
    ),
    '[server]\nhost = "127.0.0.1\\u0000"': "server.host: must not contain the character U+0000",
    '[clock.ntp]\nservers = ["a\\u0000b"]': (
        "clock.ntp.servers: must not contain the character U+0000"
    ),
    "[clock]\ntick_ms = 1\ntickMs = 1": "clock.tick_ms: given twice, also as tickMs",
    "[stop_message]\nenabled = true\n[stopMessage]\nenabled = true": (
        "stop_message: given twice, also as stopMessage"
    ),
    upstream('base_ulr = "x"'): (
        "upstreams[0].base_ulr: unknown key; did you mean upstreams[0].base_url?"
    ),
    priced("input = 1, outputs = 2"): (
        'models[0].price: unknown key "outputs"; did you mean output?'
    ),
    priced("input = 1, output = 2, image = 3"): (
        'models[0].price: unknown key "image"; valid are input, cached, output'
    ),
    priced("input = 1"): "models[0].price: output is required; write 0 if it costs nothing",
    priced("cached = 1, output = 0"): (
        "models[0].price: input is required; write 0 if it costs nothing"
    ),
    priced("input = -0.5, output = 1"): (
        "models[0].price: input must be a number from 0 to 1000000"
    ),
    priced("input = 1, output = 1e300"): (
        "models[0].price: output must be a number from 0 to 1000000"
    ),
    priced("input = 0.0000001, output = 1"): (
        "models[0].price: input must not have more than 6 digits after the point"
    ),
    priced('input = "1 USD", output = 1'): (
        'models[0].price: the value of "input": expected a number, got "1 USD"'
    ),
    priced("input = true, output = 1"): (
        'models[0].price: the value of "input": expected a number, got true'
    ),
    priced("input = inf, output = 1"): (
        'models[0].price: the value of "input": expected a number that is finite'
    ),
    f"{model(DEFAULT)}\nprice = 2": (
        "models[0].price: expected a table of numbers, got an integer"
    ),
    f"{model(DEFAULT)}\nprices = {{}}": (
        "models[0].prices: unknown key; did you mean models[0].price?"
    ),
    # types
    '[server]\nport = "abc"': 'server.port: expected an integer, got "abc"',
    "[server]\nport = true": "server.port: expected an integer, got true",
    "[server]\nport = 1.5": "server.port: expected an integer, got a float",
    "[server]\nport = 1979-05-27": "server.port: expected an integer, got a date",
    f"[server]\nport = 0x{'f' * 5000}": "server.port: the integer is too large",
    "[clock]\nenabled = 1": "clock.enabled: expected true or false, got an integer",
    '[clock]\nenabled = "on"': 'clock.enabled: expected true or false, got "on"',
    f'[clock]\nenabled = "{"x" * 99}"': (
        f'clock.enabled: expected true or false, got "{"x" * 60}…"'
    ),
    "[server]\nhost = 1": "server.host: expected a string, got an integer",
    '[server]\nhosts = "a"': "server.hosts: expected an array of strings, got a string",
    "[server]\nhosts = [1]": "server.hosts: expected an array of strings, but it contains an integer",
    '[server]\nhosts = [""]': "server.hosts: must not contain an empty string",
    "server = 1": "server: expected a table [server], got an integer",
    "[[server]]\nport = 1": "server: expected a table [server], got an array",
    "[clock]\nntp = false": "clock.ntp: expected a table [clock.ntp], got a boolean",
    "upstreams = 1": "upstreams: expected an array of tables [[upstreams]], got an integer",
    "upstreams = [1]": "upstreams[0]: expected a table, got an integer",
    GLM.replace("[[upstreams]]", "[upstreams]"): (
        "upstreams: expected an array of tables [[upstreams]], got a table"
    ),
    "[clock]\nstandard_tools = [1]": (
        "clock.standard_tools: every item must be a table or a JSON object"
    ),
    "[clock]\nstandard_tools = ['{']": "clock.standard_tools: is not valid JSON",
    "[clock]\nstandard_tools = {}": (
        "clock.standard_tools: expected an array of tables, got a table"
    ),
    # ranges and words
    "[server]\nport = -1": "server.port: -1 is out of range; it must be at least 0",
    "[server]\nport = 65536": "server.port: 65536 is out of range; it must be at most 65535",
    "[clock]\nhold_max_ms = -1": "clock.hold_max_ms: -1 is out of range; it must be at least 0",
    "[clock]\ntick_ms = 0": "clock.tick_ms: 0 is out of range; it must be at least 1",
    "[limits]\nturns = 0": "limits.turns: 0 is out of range; it must be at least 1",
    '[server]\nhost = ""\n[[keys]]\nowner = "a"\nkey = "k"': "server.host: must not be empty",
    '[clock]\ntime_tag = "user"': (
        'clock.time_tag: "user" is not one of always, user_turns, off; did you mean user_turns?'
    ),
    '[stop_message]\nbd_mode = "x"': (
        'stop_message.bd_mode: "x" is not one of auto, runtime, heuristic'
    ),
    upstream('dialect = "openai-cht"'): (
        f'upstreams[0].dialect: "openai-cht" is not one of {DIALECTS}; did you mean openai-chat?'
    ),
    upstream('transport = "fats"'): (
        'upstreams[0].transport: "fats" is not one of fast, httpx, httpx2; did you mean fast?'
    ),
    '[clock]\ntimezone = "europe/berln"': (
        'clock.timezone: "europe/berln" is not an IANA time zone; did you mean Europe/Berlin?'
    ),
    '[server]\nsession_dir = "~bob/x"': (
        "server.session_dir: ~user is not supported; write the whole path"
    ),
    '[server]\ncors_origins = ["http://a.example/"]': (
        'server.cors_origins: "http://a.example/" is not an origin; '
        "write scheme://host or scheme://host:port"
    ),
    # upstreams
    '[[upstreams]]\nid = "glm"': "upstreams[0].base_url: is required",
    '[[upstreams]]\nbase_url = "https://a.example"': "upstreams[0].id: is required",
    '[[upstreams]]\nbase_ulr = "https://a.example"\nid = "a"': (
        "upstreams[0].base_ulr: unknown key; did you mean upstreams[0].base_url?"
    ),
    GLM.replace('"glm"', '"g/m"'): (
        'upstreams[0].id: "g/m" is not an id; use letters, digits, - and _'
    ),
    **{
        GLM.replace("https://glm.example/v1", url): f"upstreams[0].base_url: {complaint}"
        for url, complaint in {
            "ftp://glm.example/v1": NOT_A_WEB_URL,
            "glm.example/v1": NOT_A_WEB_URL,
            "https:///v1": NOT_A_WEB_URL,
            "https://glm.example:x/v1": NOT_A_WEB_URL,
            "https://glm.example/v 1": NOT_A_WEB_URL,
            "https://glm.example/v1\\n": NOT_A_WEB_URL,
            "https://glm.example/v1?a=b": "must not have a query or a fragment",
            "https://glm.example/v1#a": "must not have a query or a fragment",
        }.items()
    },
    GLM.replace('["glm-4.7"]', "[]"): "upstreams[0].models: must not be empty",
    GLM + GLM: 'upstreams[1].id: "glm" is already upstreams[0]',
    upstream("headers = 1"): "upstreams[0].headers: expected a table of strings, got an integer",
    upstream("headers = { x = 1 }"): (
        'upstreams[0].headers: the value of "x": expected a string, got an integer'
    ),
    upstream('headers = { "a b" = "1" }'): 'upstreams[0].headers: "a b" is not a header name',
    upstream('headers = { Host = "x" }'): (
        'upstreams[0].headers: "Host" is a header the gateway sets itself'
    ),
    upstream('headers = { x = "a\\r\\nb" }'): (
        'upstreams[0].headers: the value of "x": must be printable ASCII, without line breaks'
    ),
    upstream('path = "chat"'): (
        'upstreams[0].path: "chat" is not a path; begin with /, write {model} for the model, '
        "and put parameters into query"
    ),
    **{
        upstream(f'path = "{path}"'): (
            f'upstreams[0].path: "{path}" is not a path; begin with /, write {{model}} for the '
            "model, and put parameters into query"
        )
        for path in ("/a?b=c", "/a#b", "/{modle}", "/a b", "/{}", "/a%2")
    },
    '[[upstreams]]\nid = "a"\npreset = "azure"': (
        "upstreams[0].base_url: is required: azure needs your resource, such as "
        "https://NAME.openai.azure.com/openai/v1"
    ),
    '[[upstreams]]\nid = "a"\npreset = "bedrock"': (
        "upstreams[0].base_url: is required: bedrock needs the endpoint of your region, such as "
        "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"
    ),
    upstream('preset = "azure-deployments"'): (
        "upstreams[0].query: is required: azure-deployments needs a version of the API, such as "
        '{ api-version = "2024-10-21" }'
    ),
    upstream('preset = "azure-deployments"', 'query = { apiversion = "1" }'): (
        "upstreams[0].query: preset azure-deployments needs api-version"
    ),
    '[[upstreams]]\nid = "a"\npreset = "opnai"': (
        'upstreams[0].preset: "opnai" is not one of openai, anthropic, azure, azure-deployments, '
        "openrouter, gemini, bedrock, deepseek, glm, kimi, qwen, mistral, groq, ollama, vllm, "
        "llamacpp; did you mean openai?"
    ),
    '[[upstreams]]\nid = "a"\npreset = 1': (
        "upstreams[0].preset: expected a string, got an integer"
    ),
    upstream("query = { api-version = 1 }"): (
        'upstreams[0].query: the value of "api-version": expected a string, got an integer'
    ),
    upstream('query = { "" = "x" }'): (
        "upstreams[0].query: the name of a parameter must not be empty"
    ),
    upstream('auth = "baerer"'): (
        'upstreams[0].auth: "baerer" is not one of bearer, x-api-key, api-key, none, client; '
        "did you mean bearer?"
    ),
    upstream('auth = "none"', 'api_key = "k"'): (
        'upstreams[0].auth: "none" sends no key; remove api_key'
    ),
    upstream('auth = "client"', 'api_key_env = "K"'): (
        'upstreams[0].auth: "client" sends the client\'s own key; remove api_key_env'
    ),
    upstream('headers_env = { x = "A" }'): (
        "upstreams[0].headers_env: the environment variable A is not set"
    ),
    upstream('headers_env = { x = "EMPTY" }'): (
        "upstreams[0].headers_env: the environment variable EMPTY is empty"
    ),
    upstream('headers_env = { x = "LINES" }'): (
        'upstreams[0].headers_env: the value of "x": must be printable ASCII, without line breaks'
    ),
    upstream('headers_env = { x = "sk-pasted" }'): (
        'upstreams[0].headers_env: the value of "x" must be the name of an environment variable'
    ),
    upstream('headers_env = { Host = "K" }'): (
        'upstreams[0].headers_env: "Host" is a header the gateway sets itself'
    ),
    upstream('headers = { X = "1" }', 'headers_env = { x = "K" }'): (
        'upstreams[0].headers_env: "x" is also in headers'
    ),
    # models
    model('["gml/glm-4.7"]'): (
        'models[0].routes: "gml/glm-4.7" names an unknown upstream; did you mean glm?'
    ),
    model('["glm/glm-4.6"]'): (
        'models[0].routes: upstream glm does not list "glm-4.6"; did you mean glm-4.7?'
    ),
    model('["glm"]'): 'models[0].routes: "glm" is not a route; write <upstream>/<model>',
    model("[]"): "models[0].routes: must not be empty",
    f'{GLM}[[models]]\nname = "a"': "models[0].routes: is required",
    '[[models]]\nname = "a"\nroutes = ["dmo/x"]': (
        'models[0].routes: "dmo/x" names an unknown upstream; did you mean demo?'
    ),
    model('["glm/glm-4.7"]').replace(
        "[[m", '[[models]]\nname = "default"\nroutes = ["glm/glm-4.7"]\n[[m'
    ): ('models[1].name: "default" is already models[0]'),
    # keys and secrets
    '[[keys]]\nowner = "a"': "keys[0]: needs one of key, key_env, key_sha256",
    '[[keys]]\nowner = "a"\nkye_env = "A"': (
        "keys[0].kye_env: unknown key; did you mean keys[0].key_env?"
    ),
    '[[keys]]\nkey = "k"': "keys[0].owner: is required",
    '[[keys]]\nowner = "a"\nkey_sha256 = "12"': (
        "keys[0].key_sha256: must be the 64 hex digits of a SHA-256"
    ),
    '[[keys]]\nowner = "a"\nkey_env = "A"': (
        "keys[0].key_env: the environment variable A is not set"
    ),
    '[[keys]]\nowner = "a"\nkey_env = "EMPTY"': (
        "keys[0].key_env: the environment variable EMPTY is empty"
    ),
    '[[keys]]\nowner = "a"\nkey_env = "LINES"': (
        "keys[0].key_env: must be printable ASCII, without line breaks"
    ),
    '[[keys]]\nowner = "a"\nkey_env = "STRANGE"': "keys[0].key_env: is not valid UTF-8",
    '[[keys]]\nowner = "a"\nkey = ""': "keys[0].key: must not be empty",
    '[[keys]]\nowner = "a"\nkey = "***"': (
        "keys[0].key: is the mask of a secret; write the secret itself"
    ),
    f'[[keys]]\nowner = "a"\nkey = "k"\nkey_sha256 = "{HASH}"': (
        "keys[0]: key and key_sha256 exclude each other; give one"
    ),
    f'[[keys]]\nowner = "a"\nkey = "test"\n[[keys]]\nowner = "b"\nkey_sha256 = "{HASH.upper()}"': (
        "keys[1]: is the same key as keys[0]"
    ),
    upstream('api_key = "k"\napi_key_env = "K"'): (
        "upstreams[0]: api_key and api_key_env exclude each other; give one"
    ),
    upstream('api_key_env = "K"', 'api_key_command = ["get-key"]'): (
        "upstreams[0]: api_key_env and api_key_command exclude each other; give one"
    ),
    upstream('api_key_command = "get-key --all"'): (
        "upstreams[0].api_key_command: expected an array of strings, got a string"
    ),
    upstream('auth = "none"', 'api_key_command = ["get-key"]'): (
        'upstreams[0].auth: "none" sends no key; remove api_key_command'
    ),
    upstream('api_key_env = "sk-pasted"'): (
        "upstreams[0].api_key_env: must be the name of an environment variable"
    ),
    upstream("api_key = 12345"): "upstreams[0].api_key: expected a string, got an integer",
    '[[webhooks]]\nowner = "local"\nurl = "https://a.example"\nsecret_env = "A"': (
        "webhooks[0].secret_env: the environment variable A is not set"
    ),
    '[[webhooks]]\nowner = "local"\nurl = "https://a.example"': (
        "webhooks[0]: needs secret or secret_env: the gateway signs what it posts with it"
    ),
    '[[webhooks]]\nowner = "loca"\nurl = "https://a.example"\nsecret = "s"': (
        'webhooks[0].owner: "loca" is not one of the owners local; did you mean local?'
    ),
    key('key = "k"\nbudget = "20 EUR/month"'): (
        'keys[0].budget: "20 EUR/month": write it like "20 USD/month" or "2M tokens/day"'
    ),
    key('key = "k"\nmodels = ["demmo"]'): (
        'keys[0].models: "demmo" is not a public model; did you mean demo?'
    ),
    key('key = "k"\nrpm = 3') + key('key = "l"\nrpm = 4'): (
        "keys[1].rpm: differs from keys[0]; limits belong to the owner, not the key"
    ),
    key('key = "k"\nbudget = "1 USD/day"'): (
        "keys[0].budget: a budget in USD needs prices, which only [[models]] have; there are none"
    ),
    priced("input = 1, output = 2")
    + f'\n[[models]]\nname = "free"\nroutes = {DEFAULT}\n'
    + key('key = "k"\nbudget = "1 USD/day"'): (
        'keys[0].budget: a budget in USD needs a price for each model; missing: "free"'
    ),
    '[[agents]]\nid = "a"\nmodel = "demmo"': (
        'agents[0].model: "demmo" is not a public model; did you mean demo?'
    ),
    '[[agents]]\nid = "a"\nmodel = "demo"\ntools = ["clok"]': (
        'agents[0].tools: "clok" is not a server tool; there are clock and schedule_task; '
        "did you mean clock?"
    ),
    # the whole
    '[server]\nhost = "0.0.0.0"': (
        'server.host: "0.0.0.0" is not a loopback address and there are no [[keys]]; '
        "add a key, or listen on 127.0.0.1"
    ),
    '[server]\nhost = "gateway.example"': (
        'server.host: "gateway.example" is not a loopback address and there are no [[keys]]; '
        "add a key, or listen on 127.0.0.1"
    ),
    "[server]\nworkers = 4": (
        "server.workers: 4 workers need a store that they can share, and the embedded store "
        'belongs to one process; set store.url to "postgresql://…"'
    ),
    '[server]\nworkers = 2\n[store]\nurl = "sqlite:///tmp/x.db"': (
        'server.workers: 2 workers need a store that they can share, and a store of "sqlite:" '
        'belongs to one process; set store.url to "postgresql://…"'
    ),
    '[server]\nworkers = 2\n[store]\nurl = "postgresql://h/d"\n[metrics]\nport = 65535': (
        "metrics.port: 2 workers need ports up to 65536"
    ),
    '[store]\nlisten_url = "h"': "store.listen_url: must be postgresql://…, or empty",
    "[store]\nlease_ms = 1000": "store.lease_ms: 1000 is out of range; it must be at least 3000",
    '[store]\nschema = ""': "store.schema: must not be empty",
    f'[store]\nschema = "{51 * "s"}"': "store.schema: must be at most 50 printable characters",
    '[store]\noutage = "wait"': 'store.outage: "wait" is not one of relay, refuse',
    **{
        f'[store]\nurl = "{url}"': (
            'store.url: must be "", sqlite:///path, memory: or postgresql://…'
        )
        for url in ("redis://x", "sqlite:///", "sqlite://x.db", "memory")
    },
}


@pytest.mark.parametrize("text", ONE_MISTAKE)
def test_one_mistake_is_one_problem(faults: Faults, text: str) -> None:
    environ = {"EMPTY": "", "LINES": "a\nb", "STRANGE": "a\udc80", "K": "k"}
    assert faults(text, environ) == [ONE_MISTAKE[text]]


ONE_VARIABLE = {
    ("HOLDGATE_CLOCK__TIK_MS", "1"): "unknown variable; did you mean HOLDGATE_CLOCK__TICK_MS?",
    ("HOLDGATE_clock__tick_ms", "1"): "unknown variable; did you mean HOLDGATE_CLOCK__TICK_MS?",
    ("HOLDGATE_X__Y", "1"): "unknown variable",
    ("HOLDGATE_UPSTREAMS__ID", "1"): (
        "arrays of tables are set as a whole; set HOLDGATE_UPSTREAMS to a JSON array"
    ),
    ("HOLDGATE_SERVER__PORT", "x"): 'expected an integer, got "x"',
    ("HOLDGATE_SERVER__PORT", ""): 'expected an integer, got ""',
    ("HOLDGATE_SERVER__PORT", "-1"): "-1 is out of range; it must be at least 0",
    ("HOLDGATE_CLOCK__ENABLED", "maybe"): 'expected true or false, got "maybe"',
    ("HOLDGATE_SERVER__HOSTS", "[1]"): "expected an array of strings, but it contains an integer",
    ("HOLDGATE_SERVER__HOSTS", "["): "is not valid JSON",
    ("HOLDGATE_SERVER__SESSION_DIR", ""): "must not be empty",
    ("HOLDGATE_CLOCK__STANDARD_TOOLS", "x"): "is not valid JSON",
    ("HOLDGATE_CLOCK__STANDARD_TOOLS", "[" * 100_000): "is not valid JSON",
    ("HOLDGATE_UPSTREAMS", "x"): "is not valid JSON",
    ("HOLDGATE_UPSTREAMS", '"\udc80"'): "is not valid JSON",
    ("ROUTECODEX_CLOCK_NTP", "maybe"): 'expected true or false, got "maybe"',
    ("ROUTECODEX_STOPMESSAGE_BD_MODE", "x"): '"x" is not one of auto, runtime, heuristic',
}


@pytest.mark.parametrize("name, value", ONE_VARIABLE)
def test_one_wrong_variable_is_one_problem(faults: Faults, name: str, value: str) -> None:
    assert faults("", {name: value}) == [f"{name}: {ONE_VARIABLE[name, value]}"]


def test_a_variable_with_a_strange_name_takes_one_line(faults: Faults) -> None:
    assert faults("", {"HOLDGATE_\n__X": "1"}) == ['"HOLDGATE_\\n__X": unknown variable']


def test_rows_of_the_environment_are_named_like_those_of_the_file(faults: Faults) -> None:
    rows = '[{"id": "a", "base_ulr": "x"}, {"id": "b", "base_url": null}]'
    assert faults("", {"HOLDGATE_UPSTREAMS": rows}) == [
        "upstreams[0].base_ulr: unknown key; did you mean upstreams[0].base_url?",
        "upstreams[1].base_url: expected a string, got null",
    ]


def test_five_mistakes_are_five_problems_each_with_what_was_meant(faults: Faults) -> None:
    text = """
    [server]
    prot = 8787
    [clock]
    hold_max_sm = 60000
    time_tag = "alway"
    [[upstreams]]
    id = "glm"
    base_url = "https://glm.example/v1"
    dialect = "openai-cat"
    [[models]]
    name = "default"
    routes = ["gml/glm-4.7"]
    """
    found = faults(text)
    meant = [line.rpartition("did you mean ")[2].rstrip("?") for line in found]
    assert meant == ["server.port", "clock.hold_max_ms", "always", "openai-chat", "glm"]


def test_a_budget_needs_prices_of_the_owners_models_alone(loaded: Loader) -> None:
    free = f'\n[[models]]\nname = "free"\nroutes = {DEFAULT}\n'
    bounded = key('key = "k"\nmodels = ["default"]') + key('key = "l"\nbudget = "1 USD/day"')
    config = loaded(priced("input = 1, output = 2") + free + bounded)
    assert config.keys[1].budget == "1 USD/day"


def test_every_item_of_a_list_is_judged(faults: Faults) -> None:
    assert faults(model('["a", "b", "c/d"]')) == [
        'models[0].routes: "a" is not a route; write <upstream>/<model>',
        'models[0].routes: "b" is not a route; write <upstream>/<model>',
        'models[0].routes: "c/d" names an unknown upstream',
    ]


def test_a_route_is_not_blamed_for_an_upstream_without_id(faults: Faults) -> None:
    text = '[[upstreams]]\nbase_url = "https://a.example"\n[[models]]\nname = "m"\nroutes = ["a/b"]'
    assert faults(text) == ["upstreams[0].id: is required"]


def test_a_value_that_is_overridden_is_judged_all_the_same(faults: Faults) -> None:
    found = faults("[server]\nport = -1", {"HOLDGATE_SERVER__PORT": "80"})
    assert found == ["server.port: -1 is out of range; it must be at least 0"]


@pytest.mark.parametrize(
    "content, problem",
    [
        (
            b"[server]\nport 1",
            "x.toml:2:6: not valid TOML: Expected '=' after a key in a key/value pair",
        ),
        (b"a = [", "x.toml: not valid TOML: Invalid value (at end of document)"),
        (b"a = " + b"1" * 5000, "x.toml: not valid TOML: Exceeds the limit"),
        (b"a = " + b"[" * 100_000, "x.toml: not valid TOML: maximum recursion depth"),
        (b"a = '\xff'", "x.toml: is not valid UTF-8"),
    ],
)
def test_a_file_that_cannot_be_parsed(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(Path("x.toml"), {}, cwd=tmp_path)
    assert str(caught.value).startswith(problem)
    assert len(caught.value.problems) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no\.toml: cannot be read: No such file"):
        load(Path("no.toml"), {}, cwd=tmp_path)
    with pytest.raises(ConfigError, match=r'^"a\\nb": cannot be read: No such file'):
        load(Path("a\nb"), {}, cwd=tmp_path)


def test_a_wrong_override_names_the_nearest_setting(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^server\.prot: unknown setting; did you mean server\.port\?$"
    ):
        load(None, {}, {"server.prot": 1}, cwd=tmp_path)


def test_an_account_without_home_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ConfigError, match=r"^server\.session_dir: begins with ~, but there is no"):
        load(None, {}, cwd=tmp_path)
