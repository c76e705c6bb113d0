"""The way to a server: the proxy of the environment, and what the environment says of HTTP/2.

The rules and names are those of Go programs.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from kubeproxy.base.inet import Prefix, contains, parse_address, parse_prefix
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.transport import Pings, Route

_LOOPBACK = (Prefix("127.0.0.0", 8), Prefix("::1", 128))
_DEFAULT_PORT = {"http": 80, "https": 443}


def route_to(access: Access, environ: Mapping[str, str]) -> Route:
    """The way to the server of an access."""
    parts = urlsplit(access.server)
    return Route(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or _DEFAULT_PORT[parts.scheme],
        authority=parts.netloc,
        server_name=access.cluster.tls_server_name,
        proxy=access.cluster.proxy_url or proxy_for(access.server, environ),
    )


def may_be_http2(route: Route, environ: Mapping[str, str]) -> bool:
    """Whether to offer HTTP/2, which needs TLS, and no second TLS around it."""
    plain = route.scheme != "https" or route.proxy.startswith("https:")
    return not plain and not environ.get("DISABLE_HTTP2")


def pings_of(environ: Mapping[str, str]) -> Pings:
    """How the environment wants the connection to be checked; what is no number is ignored."""
    default = Pings()
    return Pings(
        _seconds(environ.get("HTTP2_READ_IDLE_TIMEOUT_SECONDS", ""), default.idle),
        _seconds(environ.get("HTTP2_PING_TIMEOUT_SECONDS", ""), default.answer),
    )


def _seconds(text: str, default: float) -> float:
    return float(text) if text.isascii() and text.isdigit() else default


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy for a server's URL, from the environment; "" when it needs none.

    The rules are those of Go programs, for which operators of Kubernetes write their NO_PROXY:
    names match with their subdomains, prefixes match addresses, loopback needs no proxy.
    """
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    host = (parts.hostname or "").rstrip(".")
    if not proxy or _is_local(host):
        return ""
    port = parts.port or _DEFAULT_PORT.get(parts.scheme, 0)
    excepted = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_matches(entry.strip().lower(), host, port) for entry in excepted.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_local(host: str) -> bool:
    address = parse_address(host)
    if address is None:
        return host == "localhost"
    return any(contains(prefix, address) for prefix in _LOOPBACK)


def _matches(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY covers the host: `*`, a prefix, an address or a name."""
    if not entry or entry == "*":
        return bool(entry)
    address = parse_address(host)
    prefix = parse_prefix(entry)
    if prefix is not None:
        return address is not None and contains(prefix, address)
    name, wanted_port = _split_port(entry)
    if wanted_port and wanted_port != str(port):
        return False
    if address is not None:
        return parse_address(name) == address
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str]:
    """`name:port` or `[address]:port`; a bare IPv6 address has no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") != 1:
        return entry, ""
    name, _, port = entry.partition(":")
    return name, port
