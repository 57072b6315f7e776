"""The conformance suite: what it starts (daemon, programs, proxy), and its cases."""
