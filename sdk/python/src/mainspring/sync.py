"""The client for programs without an event loop::

import mainspring

with mainspring.sync.connect() as ms:
    ms.send("Memory.Set", {"key": "colour", "value": "blue"})
"""

from ._client.blocking import Client, Request, Watch, connect

__all__ = ["Client", "Request", "Watch", "connect"]
