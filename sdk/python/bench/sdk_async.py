"""The capability of the bench with the SDK: coroutines."""

import time

from mainspring import Capability

cap = Capability("sdk_async", "Greets people by name.")


@cap.query("SdkAsync.Greet")
async def greet(name: str) -> dict[str, str]:
    """Greets somebody."""
    return {"text": "Hello, %s!" % name}


@cap.query("SdkAsync.Cpu")
async def cpu() -> dict[str, float]:
    """Tells how much CPU time this process has used."""
    return {"seconds": time.process_time()}


cap.run()
