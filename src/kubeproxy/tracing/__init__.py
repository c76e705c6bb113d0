"""New connections of services, live: what `trace` shows.

Comes in: events of connection tracking, and what the daemon says of the services. Goes out: lines.
Only `live` reads a clock and a socket. Never here: what should happen to a packet.
"""
