"""What time it is: the host's clock, corrected by time servers, and what is to ring when."""

from gateway.clock.manual import ManualClock
from gateway.clock.ntp import NtpClock, NtpSettings
from gateway.clock.protocol import Clock, NtpState
from gateway.clock.system import Host, SteadyClock, SystemClock
from gateway.clock.timer_queue import TimerQueue

__all__ = [
    "Clock",
    "Host",
    "ManualClock",
    "NtpClock",
    "NtpSettings",
    "NtpState",
    "SteadyClock",
    "SystemClock",
    "TimerQueue",
]
