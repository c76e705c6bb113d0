"""Who may read what is not meant for everybody. Functions on values only."""

from enum import Enum
from typing import Final

from kubeproxy.inet import Prefix, contains, parse_address
from kubeproxy.serving.answer import Answer, text
from kubeproxy.serving.request import Request

SOCKET_PEER: Final = "unix"
"""The peer of a client that came through our Unix socket, which lets in whom it may."""
_LOOPBACK: Final = (Prefix("127.0.0.0", 8), Prefix("::1", 128))


class Access(Enum):
    """Who may look; the values are those of the settings."""

    LOCAL = "local"
    ALL = "all"
    NONE = "none"


def refusal(request: Request, access: Access, what: str, setting: str) -> Answer | None:
    """Why a client may not read `what`, in the words of the setting; None when it may.

    A client of the Unix socket always may. With LOCAL the name in the Host header must be this
    host's as well: a web page that has its own name point here must not have our answers.
    """
    if request.method not in {"GET", "HEAD"}:
        return text(f"{request.method} is not possible here: {what} can only be read\n", 405)
    if request.peer == SOCKET_PEER or access is Access.ALL:
        return None
    flag = "--" + "".join(f"-{c.lower()}" if c.isupper() else c for c in setting)
    if access is Access.NONE:
        return text(f"{what} is not shown here: the setting {setting} is none\n", 404)
    if not is_loopback(request.peer):
        where = request.peer or "an unknown address"
        return text(
            f"{what} is shown to clients of this host only, and you are {where}: ask from"
            f" the node, or set {setting}: all ({flag}=all)\n",
            403,
        )
    if not _names_this_host(request.headers.get("host", "")):
        return text(
            f"{what} is shown under the name of this host only (localhost or an address): ask"
            f" for http://localhost{request.path}, or set {setting}: all ({flag}=all)\n",
            403,
        )
    return None


def is_loopback(peer: str) -> bool:
    """Whether a client is on this host."""
    address = parse_address(peer.partition("%")[0])
    return address is not None and any(contains(range_, address) for range_ in _LOOPBACK)


def _names_this_host(host: str) -> bool:
    """Whether a Host header is an address or localhost: those nobody else can point here."""
    if "," in host:  # two headers: who knows which of them was meant
        return False
    name = host[: host.rindex("]") + 1] if "]" in host else host.partition(":")[0]
    return name.lower() in {"", "localhost"} or parse_address(name.strip("[]")) is not None
