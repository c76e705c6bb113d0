"""`host:port` texts, split with Go's rules, so that the same addresses are taken and refused."""

from kubeproxy.base.inet import parse_address
from kubeproxy.config.errors import ValueTextError


def split_host_port(text: str) -> tuple[str, str]:
    """The two halves of `host:port` or `[host]:port`; neither is looked at any closer."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise ValueTextError(f"address {text}: missing ']' in address")
        if not rest.startswith(":"):
            raise ValueTextError(f"address {text}: missing port in address")
        port = rest[1:]
    else:
        host, colon, port = text.rpartition(":")
        if not colon:
            raise ValueTextError(f"address {text}: missing port in address")
    if ":" in (host if not text.startswith("[") else port):
        raise ValueTextError(f"address {text}: too many colons in address")
    if "[" in host or "]" in host:
        raise ValueTextError(f"address {text}: unexpected bracket in address")
    return host, port


def with_port(text: str, port: int) -> str:
    """A bare address gets the port; everything else is left to validation as it is."""
    if parse_address(text) is None:
        return text
    return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"
