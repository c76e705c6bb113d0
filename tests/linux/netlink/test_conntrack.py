import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.linux.netlink.attribute import attribute, nested
from kubeproxy.linux.netlink.conntrack import (
    IPCTNL_MSG_CT_DELETE,
    IPCTNL_MSG_CT_GET,
    IPCTNL_MSG_CT_NEW,
    IPS_OFFLOAD,
    Connection,
    Flow,
    TcpConnection,
    connection_in,
    delete_request,
    dialled,
    dump_request,
    entry_request,
    flow_in,
    forget_request,
    offloaded_request,
    plain_connection,
    plain_flow,
    status_in,
)
from kubeproxy.linux.netlink.message import (
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    Message,
    attributes,
    encode,
)

NESTED = 0x8000
ORIGINAL, REPLY = 1, 2
STATUS = attribute(3, bytes(4))
ID = attribute(12, b"\x01\x02\x03\x04")
ZONE = attribute(18, b"\x00\x07")

ports = st.binary(min_size=2, max_size=2)


def direction(
    kind: int, source: bytes, destination: bytes, protocol: int = Protocol.UDP, more: bytes = b""
) -> bytes:
    """One direction as the kernel writes it; the ends are address and port."""
    at = (1, 2) if len(source) == 6 else (3, 4)
    return nested(
        kind | NESTED,
        nested(1 | NESTED, attribute(at[0], source[:-2]), attribute(at[1], destination[:-2])),
        nested(
            2 | NESTED,
            attribute(1, bytes([protocol])),
            attribute(2, source[-2:]),
            attribute(3, destination[-2:]),
        ),
        more,
    )


def nfgen(width: int) -> bytes:
    return bytes([2 if width == 4 else 10, 0, 0, 0])


@st.composite
def entries(draw: st.DrawFn) -> tuple[Flow, list[bytes], bytes]:
    """A flow, its two directions and what follows them."""
    width = draw(st.sampled_from([4, 16]))
    ends = st.binary(min_size=width + 2, max_size=width + 2)
    client, service, backend, node = draw(ends), draw(ends), draw(ends), draw(ends)
    zone = draw(st.sampled_from([b"", attribute(3, b"\x00\x07")]))
    directions = [
        direction(ORIGINAL, client, service, more=zone),
        direction(REPLY, backend, node, more=zone),
    ]
    rest = draw(st.sampled_from([STATUS + ID, ZONE + STATUS + ID, STATUS]))
    entry = nfgen(width) + b"".join(directions) + rest
    return Flow(service, backend, entry), directions, rest


@given(entries())
def test_the_template_reads_what_the_plain_way_reads(
    case: tuple[Flow, list[bytes], bytes],
) -> None:
    flow, _, _ = case
    assert flow == plain_flow(flow.entry)
    assert flow == flow_in(Message(IPCTNL_MSG_CT_NEW, 2, 1, flow.entry))


@given(entries())
def test_the_order_of_attributes_does_not_matter(case: tuple[Flow, list[bytes], bytes]) -> None:
    flow, directions, rest = case
    entry = flow.entry[:4] + rest + b"".join(reversed(directions))
    assert flow._replace(entry=entry) == flow_in(Message(IPCTNL_MSG_CT_NEW, 2, 1, entry))


@given(entries())
def test_a_deletion_names_the_entry_by_its_responder_zone_and_number(
    case: tuple[Flow, list[bytes], bytes],
) -> None:
    flow, directions, _ = case
    asked = delete_request(flow)
    assert asked._replace(payload=b"") == Message(IPCTNL_MSG_CT_DELETE, NLM_F_REQUEST, 0, b"")
    said = attributes(flow.entry[4:])
    expected = {kind: said[kind] for kind in (REPLY, 12, 18) if kind in said}
    assert asked.payload[:4] == flow.entry[:4]
    assert expected == attributes(asked.payload[4:])
    assert attributes(asked.payload[4:])[REPLY] == directions[1][4:]


CLIENT = pack("10.1.0.9") + struct.pack("!H", 40000)
SERVICE = pack("10.96.0.10") + struct.pack("!H", 53)


def tcp() -> bytes:
    return (
        nfgen(4)
        + direction(ORIGINAL, CLIENT, SERVICE, Protocol.TCP)
        + direction(REPLY, SERVICE, CLIENT, Protocol.TCP)
    )


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Message(NLMSG_DONE, 2, 1, bytes(4)), id="the-end-of-a-dump"),
        pytest.param(Message(IPCTNL_MSG_CT_NEW, 2, 1, tcp()), id="tcp"),
    ],
)
def test_other_messages_have_no_flow(message: Message) -> None:
    assert flow_in(message) is None


@pytest.mark.parametrize(("family", "number"), [(Family.IPV4, 2), (Family.IPV6, 10)])
def test_the_kernel_is_asked_for_udp_only(family: Family, number: int) -> None:
    asked = dump_request(family)
    assert asked._replace(payload=b"") == Message(
        IPCTNL_MSG_CT_GET, NLM_F_REQUEST | NLM_F_DUMP, 0, b""
    )
    assert asked.payload[:4] == bytes([number, 0, 0, 0])
    assert attributes(asked.payload[4:]) == {
        1: nested(2, attribute(1, bytes([Protocol.UDP]))),
        25: attribute(1, struct.pack("=I", 8)),
    }


# --- new connections --------------------------------------------------------------------------


@st.composite
def connections(draw: st.DrawFn) -> tuple[Connection, bytes]:
    """A connection, and its event."""
    width = draw(st.sampled_from([4, 16]))
    ends = st.binary(min_size=width + 2, max_size=width + 2)
    client, service, backend, node = draw(ends), draw(ends), draw(ends), draw(ends)
    protocol = draw(st.sampled_from(Protocol))
    zone = draw(st.sampled_from([b"", attribute(3, b"\x00\x07")]))
    directions = [
        direction(ORIGINAL, client, service, protocol, zone),
        direction(REPLY, backend, node, protocol, zone),
    ]
    # As the kernel writes it, or otherwise.
    usual = [*directions, STATUS, ID]
    parts = draw(st.one_of(st.just(usual), st.permutations(usual)))
    event = encode(Message(IPCTNL_MSG_CT_NEW, 0x600, 0, nfgen(width) + b"".join(parts)))
    return Connection(protocol, client, service, backend, node), event


@given(connections())
def test_an_event_has_both_directions(case: tuple[Connection, bytes]) -> None:
    connection, event = case
    assert connection == connection_in(event) == plain_connection(event[16:])


@given(connections())
def test_what_the_client_dialled_is_read_without_the_rest(case: tuple[Connection, bytes]) -> None:
    connection, event = case
    address, port = connection.destination[:-2], connection.destination[-2:]
    assert (address, bytes([connection.protocol]), port) == dialled(event)


def ping() -> bytes:
    """An echo request: identifier, type and code stand where ports would."""
    proto = attribute(1, b"\x01") + attribute(4, b"\x00\x09") + attribute(5, b"\x08")
    addresses = attribute(1, CLIENT[:4]) + attribute(2, SERVICE[:4])
    both = [
        nested(kind | NESTED, nested(1 | NESTED, addresses), nested(2 | NESTED, proto))
        for kind in (ORIGINAL, REPLY)
    ]
    return encode(Message(IPCTNL_MSG_CT_NEW, 0x600, 0, nfgen(4) + b"".join(both)))


def test_what_has_no_ports_is_no_connection_of_a_service() -> None:
    assert connection_in(ping()) is None
    assert dialled(ping()) is None


@pytest.mark.parametrize(
    ("family", "client", "server"),
    [(Family.IPV4, "10.64.3.50", "10.112.0.20"), (Family.IPV6, "fd40::50", "fd12::20")],
)
def test_a_connection_is_deleted_by_what_its_client_sent(
    family: Family, client: str, server: str
) -> None:
    port, to = (40000).to_bytes(2, "big"), (80).to_bytes(2, "big")
    ends = TcpConnection(pack(client) + port, pack(server) + to)
    asked = forget_request(family, ends)
    assert asked.type & 0xFF == 2
    sent = attributes(attributes(asked.payload[4:])[1])
    source, destination = (1, 2) if family is Family.IPV4 else (3, 4)
    assert attributes(sent[1]) == {source: pack(client), destination: pack(server)}
    assert attributes(sent[2]) == {1: bytes([Protocol.TCP]), 2: port, 3: to}


def test_connections_of_a_flowtable_are_known_by_their_status() -> None:
    message = offloaded_request(Family.IPV6)
    assert (message.type, message.flags) == (IPCTNL_MSG_CT_GET, NLM_F_REQUEST | NLM_F_DUMP)
    bit = IPS_OFFLOAD.to_bytes(4, "big")
    assert attributes(message.payload[4:]) == {3: bit, 26: bit}
    head = bytes([10, 0, 0, 0])
    assert status_in(head + attribute(3, bit)) == IPS_OFFLOAD
    assert status_in(head + ID) == 0


@pytest.mark.parametrize(
    ("family", "client", "to"),
    [(Family.IPV4, "10.64.3.50", "10.112.0.21"), (Family.IPV6, "fd40::50", "fd12::21")],
)
def test_one_entry_is_requested_by_its_original_direction(
    family: Family, client: str, to: str
) -> None:
    ends = pack(client) + b"\x80\xe8", pack(to) + b"\x00\x50"
    message = entry_request(Connection(Protocol.TCP, *ends, ends[1], ends[0]))
    deletion = forget_request(family, TcpConnection(*ends))
    assert (message.type, message.flags) == (IPCTNL_MSG_CT_GET, NLM_F_REQUEST)
    assert message.payload == deletion.payload
