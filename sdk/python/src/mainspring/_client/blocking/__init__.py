"""The client without asyncio.

- `client`: what users see.
- `watch`: a subscription, and a request that is under way.
- `link`: the connection, across reconnections.
- `sockets`: how a connection begins.
"""

from .client import Client, connect
from .watch import Request, Watch

__all__ = ["Client", "Request", "Watch", "connect"]
