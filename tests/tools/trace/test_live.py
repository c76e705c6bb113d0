"""The threads that ask the daemon again. The rest of the edge is tried in the lab."""

import select

import pytest
from msgspec.structs import replace

from kubeproxy.base.errors import NoDaemonError
from kubeproxy.serve.status.wire import FailureList
from kubeproxy.tools.trace.command import FailureReader, Refresher
from kubeproxy.tools.trace.connections import Index, index
from tools.trace.shop import KNOWN
from tools.trace.test_failures import REFUSED


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


def answer(*numbers: int, started: str = "a", heals: bool = True, missed: int = 0) -> FailureList:
    failures = tuple(replace(REFUSED, number=number) for number in numbers)
    return FailureList(heals, started, max(numbers, default=0), missed, failures)


class Daemon:
    """Answers in turn; None is no answer. After the last, the mode does not heal any more."""

    def __init__(self, *answers: FailureList | None) -> None:
        self.asked: list[int] = []
        self._answers = list(answers)

    def ask(self, after: int) -> FailureList:
        self.asked.append(after)
        answer_ = self._answers.pop(0) if self._answers else answer(heals=False)
        if answer_ is None:
            raise NoDaemonError("no kube-proxy answers here")
        return answer_


@pytest.mark.parametrize(
    ("answers", "asked", "expected"),
    [
        pytest.param([None], [0], [], id="no-daemon"),
        pytest.param([answer(heals=False)], [0], [], id="a-mode-that-does-not-heal"),
        pytest.param(
            [answer(1, 2), answer(3), replace(answer(), last=3), answer(4, 5)],
            [0, 2, 3, 3, 5],
            [[3], [4, 5]],
            id="what-is-new-since-it-began",
        ),
        pytest.param(
            [answer(), None, None, answer(1)],
            [0, 0, 0, 0, 1],
            [[1]],
            id="a-daemon-that-does-not-answer-for-a-while",
        ),
        pytest.param(
            [answer(1, 2), answer(started="b"), answer(1, started="b")],
            [0, 2, 0, 1, 0],
            [[1]],
            id="another-daemon",
        ),
    ],
)
def test_what_failed_is_asked_for_again_and_again(
    answers: list[FailureList | None],
    asked: list[int],
    expected: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kubeproxy.tools.trace.command.time.sleep", lambda _: None)
    daemon = Daemon(*answers)
    reader = FailureReader(daemon.ask)
    reader.run()
    news = bool(select.select([reader], [], [], 0)[0])
    found = [[each.number for each in news.failures] for news in reader.take()]
    assert (asked, expected, bool(expected)) == (daemon.asked, found, news)
    assert not select.select([reader], [], [], 0)[0]
