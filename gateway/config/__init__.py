"""The configuration: frozen sections, read from TOML, environment and command line."""

from gateway.config.loader import load
from gateway.config.problems import ConfigError, Problem
from gateway.config.rendering import render
from gateway.config.secret import Secret, Url
from gateway.config.sections import (
    AgentSection,
    ClockSection,
    Config,
    CronSection,
    KeySection,
    LimitsSection,
    ModelSection,
    NtpSection,
    ServerSection,
    StopMessageSection,
    StoreSection,
    UpstreamSection,
    WebhookSection,
)

__all__ = [
    "AgentSection",
    "ClockSection",
    "Config",
    "ConfigError",
    "CronSection",
    "KeySection",
    "LimitsSection",
    "ModelSection",
    "NtpSection",
    "Problem",
    "Secret",
    "ServerSection",
    "StopMessageSection",
    "StoreSection",
    "UpstreamSection",
    "Url",
    "WebhookSection",
    "load",
    "render",
]
