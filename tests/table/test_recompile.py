"""A large Service is compiled by its changes: the result is that of compiling all of it."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.steps import finish
from kubeproxy.cluster.model.endpoint import Endpoint, Slice, SlicePort
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.table.compile import Compiled, compile_service
from kubeproxy.table.diff import Members, list_changes, members
from kubeproxy.table.entries import Backend
from kubeproxy.table.recompile import Known, recompile, remember
from world import NODE_NAME, ZONE, Mode, node

KEY = ObjectKey("shop", "cart")
HERE = replace(node(Mode.NFTABLES), zone=ZONE)
PORTS = (SlicePort("http", Protocol.TCP, 8080), SlicePort("dns", Protocol.UDP, 5353))
Slices = dict[str, Slice]


def endpoint(number: int, **fields: object) -> Endpoint:
    return Endpoint(f"10.65.{number // 256}.{number % 256}", **fields)  # type: ignore[arg-type]


def slice_of(*endpoints: Endpoint, ports: tuple[SlicePort, ...] = PORTS) -> Slice:
    return Slice(KEY, Family.IPV4, ports, endpoints)


def service_ports(**fields: object) -> tuple[ServicePort, ...]:
    http = ServicePort("http", Protocol.TCP, "10.112.0.21", 80, 31080, externally_accessible=True)
    named = (http, replace(http, name="dns", protocol=Protocol.UDP, port=53, node_port=31053))
    unserved = replace(http, name="admin", port=81, node_port=0)
    return tuple(replace(port, **fields) for port in (*named, unserved))


PLAIN: Slices = {
    f"cart-{number}": slice_of(*(endpoint(100 * number + at, node="n") for at in range(12)))
    for number in range(3)
}


def compiled(ports: tuple[ServicePort, ...], slices: Mapping[str, Slice]) -> Compiled:
    return finish(compile_service(KEY, ports, slices, HERE))


def known(ports: tuple[ServicePort, ...], slices: Slices) -> Known | None:
    return finish(remember(ports, slices, HERE, compiled(ports, slices)))


def changed(slices: Slices, name: str, place: int, new: Endpoint | None) -> Slices:
    """The slices with an endpoint replaced, or without it."""
    endpoints = list(slices[name].endpoints)
    endpoints[place : place + 1] = [] if new is None else [new]
    return {**slices, name: replace(slices[name], endpoints=tuple(endpoints))}


def check(
    was: Compiled, result: Compiled | None, ports: tuple[ServicePort, ...], slices: Slices
) -> None:
    """The entries are those of a Service that is compiled as a whole, and so is the difference."""
    whole = compiled(ports, slices)
    assert result is not None
    assert (whole.entries, whole.health_check) == (result.entries, result.health_check)
    for old, new in zip(was.entries, result.entries, strict=True):
        if new.name in result.lists:
            assert result.lists[new.name] == list_changes(old, new)


CHANGES = [
    pytest.param(lambda one: changed(one, "cart-1", 3, None), id="one-leaves"),
    pytest.param(lambda one: changed(one, "cart-1", 3, endpoint(999)), id="one-is-replaced"),
    pytest.param(
        lambda one: {**one, "cart-3": slice_of(endpoint(5000, local=True))}, id="a-slice-comes"
    ),
    pytest.param(
        lambda one: changed(one, "cart-0", 0, endpoint(0, ready=False)), id="one-is-not-ready"
    ),
    pytest.param(
        lambda one: changed(one, "cart-0", 0, endpoint(0, node="m")),
        id="one-moves-to-another-node",
    ),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="cluster"),
        pytest.param({"internal_local": True}, id="internal-local"),
        pytest.param({"external_local": True, "health_check_port": 32100}, id="external-local"),
        pytest.param({"affinity_seconds": 60, "healing": Healing.RESET_GONE}, id="healed"),
    ],
)
def test_a_change_of_few_endpoints(
    change: Callable[[Slices], Slices], fields: Mapping[str, object]
) -> None:
    ports = service_ports(**fields)
    here = {**PLAIN, "cart-9": slice_of(*(endpoint(900 + at, local=True) for at in range(8)))}
    before = known(ports, here)
    assert before is not None
    was = before.compiled
    check(was, recompile(before, ports, change(here), HERE), ports, change(here))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(
            {**PLAIN, "cart-3": slice_of(endpoint(5000), ports=PORTS[:1])}, id="other-ports"
        ),
        pytest.param({**PLAIN, "cart-3": slice_of(endpoint(5))}, id="in-two-slices"),
        pytest.param({**PLAIN, "cart-3": slice_of(endpoint(5000), endpoint(5000))}, id="twice"),
        pytest.param(
            {**PLAIN, "cart-0": slice_of(*(endpoint(at) for at in (1, 2, *range(3, 11), 2)))},
            id="twice-and-moved",
        ),
        pytest.param({"cart-1": PLAIN["cart-1"]}, id="many-leave"),
        pytest.param({**PLAIN, "cart-0": slice_of()}, id="many-of-a-slice-leave"),
        pytest.param(
            changed(PLAIN, "cart-0", 0, endpoint(0, local=True)), id="the-first-on-this-node"
        ),
        pytest.param({}, id="all-leave"),
    ],
)
def test_what_is_compiled_as_a_whole(after: Slices) -> None:
    ports = service_ports(external_local=True)
    before = known(ports, PLAIN)
    assert before is not None
    assert recompile(before, ports, after, HERE) is None


def test_a_service_that_changed_is_compiled_as_a_whole() -> None:
    ports = service_ports()
    before = known(ports, PLAIN)
    assert before is not None
    assert recompile(before, service_ports(affinity_seconds=60), PLAIN, HERE) is None


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param({}, id="no-slices"),
        pytest.param({"cart-0": slice_of()}, id="no-endpoints"),
        pytest.param({"cart-0": slice_of(endpoint(1), endpoint(1))}, id="one-twice"),
        pytest.param(
            {"a": slice_of(endpoint(1)), "b": slice_of(endpoint(2), ports=PORTS[1:])},
            id="different-ports",
        ),
        pytest.param({"a": slice_of(endpoint(1), ports=PORTS[:1] * 2)}, id="a-port-twice"),
    ],
)
def test_what_is_not_remembered(slices: Slices) -> None:
    assert known(service_ports(), slices) is None


# --- any history ------------------------------------------------------------------------------

conditions = st.fixed_dictionaries(
    {
        "ready": st.sampled_from([True, True, True, False]),
        "serving": st.booleans(),
        "terminating": st.booleans(),
        "local": st.booleans(),
        "zone_hints": st.sampled_from([(), (ZONE,), ("z-far",)]),
        "node_hints": st.sampled_from([(), (NODE_NAME,)]),
        "pod": st.booleans(),
    }
)


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, int, Endpoint | None]:
    """A slice, a place in it, and who has it from now on."""
    name = draw(st.sampled_from([*PLAIN]))
    number = int(name[-1]) * 100 + draw(st.integers(0, 20))
    new = draw(st.none() | conditions.map(lambda fields: endpoint(number, **fields)))
    return name, draw(st.integers(0, 11)), new


POLICIES = st.fixed_dictionaries(
    {
        "internal_local": st.booleans(),
        "external_local": st.booleans(),
        "externally_accessible": st.booleans(),
        "affinity_seconds": st.sampled_from([0, 60]),
        "health_check_port": st.sampled_from([0, 32100]),
        "healing": st.sampled_from([Healing.NONE, Healing.RESET_GONE]),
    }
)


@given(
    POLICIES,
    st.sampled_from([{}, {"zone_hints": (ZONE,)}, {"node_hints": (NODE_NAME,)}]),
    st.lists(steps(), max_size=8),
)
def test_any_history_leads_to_the_same(
    fields: Mapping[str, object],
    hints: Mapping[str, tuple[str, ...]],
    history: list[tuple[str, int, Endpoint | None]],
) -> None:
    ports = service_ports(**fields)
    slices = {
        name: slice_of(*(replace(each, local=at % 2 == 0, **hints) for at, each in enumerate(one)))
        for name, one in ((name, each.endpoints) for name, each in PLAIN.items())
    }
    before = known(ports, slices)
    for name, place, new in history:
        slices = changed(slices, name, place, new)
        was = before.compiled if before else None
        result = recompile(before, ports, slices, HERE) if before else None
        if result is None or was is None:
            before = known(ports, slices)
        else:
            check(was, result, ports, slices)


# --- lists ------------------------------------------------------------------------------------

BACKENDS = [Backend(f"10.65.0.{number}", 80, local=number % 2 == 0) for number in range(40)]
chosen = st.lists(st.sampled_from(BACKENDS), unique=True)


@given(
    st.one_of(
        st.tuples(*[chosen.map(lambda one: sorted(one, key=str))] * 2), st.tuples(chosen, chosen)
    )
)
def test_members_of_lists_in_any_order(lists: tuple[list[Backend], list[Backend]]) -> None:
    before, after = lists
    assert members(before, after) == Members(
        frozenset(before).difference(after), frozenset(after).difference(before)
    )
