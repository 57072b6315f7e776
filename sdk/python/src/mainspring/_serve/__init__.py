"""How a capability meets its standard streams.

- `streams`: keeps standard input and output for messages alone.
- `sync`: plain functions, one request at a time, no event loop.
- `aio`: coroutines and threads, several requests at a time.
"""
