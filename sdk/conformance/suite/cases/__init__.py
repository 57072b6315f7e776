"""The cases, one module for each subject. A case is a function with a sentence as its name."""

from . import bare, connection, control, events, finding, outcomes, pressure, shutdown
from .register import ALL

__all__ = ["ALL", "bare", "connection", "control", "events", "finding", "outcomes", "pressure", "shutdown"]
