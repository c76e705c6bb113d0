"""Which clients may read pages that are not public. Functions on values only."""

import re
from enum import Enum
from typing import Final

from kubeproxy.base.inet import Prefix, contains, parse_address
from kubeproxy.base.printable import printable
from kubeproxy.serve.http.answer import PLAIN_TEXT, Answer, text
from kubeproxy.serve.http.request import Request

SOCKET_PEER: Final = "unix"
"""The peer of a client of our Unix socket, which admits root and our own user only."""
_LOOPBACK: Final = (Prefix("127.0.0.0", 8), Prefix("::1", 128))
_HOST: Final = re.compile(r"(?P<name>\[[^\[\]]*\]|[^\[\]:]*)(?P<port>:[0-9]*)?")
_OWN_SITES: Final = frozenset({"", "none", "same-origin"})
"""What browsers send with requests that no other site's page made; others send nothing."""


class PageAccess(Enum):
    """Which clients may read, as in the settings. Local are root and our own user."""

    LOCAL = "local"
    ALL = "all"
    NONE = "none"


def refusal(request: Request, access: PageAccess, what: str, setting: str) -> Answer | None:
    """The answer to a client that may not read `what`, with the setting; None when it may.

    A client of the Unix socket always may. With LOCAL it must be root or our own user on this
    host: other users may not list Services, whatever they run. The name in the Host header must
    be this host's as well, and the request must not come from another site's page: a browser on
    this host must not send our answers there.
    """
    if request.method not in {"GET", "HEAD"}:
        body = f"{request.method} is not possible here: {what} can only be read\n"
        return Answer(405, (*PLAIN_TEXT, ("Allow", "GET, HEAD")), body.encode())
    if request.peer == SOCKET_PEER or access is PageAccess.ALL:
        return None
    if access is PageAccess.NONE:
        return text(f"{what} is not shown here: the setting {setting} is none\n", 404)
    reason = _not_local(request)
    if not reason:
        return None
    flag = "--" + "".join(f"-{c.lower()}" if c.isupper() else c for c in setting)
    return text(
        f"{what} is shown {reason}: on the node, ask for {_local_place(request)} as root, or set"
        f" {setting}: all ({flag}=all)\n",
        403,
    )


def is_loopback(peer: str) -> bool:
    """Whether a client is on this host."""
    address = parse_address(peer.partition("%")[0])
    return address is not None and any(contains(range_, address) for range_ in _LOOPBACK)


def _not_local(request: Request) -> str:
    """Which clients may read it instead; "" when this is one of them."""
    peer = request.peer
    if not is_loopback(peer):
        yours = parse_address(peer) or peer or "not known"
        return f"to clients with a loopback address only, and yours is {yours}"
    if not request.trusted:
        return "to root and the user of kube-proxy only, and you are neither"
    if not _names_this_host(request.headers.get("host", "")):
        return "under the name of this host only (localhost or an address)"
    if _is_of_another_site(request):
        return "to no page of another site"
    return ""


def _names_this_host(host: str) -> bool:
    """Whether a Host header is an address or localhost: other names can be pointed here."""
    found = _HOST.fullmatch(host)  # two headers are joined by a comma: no name has one
    name = found["name"].lower() if found else host
    return name in {"", "localhost"} or parse_address(name.strip("[]")) is not None


def _is_of_another_site(request: Request) -> bool:
    """Whether another site's page asks; following a link of it is allowed."""
    site, wants = (request.headers.get(f"sec-fetch-{name}", "") for name in ("site", "dest"))
    return site not in _OWN_SITES and wants != "document"


def _local_place(request: Request) -> str:
    """The address under which it would be shown."""
    found = _HOST.fullmatch(request.headers.get("host", ""))
    port = (found and found["port"]) or ""
    return printable(f"http://localhost{port}{request.path}")
