"""The capability of the bench with the SDK: plain functions."""

import time

from mainspring import Capability

cap = Capability("sdk", "Greets people by name.")


@cap.query("Sdk.Greet")
def greet(name: str) -> dict[str, str]:
    """Greets somebody."""
    return {"text": "Hello, %s!" % name}


@cap.query("Sdk.Cpu")
def cpu() -> dict[str, float]:
    """Tells how much CPU time this process has used."""
    return {"seconds": time.process_time()}


cap.run()
