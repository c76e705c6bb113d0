import pytest

from kubeproxy.serve.http.places import Caller, ConnectionStage, Places, caller_of
from kubeproxy.serve.http.request import Ends

A, B = 30001, 30002
"""Two ports."""
STAGES = {"!": ConnectionStage.FIRST, "+": ConnectionStage.AGAIN}


def filled(taken: str) -> Places[str]:
    """Places that are all taken: `A:x` is client x on port A.

    `A:x!` waits for its first answer, `A:x+` for another one.
    """
    words = taken.split()
    places = Places[str](len(words))
    for number, word in enumerate(words):
        member = f"{word}{number}"
        places.enter(member, caller(word.rstrip("!+")))
        places.note(member, STAGES.get(word[-1], ConnectionStage.WAITING))
    return places


def caller(text: str) -> Caller:
    port, _, client = text.partition(":")
    return Caller({"A": A, "B": B}[port], client)


@pytest.mark.parametrize(
    ("taken", "newcomer", "giver"),
    [
        pytest.param("A:x A:x A:y", "A:z", "A:x0", id="the-client-with-most-gives-its-oldest"),
        pytest.param("A:y A:x A:x", "A:z", "A:x1", id="and-not-the-one-that-waited-longest"),
        pytest.param("A:x! A:x A:x", "A:z", "A:x1", id="one-that-waits-before-one-at-work"),
        pytest.param("A:x! A:x! A:x!", "A:z", "A:x!0", id="else-one-at-work"),
        pytest.param("A:x! A:x! A:x!", "A:x", None, id="but-not-for-the-same-client"),
        pytest.param("A:x A:x! A:x", "A:x", "A:x0", id="a-client-takes-from-itself"),
        pytest.param("A:x! A:x! A:y", "A:y", None, id="not-for-one-that-would-have-as-many"),
        pytest.param("A:x A:y A:z", "A:w", "A:x0", id="of-equals-the-one-that-waited-longest"),
        pytest.param("A:x! A:y! A:z!", "A:w", None, id="of-equals-none-at-work"),
        pytest.param("A:x! A:x+ A:x", "A:x", "A:x2", id="of-its-own-one-that-waits"),
        pytest.param("A:x! A:x! A:x+", "A:x", "A:x+2", id="else-one-that-has-had-an-answer"),
        pytest.param("A:x+ A:y! A:z!", "A:w", "A:x+0", id="of-equals-one-with-an-answer"),
        pytest.param("A:x A:y A:z", "B:w", "A:x0", id="another-port-gives"),
        pytest.param("A:x! A:y! A:z!", "B:w", "A:x!0", id="also-one-at-work"),
        pytest.param("B:w A:x A:y A:z", "A:x", "A:x1", id="a-port-takes-from-itself"),
        pytest.param("B:w B:w A:x A:y A:z", "B:w", "B:w0", id="ports-that-are-nearly-even"),
        pytest.param("A:x", "B:x", "A:x0", id="more-ports-than-places"),
        pytest.param("A:x!", "B:x", None, id="more-ports-than-places-and-all-at-work"),
    ],
)
def test_which_connection_ends(taken: str, newcomer: str, giver: str | None) -> None:
    places = filled(taken)
    assert places.full
    assert giver == places.giver(caller(newcomer))


def test_progress_moves_a_connection_to_the_end() -> None:
    places = filled("A:x A:x A:y A:z")
    places.note("A:x0", ConnectionStage.FIRST)
    places.note("A:x0", ConnectionStage.WAITING)
    assert places.giver(caller("A:w")) == "A:x1"
    places = filled("A:x A:y")
    places.note("A:x0", ConnectionStage.WAITING)
    assert places.giver(caller("A:w")) == "A:y1"


def test_leaving_makes_room_and_may_happen_twice() -> None:
    places = filled("A:x A:x B:y")
    for _ in range(2):
        places.leave("A:x0")
        places.leave("B:y2")
    places.note("B:y2", ConnectionStage.WAITING)
    assert not places.full
    assert len(places) == 1
    assert places.caller("A:x1") == caller("A:x")


def test_one_client_costs_the_others_no_place_that_they_ask_for() -> None:
    """However many connections one client makes, ten others keep one each, and get a second."""
    places = Places[int](100)
    members = iter(range(10_000))

    def come(client: str) -> bool:
        if places.full:
            giver = places.giver(caller(client))
            if giver is None:
                return False
            places.leave(giver)
        member = next(members)
        places.enter(member, caller(client))
        places.note(member, ConnectionStage.FIRST)
        return True

    others = [f"A:other{n}" for n in range(10)]
    for client in ["A:greedy"] * 500 + others + ["A:greedy"] * 500 + others + ["A:greedy"] * 500:
        come(client)
    held = [places.caller(member).client for member in range(10_000) if member in places._callers]
    assert {held.count(client.removeprefix("A:")) for client in others} == {2}
    assert held.count("greedy") == 80


@pytest.mark.parametrize(
    ("peer", "local", "client", "own"),
    [
        pytest.param("192.0.2.7", "198.51.100.10", "192.0.2.7", False, id="an-address"),
        pytest.param("::ffff:192.0.2.7", "::ffff:198.51.100.10", "192.0.2.7", False, id="mapped"),
        pytest.param("2001:db8::7:1", "2001:db8:aa::10", "2001:db8::", False, id="a-64-is-one"),
        pytest.param("2001:db8:0:1::7", "2001:db8::10", "2001:db8:0:1::", False, id="another-64"),
        pytest.param("fe80::7%eth0", "fe80::1%eth0", "fe80::", False, id="on-the-wire"),
        pytest.param("127.0.0.1", "127.0.0.1", "loopback", True, id="loopback"),
        pytest.param("127.9.9.9", "127.0.0.1", "loopback", True, id="all-of-loopback-is-one"),
        pytest.param("::ffff:127.0.0.1", "::ffff:127.0.0.1", "loopback", True, id="mapped-lo"),
        pytest.param("::1", "::1", "loopback", True, id="loopback-ipv6"),
        pytest.param("198.51.100.10", "198.51.100.10", "198.51.100.10", True, id="this-node"),
        pytest.param("2001:db8::10", "2001:db8::10", "2001:db8::", True, id="this-node-ipv6"),
        pytest.param("unix", "unix", "unix", False, id="unix-socket"),
    ],
)
def test_the_client_of_a_connection(peer: str, local: str, client: str, own: bool) -> None:
    assert Caller(80, client, own) == caller_of(Ends((peer, 40000), (local, 80)))
