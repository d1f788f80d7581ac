"""What the parts of a configuration must have in common: rules over the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.util import find_spec
from ipaddress import ip_address

from gateway.config.budgets import read_budget
from gateway.config.checks import POSTGRES
from gateway.config.presets import NO_PRESET, PRESETS
from gateway.config.problems import Problem, hint, quote_short
from gateway.config.sections import Config, UpstreamSection

DEMO_ID = "demo"
LOCAL_OWNER = "local"
AGENT_TOOLS = ("clock", "schedule_task")

# What is sent to an upstream instead of a key of the operator's.
KEYLESS = {
    "none": '"none" sends no key',
    "client": '"client" sends the client\'s own key',
}
LIMITS = ("models", "rpm", "tpm", "concurrent", "budget")
NO_PRICES = "a budget in USD needs prices, which only [[models]] have; there are none"
KEY_FORMS = ("api_key_env", "api_key_command", "api_key")
# Transports that are a package of their own, and an extra of ours.
EXTRA_TRANSPORTS = ("httpx2",)
POSTGRES_DRIVER = "asyncpg"
LAST_PORT = 65_535

Rule = Callable[[Config], Iterator[Problem]]


def inconsistencies(config: Config) -> Iterator[Problem]:
    """Yield what every rule finds."""
    for rule in RULES:
        yield from rule(config)


def names_are_unique(config: Config) -> Iterator[Problem]:
    """An upstream or a model has its name for itself; of two agents the later one counts."""
    yield from _report_repeats("upstreams", "id", [upstream.id for upstream in config.upstreams])
    yield from _report_repeats("models", "name", [model.name for model in config.models])


def keys_are_unique(config: Config) -> Iterator[Problem]:
    """A key tells who its owner is, so two entries cannot share one."""
    for later, earlier in _pairs([key.sha256 for key in config.keys]):
        yield Problem(f"keys[{later}]", f"is the same key as keys[{earlier}]")


def limits_belong_to_owners(config: Config) -> Iterator[Problem]:
    """The keys of an owner agree about its limits, and name models that there are."""
    first: dict[tuple[str, str], int] = {}
    public = _public_models(config)
    for index, key in enumerate(config.keys):
        for name in LIMITS:
            value = getattr(key, name)
            earlier = first.setdefault((key.owner, name), index) if value else index
            if value != getattr(config.keys[earlier], name):
                message = f"differs from keys[{earlier}]; limits belong to the owner, not the key"
                yield Problem(f"keys[{index}].{name}", message)
        for model in key.models if public is not None else ():
            says = "is not a public model"
            yield from _report_unknown(f"keys[{index}].models", model, public or (), says)


def money_needs_prices(config: Config) -> Iterator[Problem]:
    """A budget in USD is for models with a price: others would be free."""
    allowed = {key.owner: key.models for key in config.keys if key.models}
    for index, key in enumerate(config.keys):
        if not _is_in_money(key.budget):
            continue
        if not config.models:
            yield Problem(f"keys[{index}].budget", NO_PRICES)
        mine = allowed.get(key.owner) or {model.name for model in config.models}
        free = [m.name for m in config.models if m.price is None and m.name in mine]
        if free:
            names = ", ".join(map(quote_short, free))
            says = f"a budget in USD needs a price for each model; missing: {names}"
            yield Problem(f"keys[{index}].budget", says)


def _is_in_money(budget: str) -> bool:
    try:
        return read_budget(budget).unit == "USD"
    except ValueError:
        # It was refused already.
        return False


def routes_lead_somewhere(config: Config) -> Iterator[Problem]:
    """A route names an upstream, and a model that upstream lists."""
    served = {upstream.id: upstream.models for upstream in config.upstreams}
    if config.demo:
        served[DEMO_ID] = ("*",)
    for index, model in enumerate(config.models):
        for route in model.routes:
            for complaint in _route_complaints(route, served):
                yield Problem(f"models[{index}].routes", complaint)


def presets_are_complete(config: Config) -> Iterator[Problem]:
    """A preset has the parameters that its provider needs."""
    for index, upstream in enumerate(config.upstreams):
        given = {name for name, _ in upstream.query}
        for name in PRESETS.get(upstream.preset, NO_PRESET).parameters:
            if given and name not in given:
                message = f"preset {upstream.preset} needs {name}"
                yield Problem(f"upstreams[{index}].query", message)


def upstreams_get_one_key(config: Config) -> Iterator[Problem]:
    """An upstream that gets no key of ours is given none, and no header is sent twice."""
    for index, upstream in enumerate(config.upstreams):
        where = f"upstreams[{index}]"
        if upstream.auth in KEYLESS and (key := _find_key_form(upstream)):
            yield Problem(f"{where}.auth", f"{KEYLESS[upstream.auth]}; remove {key}")
        names = {name.lower() for name, _ in upstream.headers}
        for name, _ in upstream.headers_env:
            if name.lower() in names:
                yield Problem(f"{where}.headers_env", f"{quote_short(name)} is also in headers")


def transports_have_packages(config: Config) -> Iterator[Problem]:
    """A transport that is an extra can be chosen where its package is."""
    for index, upstream in enumerate(config.upstreams):
        name = upstream.transport
        if name in EXTRA_TRANSPORTS and find_spec(name) is None:
            yield Problem(
                f"upstreams[{index}].transport",
                f"the package {name} is not installed; run: pip install 'holdgate[{name}]'",
            )


def stores_have_packages(config: Config) -> Iterator[Problem]:
    """PostgreSQL can be chosen where its driver is."""
    if config.store.url.startswith(POSTGRES) and find_spec(POSTGRES_DRIVER) is None:
        yield Problem(
            "store.url",
            f"the package {POSTGRES_DRIVER} is not installed; "
            "run: pip install 'holdgate[postgres]'",
        )


def strangers_need_a_key(config: Config) -> Iterator[Problem]:
    """Without keys only this machine is served."""
    if not config.keys and not _is_loopback(config.server.host):
        yield Problem(
            "server.host",
            f"{quote_short(config.server.host)} is not a loopback address and there are no "
            "[[keys]]; add a key, or listen on 127.0.0.1",
        )


def workers_share_a_store(config: Config) -> Iterator[Problem]:
    """Several processes need a store that they can share."""
    workers, url = config.server.workers, config.store.url
    if workers > 1 and not url.startswith(POSTGRES):
        name = f'a store of "{url.partition(":")[0]}:"' if url else "the embedded store"
        yield Problem(
            "server.workers",
            f"{workers} workers need a store that they can share, and {name} belongs to one "
            'process; set store.url to "postgresql://…"',
        )


def metrics_ports_exist(config: Config) -> Iterator[Problem]:
    """Each worker has a port of its own for its metrics."""
    first, workers = config.metrics.port, config.server.workers
    if first + workers - 1 > LAST_PORT:
        yield Problem("metrics.port", f"{workers} workers need ports up to {first + workers - 1}")


def webhooks_have_owners(config: Config) -> Iterator[Problem]:
    """A webhook belongs to an owner there is."""
    owners = {key.owner for key in config.keys} or {LOCAL_OWNER}
    for index, webhook in enumerate(config.webhooks):
        if webhook.owner and "" not in owners:
            says = f"is not one of the owners {', '.join(sorted(owners))}"
            yield from _report_unknown(f"webhooks[{index}].owner", webhook.owner, owners, says)


def agents_can_work(config: Config) -> Iterator[Problem]:
    """An agent has a public model, and tools that there are."""
    public = _public_models(config)
    for index, agent in enumerate(config.agents):
        if public is not None and agent.model:
            says = "is not a public model"
            yield from _report_unknown(f"agents[{index}].model", agent.model, public, says)
        for tool in agent.tools:
            says = f"is not a server tool; there are {' and '.join(AGENT_TOOLS)}"
            yield from _report_unknown(f"agents[{index}].tools", tool, AGENT_TOOLS, says)


def _public_models(config: Config) -> set[str] | None:
    """Return the public names; None where any name may be one."""
    if config.models:
        return {model.name for model in config.models}
    offers = [(upstream.id, name) for upstream in config.upstreams for name in upstream.models]
    if any(name == "*" for _, name in offers):
        return None
    if config.demo:
        offers.append((DEMO_ID, DEMO_ID))
    return {name for _, name in offers} | {f"{upstream}/{name}" for upstream, name in offers}


RULES: tuple[Rule, ...] = (
    names_are_unique,
    keys_are_unique,
    limits_belong_to_owners,
    money_needs_prices,
    routes_lead_somewhere,
    presets_are_complete,
    upstreams_get_one_key,
    transports_have_packages,
    stores_have_packages,
    strangers_need_a_key,
    workers_share_a_store,
    metrics_ports_exist,
    webhooks_have_owners,
    agents_can_work,
)


def _find_key_form(upstream: UpstreamSection) -> str:
    """Return the name of the key that holds or names the upstream's key."""
    return next((name for name in KEY_FORMS if getattr(upstream, name)), "")


def _pairs(values: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield each repetition with its first place; empty ones stand for values already refused."""
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        if value and first.setdefault(value, index) != index:
            yield index, first[value]


def _report_repeats(table: str, key: str, values: list[str]) -> Iterator[Problem]:
    for later, earlier in _pairs(values):
        message = f"{quote_short(values[later])} is already {table}[{earlier}]"
        yield Problem(f"{table}[{later}].{key}", message)


def _report_unknown(where: str, value: str, known: Collection[str], says: str) -> Iterator[Problem]:
    if value not in known:
        yield Problem(where, f"{quote_short(value)} {says}{hint(value, known)}")


def _route_complaints(route: str, served: dict[str, tuple[str, ...]]) -> Iterator[str]:
    upstream, slash, model = route.partition("/")
    if not slash:
        return
    # With an upstream whose id was refused, nobody can say which one was meant.
    if upstream not in served and "" not in served:
        yield f"{quote_short(route)} names an unknown upstream{hint(upstream, served)}"
    models = served.get(upstream, ("*",))
    if not {"*", model} & set(models):
        yield f"upstream {upstream} does not list {quote_short(model)}{hint(model, models)}"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
