"""Whether a connection was answered, from the entry that the kernel has of it."""

from enum import Enum
from typing import Final

from kubeproxy.base.inet import Protocol
from kubeproxy.linux.netlink.conntrack import IPS_SEEN_REPLY

SECONDS: Final = 3.0
"""For how long an answer is awaited."""


class Outcome(Enum):
    """What became of a connection, in words; programs get the name, in small letters."""

    ANSWERED = "answered"
    REFUSED = "refused by the endpoint"
    UNANSWERED = f"no answer for {SECONDS:g} s"
    FORGOTTEN = "not answered, not tracked any more"
    WAITING = "no answer yet"


def outcome_of(protocol: int, status: int | None, waited: float) -> Outcome:
    """What became of a connection after so many seconds; `status` is None without an entry.

    A reset that comes first is no reply: the kernel deletes the entry instead.
    """
    if status is None:
        return Outcome.REFUSED if protocol == Protocol.TCP else Outcome.FORGOTTEN
    if status & IPS_SEEN_REPLY:
        return Outcome.ANSWERED
    return Outcome.WAITING if waited < SECONDS else Outcome.UNANSWERED
