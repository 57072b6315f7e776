"""The client for asyncio.

- `client`: what users see.
- `watch`: a subscription.
- `link`: the connection, across reconnections.
- `sockets`: how a connection begins.
"""

from .client import Client, connect
from .watch import Watch

__all__ = ["Client", "Watch", "connect"]
