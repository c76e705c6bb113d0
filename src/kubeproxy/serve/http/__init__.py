"""Plain HTTP/1.1 for probes and scrapers: requests come in as values, answers go out as values.

What a page says is its author's business, a function from `Request` to `Answer`. Here are sockets,
the protocol, and limits: whatever a client does, it costs a bounded amount of memory and time, and
never the proxying. No TLS, no cookies, no routing beyond exact paths.
"""
