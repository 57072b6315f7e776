"""Everything that can go wrong, as exceptions.

`RequestError` and its subclasses are outcomes: the daemon, or a capability, ended a request with an error.
`ConnectionFailed` and its subclasses are the absence of an outcome: there is no daemon, or none that answers.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

Started = Literal["yes", "no"]

#: The longest text of a message from elsewhere that is quoted.
_QUOTE_MAX = 200


class MainspringError(Exception):
    """The base of every exception of this package."""


class InvalidMessage(MainspringError, ValueError):
    """A message cannot be written: a bad type, data that is not JSON (NaN, for one), a timeout out of range."""


class SchemaProblem(MainspringError, TypeError):
    """A type hint has no JSON Schema, or a declaration of a capability makes no sense."""


class RequestError(MainspringError):
    """A request ended in an error.

    Attributes:
        code: 400 to 599, as in HTTP.
        message: What happened, in words.
        started: `"no"` if no capability had the request, so that sending it again under another id is safe; `"yes"` if
            one had; `None` in errors of a capability's own.
        type: The type of the error: `Sys.*` if it comes from the daemon, else the request's own.
        data: The data of the error as it came.
        original_id: The id of the request.
        original_type: The type of the request.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        started: Started | None = None,
        type: str = "",
        data: dict[str, Any] | None = None,
        original_id: str | None = None,
        original_type: str | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.started = started
        self.type = type
        self.data: dict[str, Any] = {"code": code, "message": message} if data is None else data
        self.original_id = original_id
        self.original_type = original_type

    def __str__(self) -> str:
        name = self.type or self.original_type or type(self).__name__
        return f"{name} ({self.code}): {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process pools by pickle, which would call the class with `args` alone.
        return (_rebuild, (type(self), self.code, self.message, dict(self.__dict__)))


def _rebuild(kind: type[RequestError], code: int, message: str, state: dict[str, Any]) -> RequestError:
    error = kind(code, message)
    error.__dict__.update(state)
    return error


class CapabilityError(RequestError):
    """An error that a capability chose: raise it in a handler, catch it in a client.

    Further keyword arguments become members of the error's data, beside `code` and `message`.
    """

    def __init__(self, code: int, message: str, **details: Any) -> None:
        super().__init__(code, message, data={"code": code, "message": message, **details})


class DaemonError(RequestError):
    """An error of the daemon itself; its type is `Sys.*`."""

    #: The type on the wire of each class below.
    wire_type: ClassVar[str] = ""


class MalformedError(DaemonError):
    """400: the line is not JSON."""

    wire_type = "Sys.MalformedError"


class ForbiddenError(DaemonError):
    """403: the sender may not send this."""

    wire_type = "Sys.ForbiddenError"


class RoutingError(DaemonError):
    """404: nobody handles this kind and type, or what is named does not exist."""

    wire_type = "Sys.RoutingError"


class ConflictError(DaemonError):
    """409: the same id came before, with another body or with an answer that is no longer remembered."""

    wire_type = "Sys.ConflictError"


class TooLargeError(DaemonError):
    """413: the line is longer than the daemon's limit."""

    wire_type = "Sys.TooLargeError"


class SchemaError(DaemonError):
    """422: the data breaks a schema; the message names the field."""

    wire_type = "Sys.SchemaError"


class LimitExceeded(DaemonError):
    """429: this client is over a limit of its own."""

    wire_type = "Sys.LimitExceeded"


class Cancelled(DaemonError):
    """499: the request was cancelled by whoever sent it."""

    wire_type = "Sys.Cancelled"


class InternalError(DaemonError):
    """500: a fault inside the daemon."""

    wire_type = "Sys.InternalError"


class ActorFault(DaemonError):
    """502: the capability broke its contract over the request and was restarted."""

    wire_type = "Sys.ActorFault"


class ActorCrash(DaemonError):
    """502: the capability ended while it worked on the request."""

    wire_type = "Sys.ActorCrash"


class Overloaded(DaemonError):
    """503: the capability's mailbox, or the daemon, is full."""

    wire_type = "Sys.Overloaded"


class Unhealthy(DaemonError):
    """503: the capability failed too often and rests."""

    wire_type = "Sys.Unhealthy"


class ShuttingDown(DaemonError):
    """503: the daemon is shutting down."""

    wire_type = "Sys.ShuttingDown"


class RequestTimeout(DaemonError):
    """504: no outcome before the deadline."""

    wire_type = "Sys.Timeout"


class Deadlock(DaemonError):
    """508: the request would wait for a capability that waits for this very request."""

    wire_type = "Sys.Deadlock"


_BY_TYPE: dict[str, type[DaemonError]] = {kind.wire_type: kind for kind in DaemonError.__subclasses__()}


def from_wire(error_type: str, data: Any, original_id: str | None, original_type: str | None) -> RequestError:
    """The exception for an error message."""
    members = cast("dict[str, Any]", data) if isinstance(data, dict) else {"data": data}
    code = members.get("code")
    words = members.get("message")
    is_daemons = error_type.startswith("Sys.") and error_type != original_type
    kind = _BY_TYPE.get(error_type, DaemonError) if is_daemons else CapabilityError
    error = kind(
        code if type(code) is int else 500,
        words if isinstance(words, str) else f"it does not say why: {str(cast(object, data))[:_QUOTE_MAX]}",
    )
    started = members.get("started")
    error.started = started if started in ("yes", "no") else None
    error.type = error_type
    error.data = members
    error.original_id = original_id
    error.original_type = original_type
    return error


class ConnectionFailed(MainspringError, ConnectionError):
    """There is no connection to a daemon, or it ended before there was an answer.

    Attributes:
        started: `"no"` if the request was never written; else `None`, which means that nobody knows.
    """

    started: Started | None = None


class NoDaemon(ConnectionFailed):
    """Nothing listens there."""


class BadAddress(ConnectionFailed):
    """That is no place to connect to, or the configuration does not say where the daemon is."""


class AccessDenied(ConnectionFailed):
    """The daemon, or the way to its socket, belongs to another user."""


class TokenProblem(ConnectionFailed):
    """There is no token, it cannot be read, or the daemon does not take it."""


class NotADaemon(ConnectionFailed):
    """Whatever listens there does not speak like a daemon."""


class TurnedAway(ConnectionFailed):
    """The daemon refused the connection as a whole and said why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"the daemon refused the connection ({code}): {message}")
        self.code = code
        self.message = message


class ConnectionLost(ConnectionFailed):
    """The connection ended before the answer came. Whether the request was started is not known."""


class NoAnswer(ConnectionFailed):
    """The daemon has not answered in time, and has not said why."""

    #: As the daemon's own word about a timeout.
    code = 504


class ClientClosed(ConnectionFailed):
    """The client was closed."""
