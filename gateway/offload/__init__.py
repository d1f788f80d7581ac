"""Work on large requests, done beside the event loop: in other processes, owner by owner in turn.

A thread would not do. Reading JSON of 20 MB is one call into C that holds the interpreter's lock
for up to a second, and with it the event loop. So the work is sent to a helper process: a pure
function and its arguments go out as a pickle, its result comes back. What is small is done at once.
"""

from gateway.offload.pool import Offload, OffloadSettings

__all__ = ["Offload", "OffloadSettings"]
