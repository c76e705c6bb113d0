"""Whoever claims what: the same one gets it, whatever came first."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Protocol
from kubeproxy.base.steps import PART, finish
from kubeproxy.table.claims import Claim, Claims, Conflict, claims_of
from kubeproxy.table.entries import Entry, Frontend, FrontendKey, FrontendKind, ServicePortName

ADDRESSES = ("198.18.0.1", "198.18.0.2", "198.18.0.3")
OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def name(text: str) -> ServicePortName:
    return ServicePortName("shop", text, "http", Protocol.TCP)


def key(address: str) -> FrontendKey:
    return FrontendKey(address, Protocol.TCP, 80)


def entry(text: str, *frontends: tuple[FrontendKind, str]) -> Entry:
    return Entry(name(text), tuple(Frontend(kind, address, 80) for kind, address in frontends))


def external(text: str, *addresses: str) -> Entry:
    return entry(text, *((FrontendKind.EXTERNAL_IP, address) for address in addresses))


class Claimants:
    """Entries with the times of their making, and the claims that follow from them."""

    def __init__(self) -> None:
        self.claims = Claims()
        self.held: dict[str, tuple[Entry, str]] = {}

    def put(self, wanted: Entry, created: str = "") -> list[Conflict | ServicePortName | None]:
        before = self._claims_of(wanted.name.service)
        self.held[wanted.name.service] = (wanted, created)
        return list(self.claims.replace(before, finish(claims_of(wanted, created))))

    def remove(self, service: str) -> list[Conflict | ServicePortName | None]:
        before = self._claims_of(service)
        self.held.pop(service, None)
        return list(self.claims.replace(before, {}))

    def _claims_of(self, service: str) -> Mapping[FrontendKey, Claim]:
        return finish(claims_of(*self.held[service])) if service in self.held else {}

    def granted(self, service: str) -> tuple[Frontend, ...]:
        return finish(self.claims.granted(self.held[service][0])).frontends


LATER = external("a", ADDRESSES[0])
EARLIER = external("z", ADDRESSES[0])


@pytest.mark.parametrize("newer_first", [False, True])
def test_the_older_service_keeps_an_address_whatever_its_name(newer_first: bool) -> None:
    found = Claimants()
    order = [(LATER, NEW), (EARLIER, OLD)] if newer_first else [(EARLIER, OLD), (LATER, NEW)]
    for wanted, created in order:
        found.put(wanted, created)
    assert (found.granted("a"), found.granted("z")) == ((), EARLIER.frontends)
    assert list(found.claims.conflicts()) == [Conflict(key(ADDRESSES[0]), name("a"), name("z"))]
    assert found.claims.count_conflicts() == 1


def test_of_the_same_age_the_first_by_name_has_it() -> None:
    found = Claimants()
    found.put(external("b", ADDRESSES[0]), OLD)
    found.put(external("a", ADDRESSES[0]), OLD)
    assert (found.granted("a") != (), found.granted("b")) == (True, ())


def test_a_cluster_ip_wins_over_an_older_external_ip() -> None:
    found = Claimants()
    found.put(external("a", ADDRESSES[0]), OLD)
    found.put(entry("b", (FrontendKind.CLUSTER_IP, ADDRESSES[0])), NEW)
    assert found.granted("a") == ()


def test_who_lets_go_leaves_it_to_the_next() -> None:
    found = Claimants()
    for number, text in enumerate("abc"):
        found.put(external(text, *ADDRESSES), f"2026-01-0{number + 1}T00:00:00Z")
    assert found.remove("a") == [name("b")] * 3
    assert len(found.granted("b")) == 3
    assert found.put(external("b", ADDRESSES[2]), "2026-01-02T00:00:00Z") == [name("c")] * 2
    assert found.remove("c") == []  # no other claimed anything of what it had
    assert list(found.claims.conflicts()) == []


def test_a_claim_concerns_the_winner_of_before_and_nobody_else() -> None:
    """However many claim an address: what a change costs does not grow with them."""
    found = Claimants()
    for number in range(100):
        found.put(external(f"s{number:03}", ADDRESSES[0]), NEW)
    first = external("first", ADDRESSES[0])
    lost = Conflict(key(ADDRESSES[0]), name("s000"), name("first"))
    assert found.put(first, OLD) == [name("s000"), lost]
    assert found.put(first, OLD) == []
    assert found.put(external("last", ADDRESSES[0]), NEW) == [
        Conflict(key(ADDRESSES[0]), name("last"), name("first"))
    ]
    assert found.remove("last") == []


def test_thousands_of_claims_of_one_service_port_are_settled_in_steps() -> None:
    count = 3 * PART + 1
    addresses = [f"198.18.{number >> 8}.{number & 255}" for number in range(count)]
    found = Claimants()
    assert found.put(external("a", *addresses), OLD) == [None] * 3
    said = found.put(external("b", *addresses), NEW)
    assert (3, count) == (said.count(None), len([s for s in said if isinstance(s, Conflict)]))
    assert len(list(claims_of(external("a", *addresses), OLD))) == 3
    assert len(list(found.claims.granted(found.held["b"][0]))) == 3
    assert (len(found.granted("a")), found.granted("b")) == (count, ())
    assert found.remove("a").count(None) == 3
    assert len(found.granted("b")) == count


entries = st.builds(
    lambda text, frontends: entry(
        text, *sorted(frontends, key=lambda f: list(FrontendKind).index(f[0]))
    ),
    st.sampled_from("abcd"),
    st.lists(st.tuples(st.sampled_from(FrontendKind), st.sampled_from(ADDRESSES)), max_size=4),
)
steps = st.lists(
    st.one_of(st.tuples(entries, st.sampled_from((OLD, NEW))), st.sampled_from("abcd")),
    max_size=12,
)


@given(steps)
def test_the_winner_is_the_least_of_all_claims(
    history: Iterable[tuple[Entry, str] | str],
) -> None:
    found = Claimants()
    for step in history:
        before = {service: found.granted(service) for service in found.held}
        said = found.remove(step) if isinstance(step, str) else found.put(*step)
        changed = step if isinstance(step, str) else step[0].name.service
        affected = {each.service for each in said if isinstance(each, ServicePortName)}
        for service in found.held:
            if found.granted(service) != before.get(service):
                assert service in {changed, *affected}
    every = [finish(claims_of(*held)) for held in found.held.values()]
    for wanted, _ in found.held.values():
        expected = tuple(
            frontend
            for frontend in wanted.frontends
            if min(c[wanted.key(frontend)] for c in every if wanted.key(frontend) in c).name
            == wanted.name
        )
        assert expected == finish(found.claims.granted(wanted)).frontends
