"""In the guest: the lab's dialer, for kernels whose SCTP does not know an error queue.

Linux 5.10 takes a read of the error queue of an SCTP socket for an ordinary one: the first byte of
the answer is lost, and there is no error with it. Newer kernels say that there is nothing.
"""

import socket

import pytest

from kubeproxy.base.inet import Protocol
from lab.icmp import queued_error
from lab.outcome import Outcome, Peer


def read_error(opened: socket.socket, sent_from: Peer) -> Outcome | None:
    """The error in the queue of a socket that has one."""
    return None if opened.proto == Protocol.SCTP else queued_error(opened, sent_from)


def leave_queues_of_sctp_alone() -> None:
    """Have the dialer of this process use it."""
    pytest.MonkeyPatch().setattr("lab.dialer.queued_error", read_error)
