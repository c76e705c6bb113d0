"""Large Services change by a few endpoints, and lead to what compiling all of them would.

The properties are those of `test_incremental`, for Services with enough endpoints to be compiled
from the difference: with session affinity, policy Local and topology hints, which come and go.
"""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.table.diff import list_changes, patch
from kubeproxy.table.entries import Table
from property.clusters import NODES, SERVICES, ZONES, Change, maybe_bool, nodes, services
from property.test_incremental import Engine, final_state, from_scratch

SERVICE = SERVICES[0]
SLICES = 3
IN_A_SLICE = 16
"""Of 48 endpoints, up to six may differ in one sync."""

Document = Mapping[str, object]
Endpoints = tuple[Document, ...]


def endpoint(number: int, **fields: object) -> Document:
    return {
        "addresses": [f"10.65.{number // 256}.{number % 256}"],
        "conditions": {"ready": True},
        "nodeName": NODES[number % 2],
        "targetRef": {"kind": "Pod"},
        **fields,
    }


def slice_of(number: int, endpoints: Sequence[Document], *, hints: bool) -> Change:
    name = f"{SERVICE}-{number}"
    hinted = [
        {"hints": {"forZones": [{"name": ZONES[at % 2]}]}, **each} if hints else each
        for at, each in enumerate(endpoints)
    ]
    document = {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": "IPv4",
        "ports": [
            {"name": port, "protocol": protocol, "port": 8080}
            for port in ("", "http", "dns")
            for protocol in ("TCP", "UDP")
        ],
        "endpoints": hinted,
    }
    obj = convert(Kind.ENDPOINT_SLICE, document)
    return Kind.ENDPOINT_SLICE, ObjectKey("shop", name), obj


def service(document: Document) -> Change:
    return Kind.SERVICE, ObjectKey("shop", SERVICE), convert(Kind.SERVICE, document)


def is_ipv4(document: Document) -> bool:
    spec = document["spec"]
    assert isinstance(spec, dict)
    return bool(spec["clusterIPs"][0].startswith("10."))


ipv4_services = services(SERVICE).filter(is_ipv4)
zones = nodes.map(lambda node: (Kind.NODE, ObjectKey("", "kestrel"), convert(Kind.NODE, node)))
changed_endpoints = st.builds(
    endpoint,
    st.integers(0, 99),
    conditions=st.fixed_dictionaries(
        {"ready": maybe_bool, "serving": maybe_bool, "terminating": maybe_bool}
    ),
    nodeName=st.sampled_from(NODES),
    hints=st.sampled_from(
        [
            None,
            {"forZones": [{"name": ZONES[0]}]},
            {"forZones": [{"name": ZONES[0]}, {"name": ZONES[1]}]},
            {"forNodes": [{"name": "kestrel"}]},
        ]
    ),
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Change, bool]]:
    """A Service with all its slices, then changes; with each, whether it is synced at once."""
    hints = draw(st.booleans())
    known: list[Endpoints] = [
        tuple(endpoint(100 * (at + 1) + each) for each in range(IN_A_SLICE))
        for at in range(SLICES)
    ]
    found = [service(draw(ipv4_services)), draw(zones)]
    found += [slice_of(at, each, hints=hints) for at, each in enumerate(known)]
    for _ in range(draw(st.integers(1, 8))):
        number = draw(st.integers(0, SLICES - 1))
        kinds = ("endpoint",) * 6 + ("order", "hints", "zone", "service", "gone")
        match draw(st.sampled_from(kinds)):
            case "endpoint":
                place = draw(st.integers(0, IN_A_SLICE))
                came = draw(st.lists(changed_endpoints, max_size=1))
                known[number] = (*known[number][:place], *came, *known[number][place + 1 :])
            case "order":
                known[number] = known[number][::-1]
            case "hints":
                hints = not hints
                found += [slice_of(at, each, hints=hints) for at, each in enumerate(known)]
            case "zone":
                found.append(draw(zones))
            case "service":
                found.append(service(draw(ipv4_services)))
            case _:
                key = ObjectKey("shop", f"{SERVICE}-{number}")
                found.append((Kind.ENDPOINT_SLICE, key, None))
                continue
        found.append(slice_of(number, known[number], hints=hints))
    return [(change, draw(st.booleans()) or at == SLICES + 1) for at, change in enumerate(found)]


@given(histories())
def test_incremental_equals_from_scratch(history: list[tuple[Change, bool]]) -> None:
    engine = Engine(Family.IPV4, large=IN_A_SLICE)
    for change, sync_now in history:
        engine.apply(change)
        if sync_now:
            engine.sync()
    engine.sync()
    expected = from_scratch(final_state([change for change, _ in history]), Family.IPV4)
    assert expected.builder.table == engine.builder.table


@given(histories())
def test_the_differences_of_lists_are_those_that_comparing_finds(
    history: list[tuple[Change, bool]],
) -> None:
    engine = Engine(Family.IPV4, large=IN_A_SLICE)
    copy = Table(Family.IPV4)
    for change, _ in history:
        engine.apply(change)
        changes = engine.sync()
        patch(copy, changes)
        for before, after in changes.changed:
            if after.name in changes.lists:
                assert changes.lists[after.name] == list_changes(before, after)
    assert engine.builder.table == copy


def test_one_endpoint_is_compiled_from_the_difference() -> None:
    """What the histories are about: else they would compile all of the Service every time."""
    spec = {
        "clusterIP": "10.112.0.1",
        "clusterIPs": ["10.112.0.1"],
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        "sessionAffinity": "ClientIP",
    }
    engine = Engine(Family.IPV4, large=IN_A_SLICE)
    engine.apply(service({"metadata": {"namespace": "shop", "name": SERVICE}, "spec": spec}))
    known = [endpoint(each) for each in range(IN_A_SLICE)]
    engine.apply(slice_of(0, known, hints=True))
    engine.sync()
    engine.apply(slice_of(0, [*known[:-1], endpoint(99)], hints=True))
    assert [*engine.sync().lists] == [*engine.builder.table.entries]
