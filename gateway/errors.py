"""Every error the gateway can show, and how it looks from outside.

HoldgateError
 ├── BadRequest                  400  the request cannot be read; names the field
 │    ├── NoRoute                400  routing leaves no upstream
 │    ├── BodyTooLarge           413
 │    └── UnsupportedEncoding    415
 ├── Unauthorized                401  no key, or a wrong one
 ├── Forbidden                   403  foreign Origin, unknown Host, not yours to administer
 ├── NotFound                    404
 │    └── ModelNotFound          404
 ├── MethodNotAllowed            405
 ├── RequestTimeout              408  the request did not come whole in time
 ├── ExchangeConflict            409  what is asked for can not be done with an exchange now
 │    ├── NotHolding             409  it is not held
 │    └── HasEnded               409  it has ended
 ├── SessionDeleted              410  somebody deleted the session of the exchange
 ├── ExchangeCut                 410  somebody cut the exchange off
 ├── UpgradeRequired             426  a WebSocket is asked for; only HTTP is spoken
 ├── TooMany                     429  a limit of the gateway, with retry-after
 │    └── LimitExceeded          429  a limit of the owner, with headers that say what is left
 │         ├── RateLimitExceeded 429  requests or tokens of a minute, or answers at once
 │         └── BudgetExceeded    429  what may be spent in a day or a month is spent
 ├── TooManyConnections          503  limits.connections is reached
 ├── Unavailable                 503
 │    └── Draining               503  shutting down
 └── UpstreamError               502  whoever answers did not
      ├── UpstreamUnreachable    502  refused, reset or never connected
      ├── UpstreamBroke          502  the answer broke off or cannot be read
      ├── UpstreamTimeout        504  no first byte, or silence for too long
      ├── UpstreamBusy           503  all its connections are in use
      ├── UpstreamAuth           502  it refused the operator's key
      └── UpstreamAnswered       its own status: an error answer, passed on

Every message is one sentence for the person who reads it. A dialect renders it (gateway/dialects);
libraries' exceptions are mapped to these where the library is called. `InvalidInput` stands apart:
it goes to whoever asked for a reminder or a job, a model or a person, and they ask anew.
"""

from __future__ import annotations

Headers = tuple[tuple[bytes, bytes], ...]


class HoldgateError(Exception):
    """Something the gateway says to a client instead of an answer."""

    status = 500
    code = "internal_error"
    kind = "server_error"
    may_fail_over = False
    """Whether another route may be asked instead."""

    def __init__(
        self, message: str, *, param: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after


class BadRequest(HoldgateError):
    """The request cannot be read or means nothing."""

    status, code, kind = 400, "bad_request", "invalid_request_error"


class NoRoute(BadRequest):
    """Routing leaves no upstream to ask."""

    code = "no_route"


class BodyTooLarge(BadRequest):
    """The body is longer than the limit."""

    status, code = 413, "body_too_large"


class UnsupportedEncoding(BadRequest):
    """The body's type or encoding is not one we read."""

    status, code = 415, "unsupported_media_type"


class Unauthorized(HoldgateError):
    """No key, or a wrong one."""

    status, code, kind = 401, "invalid_api_key", "authentication_error"


class Forbidden(HoldgateError):
    """A foreign Origin, an unknown Host, or not yours to administer."""

    status, code, kind = 403, "forbidden", "permission_error"


class NotFound(HoldgateError):
    """There is no such thing, or it is somebody else's."""

    status, code, kind = 404, "not_found", "not_found_error"


class ModelNotFound(NotFound):
    """No public model has this name."""

    code, kind = "model_not_found", "invalid_request_error"


class MethodNotAllowed(HoldgateError):
    """The path exists, the method does not."""

    status, code, kind = 405, "method_not_allowed", "invalid_request_error"

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class RequestTimeout(HoldgateError):
    """The request did not come whole in time."""

    status, code, kind = 408, "request_timeout", "invalid_request_error"


class ExchangeConflict(HoldgateError):
    """What is asked for can not be done with an exchange as it is now."""

    status, code, kind = 409, "conflict", "invalid_request_error"


class NotHolding(ExchangeConflict):
    """Its answer is not held."""

    code = "not_holding"


class HasEnded(ExchangeConflict):
    """It has ended."""

    code = "has_ended"


class SessionDeleted(HoldgateError):
    """Somebody deleted the session while it was answered."""

    status, code, kind = 410, "session_deleted", "invalid_request_error"


class ExchangeCut(HoldgateError):
    """Somebody cut the exchange off, by hand."""

    status, code, kind = 410, "cut_off", "invalid_request_error"


class UpgradeRequired(HoldgateError):
    """Another protocol is asked for than the one that is spoken."""

    status, code, kind = 426, "upgrade_required", "invalid_request_error"


class TooMany(HoldgateError):
    """A limit of the gateway is reached."""

    status, code, kind = 429, "too_many_requests", "rate_limit_error"


class LimitExceeded(TooMany):
    """A limit that the operator set for an owner is reached."""

    headers: Headers = ()
    """What clients are told of their limits."""
    begins_ms: int | None = None
    """When it is full again, if nothing is left of it before."""


class RateLimitExceeded(LimitExceeded):
    """Too many requests or tokens in a minute, or too many answers at once."""

    code = "rate_limit_exceeded"


class BudgetExceeded(LimitExceeded):
    """The budget of the day or month is spent."""

    code = "budget_exceeded"


class TooManyConnections(HoldgateError):
    """More connections are open than the operator allows."""

    status, code, kind = 503, "too_many_connections", "server_error"


class Unavailable(HoldgateError):
    """The gateway cannot serve this now."""

    status, code, kind = 503, "unavailable", "server_error"


class Draining(Unavailable):
    """The gateway is shutting down."""

    code = "draining"


class ReservationLost(Unavailable):
    """Another instance may have taken over what the turn delivers to its session."""

    code = "reservation_lost"


class UpstreamError(HoldgateError):
    """Whoever answers did not."""

    status, code, kind = 502, "upstream_error", "upstream_error"
    may_fail_over = True


class UpstreamUnreachable(UpstreamError):
    """Refused, reset, or never connected."""

    code = "upstream_unreachable"


class UpstreamBroke(UpstreamError):
    """The answer broke off, or cannot be read."""

    code = "upstream_broke"


class UpstreamTimeout(UpstreamError):
    """No first byte, or silence for too long."""

    status, code = 504, "upstream_timeout"


class UpstreamBusy(UpstreamError):
    """All connections to it are in use."""

    status, code = 503, "upstream_busy"


class UpstreamAuth(UpstreamError):
    """It refused the key that the operator gave the gateway; the client's own key was fine."""

    code = "upstream_auth"
    # The operator should hear of it, which a fail-over would hide.
    may_fail_over = False


FAIL_OVER_STATUSES = frozenset({408, 409, 425, 429})


class UpstreamAnswered(UpstreamError):
    """An error answer of the upstream's own, passed on."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(f"The upstream answered {status}.")
        self.status = status
        self.headers = headers
        self.body = body
        # A bad request stays bad everywhere; anything else may go better elsewhere.
        self.may_fail_over = status in FAIL_OVER_STATUSES or status >= 500


class InvalidInput(Exception):
    """What was asked for cannot be; one sentence that says what to do instead."""
