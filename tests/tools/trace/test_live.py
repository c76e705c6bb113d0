"""The thread that asks the daemon again. The rest of the edge is tried in the lab."""

import pytest

from kubeproxy.base.errors import NoDaemonError
from kubeproxy.tools.trace.command import Refresher
from kubeproxy.tools.trace.connections import Index, index
from tools.trace.shop import KNOWN


def test_what_was_known_stays_while_the_daemon_does_not_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers: list[Index | None] = [None, None, index([], ()), None]

    def look() -> Index:
        answer = answers.pop(0)
        if answer is None:
            raise NoDaemonError("no kube-proxy answers here")
        return answer

    refresher = Refresher(KNOWN, look)
    refresher.refresh()
    refresher.refresh()
    assert refresher.known is KNOWN
    refresher.refresh()
    assert refresher.known == index([], ())
    refresher.refresh()
    gone = "... going on with the endpoints known so far: no kube-proxy answers here"
    assert capsys.readouterr().err.splitlines() == [gone, "... the daemon answers again", gone]
