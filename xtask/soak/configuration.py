"""What the daemons of the soak are told to be."""

import pathlib

LEDGER = pathlib.Path(__file__).with_name("ledger.py")

# The daemon that is soaked.
DAEMON = """
[[listen]]
unix = "bus.sock"

[[listen]]
http = "127.0.0.1:{port}"
tokens = [{{ name = "web", token = "{token}", operator = true }}]

[journal]
folder = "{journal}"
keep = "1m"
keep_bytes = "128MiB"

[log]
level = "warn"

[[capability]]
id = "ledger"
description = "Writes down what it was given."
limits = {{ concurrency = 1 }}
restart = {{ max_restarts = 1000, backoff_ms = "50ms", backoff_max_ms = "200ms" }}
program = {{ process = ["python3", "ledger.py"] }}

[[capability.inbound.oneOf]]
properties.kind.const = "command"
properties.type.const = "Ledger.Add"
properties.data.type = "object"
properties.data.properties.ms = {{ type = "number", minimum = 0 }}

[[capability.inbound.oneOf]]
properties.kind.const = "event"
properties.type.const = "Soak.Happened"
"""

# Besides, if there are guests.
GUEST = """
[[capability]]
id = "guest"
description = "Says what it hears, in a sandbox."
limits = {{ concurrency = 8 }}
restart = {{ max_restarts = 1000, backoff_ms = "50ms", backoff_max_ms = "200ms" }}
inbound = {{ properties = {{ kind.const = "query", type.const = "Echo.Say" }} }}
program = {{ wasm = "{path}" }}
"""

# Besides, if there is a neighbour.
IMPORT = """
[uplink]
nats = ["{nats}"]
bus = "soak"
node = "first"
import = ["Far.*"]
"""

# The neighbour.
NEIGHBOUR = """
native = []

[[listen]]
unix = "bus.sock"

[journal]
folder = "journal"
keep = "1m"
keep_bytes = "128MiB"

[log]
level = "warn"

[uplink]
nats = ["{nats}"]
bus = "soak"
node = "neighbour"

[[capability]]
id = "far"
description = "Writes down what it was given, also by other nodes."
share = true
limits = {{ concurrency = 4 }}
restart = {{ max_restarts = 1000, backoff_ms = "50ms", backoff_max_ms = "200ms" }}
program = {{ process = ["python3", "ledger.py"] }}

[[capability.inbound.oneOf]]
properties.kind.const = "command"
properties.type.const = "Far.Add"

[[capability.inbound.oneOf]]
properties.kind.const = "query"
properties.type.const = "Far.Ask"
"""
