import errno
import resource
import socket

import pytest

from kubeproxy.linux.descriptors import KEPT, allow_many, leave_the_last, share
from scarcity import room_for


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
        allow_many()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_share_is_a_sixteenth() -> None:
    with room_for(KEPT):
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 16 == share()


def test_a_socket_that_leaves_enough_stays_open() -> None:
    with room_for(KEPT + 1), socket.socket() as opened:
        leave_the_last(opened)
        assert opened.fileno() >= 0


def test_one_that_does_not_is_closed_as_if_there_were_none() -> None:
    with room_for(KEPT), socket.socket() as opened:
        with pytest.raises(OSError, match="Too many open files") as caught:
            leave_the_last(opened)
        assert caught.value.errno == errno.EMFILE
        assert opened.fileno() == -1
