"""The configuration: frozen sections, read from TOML, environment and command line."""

from gateway.config.loader import ConfigSource, load
from gateway.config.problems import ConfigError
from gateway.config.rendering import render
from gateway.config.secret import Secret, Url
from gateway.config.sections import Config, ModelSection, UpstreamSection

__all__ = [
    "Config",
    "ConfigError",
    "ConfigSource",
    "ModelSection",
    "Secret",
    "UpstreamSection",
    "Url",
    "load",
    "render",
]
