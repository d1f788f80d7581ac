"""Loading: sources become one configuration, or one error with every problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from gateway.config.consistency import inconsistencies
from gateway.config.credentials import with_credentials
from gateway.config.problems import ConfigError, Problem
from gateway.config.reader import Problems, build
from gateway.config.secret import Url
from gateway.config.sections import Config, UpstreamSection
from gateway.config.sources import (
    Given,
    Layer,
    find_file,
    from_aliases,
    from_environment,
    from_file,
    from_overrides,
)

NOTHING: Mapping[str, object] = MappingProxyType({})

# Upstreams that are there by themselves while none is configured, if their key is.
WELL_KNOWN = (
    UpstreamSection(
        id="openai",
        base_url=Url("https://api.openai.com/v1"),
        api_key_env="OPENAI_API_KEY",
    ),
    UpstreamSection(
        id="anthropic",
        base_url=Url("https://api.anthropic.com/v1"),
        dialect="anthropic-messages",
        api_key_env="ANTHROPIC_API_KEY",
    ),
)


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where a configuration comes from, so that it can be read again."""

    path: Path | None
    environ: Mapping[str, str]
    overrides: Mapping[str, object]
    """By dotted names, as in `server.port`."""
    cwd: Path

    def load(self) -> Config:
        """Return the effective configuration, or raise `ConfigError`."""
        return load(self.path, self.environ, self.overrides, self.cwd)

    def load_again(self, running: Config) -> Config:
        """Return the configuration as it is now; a file that was read before must be there."""
        path = Path(running.file) if running.file else self.path
        # A pipe can be read only once; the second time it would be an empty configuration.
        if path is not None and (file := self.cwd / path).exists() and not file.is_file():
            raise ConfigError(
                [Problem(str(path), "is not a regular file, so it is not read again")]
            )
        return load(path, self.environ, self.overrides, self.cwd)


def load(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = NOTHING,
    cwd: Path | None = None,
) -> Config:
    """Return the effective configuration; overrides have dotted names, as in `server.port`."""
    problems: Problems = []
    base = cwd or Path()
    file = find_file(path, base)
    given = (
        from_file(file, base, problems)
        | from_environment(environ, problems)
        | from_aliases(environ, problems)
        | from_overrides(overrides, problems)
    )
    config = replace(_compose(given, environ), file=str(file or ""))
    config = with_credentials(config, environ, problems)
    config = _with_directories(config, environ, base, problems)
    problems += inconsistencies(config)
    if problems:
        raise ConfigError(problems)
    return config


def _compose(given: Layer, environ: Mapping[str, str]) -> Config:
    """Make sections of what was given, and say whether the demo has to answer."""
    demo = "upstreams" not in given or not given["upstreams"].value
    if demo:
        given = _first_minutes(environ) | given
    values = {name: value for name, (value, _) in given.items()}
    origins = {name: origin for name, (_, origin) in given.items()}
    config: Config = build(Config, values)
    return replace(config, demo=demo, origins=origins)


def _first_minutes(environ: Mapping[str, str]) -> Layer:
    """Return other defaults for a gateway nobody has configured an upstream for yet."""
    upstreams = tuple(upstream for upstream in WELL_KNOWN if environ.get(upstream.api_key_env))
    return {
        "upstreams": Given(upstreams, "the environment"),
        "clock.due_window_ms": Given(0, "the defaults of the demo"),
    }


def _with_directories(
    config: Config, environ: Mapping[str, str], base: Path, problems: Problems
) -> Config:
    """Return the configuration with `~` expanded and relative directories below the base."""

    def expand(where: str, text: str) -> str:
        try:
            return str(base / _expand_home(Path(text), environ)) if text else ""
        except RuntimeError:
            problems.append(Problem(where, "begins with ~, but there is no home directory"))
            return text

    server, stop_message = config.server, config.stop_message
    return replace(
        config,
        server=replace(server, session_dir=expand("server.session_dir", server.session_dir)),
        stop_message=replace(
            stop_message,
            files_dir=expand("stop_message.files_dir", stop_message.files_dir),
            bd_dir=expand("stop_message.bd_dir", stop_message.bd_dir),
        ),
    )


def _expand_home(path: Path, environ: Mapping[str, str]) -> Path:
    if path.parts[:1] != ("~",):
        return path
    # Without HOME the account's own entry says where home is.
    home = environ.get("HOME") or environ.get("USERPROFILE") or Path.home()
    return Path(home, *path.parts[1:])
