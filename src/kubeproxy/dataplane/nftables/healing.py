"""The rules that heal connections to endpoints that fail. See docs/healing.md.

All is done by the kernel, with or without a daemon: what a packet needs to know is in sets that
packets fill, and whose elements time out. The daemon is only notified, so that it can count.

A connection is retried by its client, who sends the SYN once more after a second. The rules let it
do so, and the kernel forgets where the first one was sent: then the second one chooses again.

- Refused: the kernel forgets a connection whose SYN is reset. The reset is not passed on.
- Unanswered: the kernel forgets a connection whose SYN was not answered for a second.
- Gone: a packet to an endpoint that has left is answered with a reset.
"""

from collections.abc import Mapping

import msgspec

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import language as nft
from kubeproxy.dataplane.nftables import names

SYN_SECONDS = 1
"""After which clients send their SYN again (RFC 6298)."""
ATTEMPT_MILLISECONDS = 1600
"""Longer than that, and shorter than until the third SYN."""
ANSWERING_MILLISECONDS = 900
"""Shorter than that: who is refused twice, with no answer to anybody between, is told so."""
MEMORY_MILLISECONDS = 15_000
"""In which a connection is retried, or never."""
GROUPS = {Family.IPV4: 10256, Family.IPV6: 10257}
"""Of notifications; 10256 is the health port's number, which nobody else will have taken."""

MOST_GONE = 1 << 19
_SIZE = 65535
_FAILURES = 4096
_ATTEMPTS = nft.Limit(500, "second", 500)
"""So many new connections in a second are watched for a second SYN; of more, a part."""
_TCP = nft.is_protocol(Protocol.TCP)


class Keys(msgspec.Struct, frozen=True):
    """What a connection is known by: the client's side of it, and the endpoint's."""

    frontend: nft.Key
    connection: nft.Key
    endpoint: nft.Key
    failure: nft.Key

    @classmethod
    def of(cls, headers: nft.Headers) -> "Keys":
        """Those of a family."""
        client = headers.original_saddr
        frontend = (headers.original_daddr, nft.ORIGINAL_DPORT)
        endpoint = (headers.reply_saddr, nft.REPLY_SPORT)
        return cls(
            frontend=frontend,
            connection=(client, nft.ORIGINAL_SPORT, *frontend),
            endpoint=endpoint,
            failure=(client, *frontend, *endpoint),
        )


def sets(headers: nft.Headers, gone_seconds: int) -> tuple[nft.Set, ...]:
    """The sets of frontends that are healed, and those that packets fill."""
    key = Keys.of(headers)

    def frontends(kind: dict[bool, str], comment: str) -> tuple[nft.Set, ...]:
        node_ports = nft.Set(kind[True], (nft.DPORT,), "the same for node ports")
        return nft.Set(kind[False], (headers.daddr, nft.DPORT), comment), node_ports

    def filled(name: str, key: nft.Key, comment: str, data: nft.Key = ()) -> nft.Set:
        return nft.Set(name, key, comment, data, dynamic=True, size=_SIZE)

    def counting(name: str, key: nft.Key, comment: str) -> nft.Set:
        return nft.Set(name, key, comment, dynamic=True, counter=True, size=_FAILURES)

    return (
        *frontends(names.RETRY_REFUSED, "whose refused connections are retried"),
        *frontends(names.RETRY_UNANSWERED, "whose unanswered connections are retried"),
        *frontends(names.RETRY_STICKY, "the same with session affinity"),
        *frontends(names.RESET_GONE, "whose connections to endpoints that left are reset"),
        counting(names.REFUSED, key.failure, "which endpoints refused which clients"),
        filled(names.RETRIES, key.connection, "connections that were refused"),
        filled(names.REFUSING, key.frontend, "frontends with an endpoint that refuses"),
        filled(names.ANSWERING, key.frontend, "those of them with one that answers"),
        filled(names.ATTEMPTS, key.connection, "where the first SYN went", key.endpoint),
        filled(names.STICKY_ATTEMPTS, key.connection, "SYNs of clients that have an endpoint"),
        counting(names.UNANSWERED, key.connection, "connections that were not answered"),
        nft.Set(names.GONE_ANY, (nft.L4PROTO,), "tcp, when an endpoint has left"),
        nft.Set(
            names.GONE,
            key.endpoint,
            "endpoints that have left",
            dynamic=True,
            size=2 * MOST_GONE,
            seconds=gone_seconds,
        ),
        filled(names.RESETS, key.connection, "connections that were reset", key.endpoint),
    )


def timeouts() -> tuple[nft.SynTimeout, ...]:
    """How long a SYN of a healed connection is remembered."""
    return (nft.SynTimeout(names.SYN_TIMEOUT, SYN_SECONDS),)


def chains(headers: nft.Headers, retries: int) -> tuple[nft.Chain, ...]:
    """The chains; a refused connection is retried so many times at most."""
    key = Keys.of(headers)
    return (
        *_hooked_chains(headers),
        nft.Chain(
            "healing",
            (
                (_TCP, nft.RST, nft.goto("reset-to-client")),
                (_TCP, nft.InSet(key.frontend, names.REFUSING), _answers(key)),
            ),
        ),
        nft.Chain("reset-to-client", ((nft.FORGOTTEN, nft.goto("refused")),)),
        _by_frontend("refused", headers, {"retry": (names.RETRY_REFUSED,)}),
        # Only where the kernel forgets the connection in time.
        _by_frontend(
            "unreachable", headers, {"retry": (names.RETRY_UNANSWERED, names.RETRY_STICKY)}
        ),
        *_retry_chains(headers, retries),
        *_attempt_chains(headers),
        *_unpin_chains(headers),
        _by_frontend("gone", headers, {"reset-client": (names.RESET_GONE,)}),
        nft.Chain(
            "reset-client",
            (
                (_TCP, _remember(names.RESETS, key.connection, key.endpoint)),
                _notify(headers),
                (_TCP, nft.Reset()),
            ),
        ),
    )


def _hooked_chains(headers: nft.Headers) -> tuple[nft.Chain, ...]:
    """The chains on the hooks.

    Those of type nat see the first packet of a connection only, so that they cost others nothing.
    What a node sends to itself passes the two others once, on output.
    """
    to_client = (*nft.unreachable(headers.family), nft.RELATED, nft.TO_CLIENT, nft.UNANSWERED)
    any_gone = nft.InSet((nft.L4PROTO,), names.GONE_ANY)
    to_gone = (nft.FROM_CLIENT, any_gone, nft.InSet((headers.daddr, nft.DPORT), names.GONE))
    again = nft.InSet(_connection_of(headers), names.STICKY_ATTEMPTS)
    made = []
    for hook, number, at in (("prerouting", 0, "dstnat - 10"), ("output", 3, "-110")):
        not_looped = (nft.from_interface("lo", negate=True),) if hook == "prerouting" else ()
        made += [
            nft.Chain(
                f"filter/{hook}-healing",
                (
                    (nft.NOT_TRANSLATED, nft.ACCEPT),
                    (_TCP, nft.SYN_OR_RST, nft.TO_CLIENT, *not_looped, nft.goto("healing")),
                    (*to_gone, nft.goto("gone")),
                    (*to_client, *not_looped, nft.goto("unreachable")),
                ),
                nft.Hook("filter", hook, number, -80, "-80"),
            ),
            nft.Chain(
                f"nat/{hook}-healing",
                ((_TCP, again, nft.jump("unpin")),),
                nft.Hook("nat", hook, number, -110, at),
            ),
        ]
    translated: nft.Rule = (nft.TRANSLATED, _TCP, nft.jump("attempt"))
    return (
        *made,
        nft.Chain("nat/postrouting-healing", (translated,), _POSTROUTING),
        nft.Chain("nat/input-healing", (translated,), _INPUT),
    )


_POSTROUTING = nft.Hook("nat", "postrouting", 4, 90, "srcnat - 10")
_INPUT = nft.Hook("nat", "input", 1, 90, "90")


def _connection_of(headers: nft.Headers) -> nft.Key:
    """The connection that a packet of the client is the first of, before it is translated."""
    return (headers.saddr, nft.SPORT, headers.daddr, nft.DPORT)


def _attempt_chains(headers: nft.Headers) -> tuple[nft.Chain, ...]:
    """What is noted of the first packet of a connection, when it is known where it goes.

    An element lets the rule go on when it is added for the second time: that of a second SYN. It
    is not changed by it, so that it still says where the first one went.
    """
    key = Keys.of(headers)
    attempt = nft.ChangeElement(
        nft.Change.ADD,
        names.ATTEMPTS,
        key.connection,
        key.endpoint,
        ATTEMPT_MILLISECONDS,
        nft.Limit(1, "minute", 1, over=True),
    )
    sticky = nft.ChangeElement(
        nft.Change.ADD,
        names.STICKY_ATTEMPTS,
        key.connection,
        milliseconds=ATTEMPT_MILLISECONDS,
    )
    return (
        _by_frontend(
            "attempt",
            headers,
            {
                "watch-attempt": (names.RETRY_UNANSWERED,),
                "watch-sticky": (names.RETRY_STICKY,),
            },
        ),
        nft.Chain("watch-sticky", ((_OF_TCP, sticky), (nft.goto("watch-attempt"),))),
        nft.Chain(
            "watch-attempt",
            (
                (nft.UseTimeout(names.SYN_TIMEOUT),),
                (_ATTEMPTS, _OF_TCP, attempt, nft.goto("unanswered")),
            ),
        ),
        nft.Chain(
            "unanswered",
            ((_OF_TCP, _remember(names.UNANSWERED, key.connection)), _notify(headers)),
        ),
    )


def _by_frontend(
    name: str, headers: nft.Headers, ways: Mapping[str, tuple[Mapping[bool, str], ...]]
) -> nft.Chain:
    """Go on in a chain where the frontend of the connection is in one of its sets."""
    address, port = Keys.of(headers).frontend
    node_port = nft.InSet((address,), names.NODEPORT_ADDRESSES)
    rules: list[nft.Rule] = []
    for then, sets in ways.items():
        for each in sets:
            rules += [
                (_OF_TCP, nft.InSet((address, port), each[False]), nft.goto(then)),
                (node_port, _OF_TCP, nft.InSet((port,), each[True]), nft.goto(then)),
            ]
    return nft.Chain(name, tuple(rules))


_OF_TCP = nft.Match(f"{nft.CT_PROTOCOL.text} tcp", nft.CT_PROTOCOL, bytes([Protocol.TCP]))
"""The connection is one of TCP, whatever the packet is."""


def _remember(set_: str, key: nft.Key, data: nft.Key = ()) -> nft.ChangeElement:
    return nft.ChangeElement(nft.Change.UPDATE, set_, key, data, MEMORY_MILLISECONDS)


def _delete(set_: str, key: nft.Key, data: nft.Key = ()) -> nft.ChangeElement:
    return nft.ChangeElement(nft.Change.DELETE, set_, key, data)


def _answers(key: Keys) -> nft.ChangeElement:
    return nft.ChangeElement(
        nft.Change.UPDATE, names.ANSWERING, key.frontend, milliseconds=ANSWERING_MILLISECONDS
    )


def _notify(headers: nft.Headers) -> nft.Rule:
    return (nft.Limit(10, "second", 5), nft.Log(GROUPS[headers.family]))


def _retry_chains(headers: nft.Headers, retries: int) -> tuple[nft.Chain, ...]:
    """A connection may be retried once, and more often while others are answered.

    To look an element up counts for its limit as well: each retry but the first costs two.
    """
    key = Keys.of(headers)
    retried, given_up = nft.UseCounter(names.RETRIED), nft.UseCounter(names.GIVEN_UP)
    again = nft.ChangeElement(
        nft.Change.ADD,
        names.RETRIES,
        key.connection,
        milliseconds=MEMORY_MILLISECONDS,
        limit=nft.Limit(1, "minute", 2 * retries - 1),
    )
    return (
        nft.Chain(
            "retry",
            (
                (_OF_TCP, _remember(names.REFUSED, key.failure)),
                (_OF_TCP, _remember(names.REFUSING, key.frontend)),
                # It was answered: its next SYN is none that was not.
                (_OF_TCP, _delete(names.ATTEMPTS, key.connection, key.endpoint)),
                (_OF_TCP, _delete(names.STICKY_ATTEMPTS, key.connection)),
                (nft.jump("unpin"),),
                _notify(headers),
                (_OF_TCP, nft.InSet(key.connection, names.RETRIES), nft.goto("retry-again")),
                (_OF_TCP, again, retried, nft.DROP),
                (given_up,),
            ),
        ),
        nft.Chain(
            "retry-again",
            (
                (_OF_TCP, nft.InSet(key.frontend, names.ANSWERING), again, retried, nft.DROP),
                (given_up,),
            ),
        ),
    )


def _by_affinity(headers: nft.Headers, then: str) -> tuple[nft.Rule, ...]:
    """Jump there with the number of a service with session affinity in the priority."""
    address, port = Keys.of(headers).frontend
    node_port = nft.InSet((address,), names.NODEPORT_ADDRESSES)
    of_service = nft.SetPriority((address, nft.CT_PROTOCOL, port), names.NUMBERS[False])
    of_node_port = nft.SetPriority((nft.CT_PROTOCOL, port), names.NUMBERS[True])
    return (
        (_OF_TCP, of_service, nft.jump(then)),
        (node_port, _OF_TCP, of_node_port, nft.jump(then)),
    )


def _unpin_chains(headers: nft.Headers) -> tuple[nft.Chain, ...]:
    """The client chooses again, also with session affinity."""
    client = headers.original_saddr
    shared = nft.source_hash(client, names.SHARED_PLACES)
    places = (
        *((name, client) for name in names.PINS.values()),
        *((name, shared) for name in names.SHARED_PINS.values()),
    )
    return (
        nft.Chain("unpin", _by_affinity(headers, "forget-pin")),
        nft.Chain(
            "forget-pin",
            (
                *(
                    (_OF_TCP, _delete(name, (nft.PRIORITY, at), (nft.PRIORITY,)))
                    for name, at in places
                ),
                (nft.SetPriority(),),
            ),
        ),
    )
