"""The acts with clients: which pod answers, and which client is refused or dropped."""

import time
from collections.abc import Callable

from demo.cluster import Frontend, Pod
from demo.pictures import bars, time_line, visits
from demo.ruleset import remembered
from demo.screen import TICK, Show
from demo.stage import Stage
from demo.traffic import CUSTOMER, SHOPPER, STRANGER, Client, Tally, pod_of, visitors
from lab.outcome import Fate, Outcome

BATCH = 20
"""Connections made at once."""
CERTAIN = 8
"""So many batches without a connection to a pod show that it gets none any more."""
VISITORS = 24
VISITS = 6
SHOWN_VISITORS = 6


def balancing(stage: Stage) -> None:
    """Several pods share the connections to a cluster IP."""
    screen, web = stage.screen, stage.cluster.frontend("shop/web")
    screen.act("Three pods share a service", f"Pod shopper connects to shop/web at {web}.")
    tally = Tally(stage.cluster.pods("shop/web"))
    with screen.live() as show:
        for _ in screen.ticks(2.0):
            tally.add(stage.traffic.send([SHOPPER] * BATCH, web))
            show(bars(screen, tally))
    _claim_all_answered(stage, tally)
    shares = [tally.answers[pod] / tally.connections for pod in tally.pods]
    screen.claim(
        f"they share evenly: {', '.join(f'{share:.0%}' for share in shares)}",
        holds=all(0.25 < share < 0.42 for share in shares),
    )
    screen.pause(0.7)


def _claim_all_answered(stage: Stage, tally: Tally) -> None:
    stage.screen.claim(
        f"{tally.connections:,} connections, none failed",
        holds=not tally.failures,
        instead=f"{len(tally.failures)} did: {', '.join(tally.failures[:3])}",
    )


def draining(stage: Stage) -> None:
    """A pod leaves and returns, and no client notices."""
    screen, cluster = stage.screen, stage.cluster
    pods = cluster.pods("shop/web")
    leaving = pods[1]
    screen.act(
        "A pod goes away and comes back",
        f"{leaving.name} is marked as terminating in web.yaml, and two seconds later as ready.",
    )
    tally = Tally(pods)
    with screen.live() as show:
        traffic = _Stream(stage, tally, show)
        traffic.flow(1.2)
        cluster.drain("web.yaml", leaving.name)
        changed = time.monotonic()
        traffic.until(lambda: not any(batch[leaving] for batch in tally.history[-CERTAIN:]))
        took = tally.last(leaving) - changed
        gone = len(tally.history)
        traffic.flow(2.0)
        back = len(tally.history)
        cluster.restore("web.yaml")
        traffic.until(lambda: tally.history[-1][leaving] > 0)
        traffic.flow(1.2)
    _claim_all_answered(stage, tally)
    strayed = sum(batch[leaving] for batch in tally.history[gone:back])
    screen.claim(
        f"{leaving.name} got its last new connection {max(0.0, 1000 * took):.0f} ms after the "
        "file changed",
        holds=strayed == 0,
        instead=f"{strayed} more came later",
    )
    screen.pause(0.7)


class _Stream:
    """Connections to shop/web that go on while other things happen."""

    def __init__(self, stage: Stage, tally: Tally, show: Show) -> None:
        self._stage = stage
        self._tally = tally
        self._show = show
        self._web = stage.cluster.frontend("shop/web")

    def flow(self, seconds: float) -> None:
        """Go on for so long."""
        for _ in self._stage.screen.ticks(seconds):
            self._batch()

    def until(self, condition: Callable[[], bool]) -> None:
        """Go on, as fast as possible, until something is true."""

        def is_true() -> bool:
            self._batch()
            return condition()

        self._stage.proxy.wait(is_true)

    def _batch(self) -> None:
        self._tally.add(self._stage.traffic.send([SHOPPER] * BATCH, self._web))
        self._show(time_line(self._stage.screen, self._tally, expected=round(5.6 / TICK)))


def affinity(stage: Stage) -> None:
    """With session affinity, a client keeps its pod."""
    screen, cart = stage.screen, stage.cluster.frontend("shop/cart", "node port")
    screen.act(
        "A client keeps its pod",
        f"shop/cart at {cart} has sessionAffinity ClientIP.",
    )
    pods = stage.cluster.pods("shop/cart")
    clients = visitors(VISITORS)
    got: dict[Client, list[Pod | None]] = {client: [] for client in clients}
    with screen.live() as show:
        for _ in range(VISITS):
            for client, outcome in zip(clients, stage.traffic.send(clients, cart), strict=True):
                got[client].append(pod_of(outcome, pods))
            show(visits(got, SHOWN_VISITORS))
            screen.pause(0.3)
    first = {visits_[0] for visits_ in got.values()}
    moved = [client.address for client, visits_ in got.items() if set(visits_) != {visits_[0]}]
    screen.claim(
        f"{VISITORS * VISITS} connections of {VISITORS} clients: each client kept its pod",
        holds=not moved and None not in first,
        instead=f"{', '.join(moved)} were, or had no answer",
    )
    known = remembered(stage.node)
    screen.claim(
        f"the clients use {len(first)} pods; the kernel remembers {known} clients",
        holds=first == set(pods) and known == VISITORS,
    )
    screen.pause(0.7)


def rejection(stage: Stage) -> None:
    """A service without endpoints refuses at once."""
    screen, reports = stage.screen, stage.cluster.frontend("shop/reports")
    screen.act("No endpoints: refused at once", f"shop/reports at {reports} has no endpoints.")
    outcome, took = _once(stage, SHOPPER, reports)
    screen.claim(
        f"pod shopper got an ICMP port unreachable after {1000 * took:.1f} ms, not a time-out",
        holds=outcome.fate is Fate.UNREACHABLE,
        instead=str(outcome),
    )
    screen.pause(0.7)


def source_ranges(stage: Stage) -> None:
    """A load balancer's address with source ranges."""
    screen, door = stage.screen, stage.cluster.frontend("shop/storefront", "load balancer")
    screen.act(
        "A load balancer's address for one network only",
        f"shop/storefront at {door}; loadBalancerSourceRanges is 192.0.2.0/25.",
    )
    welcome, took = _once(stage, CUSTOMER, door)
    here = [pod for pod in stage.cluster.pods("shop/storefront") if pod.node == stage.node.name]
    pod = pod_of(welcome, here)
    saw = welcome.saw.address if welcome.saw else ""
    screen.claim(
        f"{CUSTOMER.address}: {pod.name if pod else 'no pod'} answered after "
        f"{1000 * took:.1f} ms, and saw the client's own address",
        holds=pod is not None and saw == CUSTOMER.address,
        instead=str(welcome),
    )
    stranger, _ = _once(stage, STRANGER, door)
    screen.claim(
        f"{STRANGER.address}: dropped without an answer",
        holds=stranger.fate is Fate.SILENT,
        instead=str(stranger),
    )
    screen.pause(1.0)


def _once(stage: Stage, client: Client, frontend: Frontend) -> tuple[Outcome, float]:
    """One connection, and how long it took."""
    began = time.monotonic()
    (outcome,) = stage.traffic.send([client], frontend)
    return outcome, time.monotonic() - began
