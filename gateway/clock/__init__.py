"""What time it is: the host's clock, corrected by time servers, and what is to ring when."""

from gateway.clock.alarms import Alarms
from gateway.clock.base import Clock, Host, NtpState
from gateway.clock.manual import ManualClock
from gateway.clock.ntp import NtpClock, NtpSettings
from gateway.clock.steady import SteadyClock
from gateway.clock.system import SystemClock

__all__ = [
    "Alarms",
    "Clock",
    "Host",
    "ManualClock",
    "NtpClock",
    "NtpSettings",
    "NtpState",
    "SteadyClock",
    "SystemClock",
]
