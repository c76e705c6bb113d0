"""Plain HTTP/1.1 for probes and scrapers: requests come in as values, answers go out as values.

A page is a function from `Request` to `Answer`; `serve.routes` says which there are. Here are
sockets, the protocol, and limits: whatever a client does, it costs a bounded amount of memory and
time, and does not disturb syncs. No TLS, no cookies.
"""
