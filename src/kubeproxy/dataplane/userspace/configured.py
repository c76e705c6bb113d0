"""What the configuration says of userspace mode."""

import re
from collections.abc import Iterator
from typing import Final

from kubeproxy.base.inet import parse_address
from kubeproxy.config.errors import ValueTextError, invalid
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.config.validate import out_of_range
from kubeproxy.config.values import Duration, split_host_port
from kubeproxy.dataplane.userspace.settings import Mapped, UserspaceSettings

MOST_WORKERS: Final = 64
_LAST_PORT: Final = 65535
_RANGE: Final = re.compile(r"(\d{1,5})(?:([-+])(\d{1,5}))?", re.ASCII)
_SERVICE: Final = re.compile(r"([^/:]+)/([^/:]+)(?::([^/:]+))?")
_RANGE_FORM: Final = (
    "must be FIRST-LAST, FIRST+MORE or one port, of 1 to 65535, or empty for any port"
)
_MAPPED_FORM: Final = (
    "must be ADDRESS:PORT=NAMESPACE/SERVICE:PORT, for instance 127.0.0.1:8080=default/web:80;"
    " a Service with one port needs no :PORT"
)


def problems(config: Config) -> Iterator[str]:
    """What is wrong with it."""
    path, section = "KubeProxyUserspaceConfiguration", config.userspace
    yield from out_of_range(f"{path}.Workers", section.workers, 1, MOST_WORKERS)
    for index, text in enumerate(section.port_map):
        if _mapped(text) is None:
            yield invalid(f"{path}.PortMap[{index}]", text, _MAPPED_FORM)
    if config.udp_idle_timeout <= Duration():
        yield invalid("UDPIdleTimeout", config.udp_idle_timeout, "must be greater than 0")
    if _ports(config.port_range) is None:
        yield invalid("PortRange", config.port_range, _RANGE_FORM)


def settings(config: Config) -> UserspaceSettings:
    """The settings of userspace mode; of a configuration without problems."""
    first, last = _ports(config.port_range) or (0, 0)
    return UserspaceSettings(
        workers=config.userspace.workers,
        udp_idle_seconds=config.udp_idle_timeout.seconds,
        first_port=first,
        last_port=last,
        mapped=tuple(filter(None, map(_mapped, config.userspace.port_map))),
    )


def _ports(text: str) -> tuple[int, int] | None:
    """The first and the last port of a range; (0, 0) for any, None for what is no range."""
    if text.strip() in {"", "0", "0-0"}:
        return 0, 0
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return None
    first, last = int(found[1]), int(found[3] or found[1])
    if found[2] == "+":
        last = min(first + last, _LAST_PORT)
    return (first, last) if 0 < first <= last <= _LAST_PORT else None


def _mapped(text: str) -> Mapped | None:
    """A place and where it leads; None for what is neither."""
    place, _, service = text.partition("=")
    found = _SERVICE.fullmatch(service)
    try:
        address, port = split_host_port(place)
    except ValueTextError:
        return None
    if found is None or parse_address(address) is None:
        return None
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _LAST_PORT):
        return None
    return Mapped(address, int(port), found[1], found[2], found[3] or "")
