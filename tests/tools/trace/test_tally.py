from kubeproxy.linux.netlink.conntrack import Connection, connection_in
from kubeproxy.tools.trace.tally import Tally
from tools.trace.shop import event

TO = "10.112.0.21:80"


def connection(responder: str) -> Connection:
    found = connection_in(event("10.64.3.50:40000", TO, responder))
    assert found is not None
    return found


def test_endpoints_by_how_often_they_were_chosen() -> None:
    tally = Tally()
    for address, times in (("10.64.3.11", 1), ("10.65.7.210", 3)):
        for number in range(times):
            tally.add(connection(f"{address}:8080"), shown=number == 0)
    tally.add(connection(TO), shown=True)
    assert list(tally.summary(0)) == [
        "5 connections, 3 shown, nothing lost",
        "  10.65.7.210:8080  3",
        "  10.64.3.11:8080   1",
        "  not translated    1",
    ]


def test_nothing_was_seen() -> None:
    assert list(Tally().summary(1234)) == [
        "0 connections, 0 shown, 1,234 events of this node lost"
    ]


def test_one_connection() -> None:
    tally = Tally()
    tally.add(connection("10.64.3.11:8080"), shown=False)
    assert next(tally.summary(0)) == "1 connection, 0 shown, nothing lost"


def test_many_endpoints_are_counted_together() -> None:
    tally = Tally()
    for port in range(1, 1026):
        tally.add(connection(f"10.64.3.11:{port}"), shown=True)
    lines = list(tally.summary(0))
    assert (len(lines), lines[-1]) == (22, "  and 1,005 more endpoints")
