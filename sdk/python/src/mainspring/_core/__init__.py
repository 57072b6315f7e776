"""The protocol without input and output: bytes in, bytes out, pending requests, deadlines.

- `wire`: JSON text of messages, ids, what is refused.
- `lines`: lines out of bytes, whatever pieces they come in.
- `values`: Python values that JSON has no word for.
- `pending`, `watch`: a request, and a subscription.
- `client`: a client's side of a connection, across reconnections.
- `actor`: a capability's side of its standard streams.

Nothing in this folder opens, reads, writes or waits; the faces (`_client`, `_serve`, `testing`) do.
"""
