"""The HTTP proxy for a server, from environment variables.

The rules are those of Go programs, for which operators of Kubernetes write their NO_PROXY: names
match with their subdomains, prefixes match addresses, loopback needs no proxy.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from kubeproxy.base.inet import Prefix, contains, parse_address, parse_prefix

LOOPBACK = (Prefix("127.0.0.0", 8), Prefix("::1", 128))
DEFAULT_PORT = {"http": 80, "https": 443}


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy for a server's URL; "" when it is reached directly."""
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    host = (parts.hostname or "").rstrip(".")
    if not proxy or _is_local(host):
        return ""
    port = parts.port or DEFAULT_PORT.get(parts.scheme, 0)
    excepted = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_matches(entry.strip().lower(), host, port) for entry in excepted.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_local(host: str) -> bool:
    address = parse_address(host)
    if address is None:
        return host == "localhost"
    return any(contains(prefix, address) for prefix in LOOPBACK)


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
