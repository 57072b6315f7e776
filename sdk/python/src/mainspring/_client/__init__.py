"""Clients of the daemon: where it is (`find`), with asyncio (`aio`) and without (`blocking`)."""
