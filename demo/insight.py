"""The acts about the proxy itself: explanations, counters, rules, and their repair."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from demo import ruleset, vandal, witness
from demo.cluster import Frontend, many
from demo.pictures import counted, wrapped
from demo.proxy import CIDR_FLAG
from demo.stage import MANIFESTS, Stage
from demo.traffic import CUSTOMER, SHOPPER, STRANGER, Client, pod_of
from kubeproxy.serve.status.wire import ServiceList

QUESTIONS = 30
MORE_SERVICES = 1000
LABEL = 13
"""Where the text of `explain` begins, behind its labels."""
SUCCESSES = 300
"""Connections that reach a pod, one after the other, when a repair is over."""

STALLED = 0.5
"""Seconds after which a connection counts as failed that was made as the table was deleted."""
LONGEST_REPAIR = 5.0
"""Seconds that no repair may take, however slow the machine."""


class _Answer(msgspec.Struct, frozen=True):
    verdict: str


def explaining(stage: Stage) -> None:
    """`explain` says what becomes of a packet, and why."""
    screen, door = stage.screen, stage.cluster.frontend("shop/storefront", "load balancer")
    screen.act("Why was that packet dropped?", "The proxy can say what it does, and why.")
    question = (f"--from={STRANGER.address}", f"--to={door.address}:{door.port}")
    screen.command(f"kube-proxy explain --manifests={MANIFESTS} {CIDR_FLAG} {' '.join(question)}")
    screen.show(wrapped(screen, stage.proxy.explain(*question), LABEL))
    verdicts = {client: _verdict(stage, client, door) for client in (CUSTOMER, STRANGER)}
    screen.claim(
        f"{CUSTOMER.address} {verdicts[CUSTOMER]}, {STRANGER.address} {verdicts[STRANGER]}: "
        "explain matches what happened",
        holds=verdicts == {CUSTOMER: "forward", STRANGER: "drop"},
    )
    screen.pause(2.0)


def _verdict(stage: Stage, client: Client, frontend: Frontend) -> str:
    text = stage.proxy.explain(
        f"--from={client.address}", f"--to={frontend.address}:{frontend.port}", "--output=json"
    )
    (answer,) = msgspec.json.decode(text, type=tuple[_Answer, ...])
    return answer.verdict


def counting(stage: Stage) -> None:
    """The kernel counts the connections of every service."""
    screen, dns = stage.screen, stage.cluster.frontend("kube-system/kube-dns")
    screen.act(
        "Connections of every service, counted by the kernel",
        f"After {QUESTIONS} more questions to {dns.service}; from the sets' counters.",
    )
    outcomes = stage.traffic.send([SHOPPER] * QUESTIONS, dns)
    unanswered = [o for o in outcomes if pod_of(o, stage.cluster.pods(dns.service)) is None]
    now = ruleset.counters(stage.node, stage.cluster.frontends)
    kernel = {each: now[each] - stage.counted_before[each] for each in now}
    made = stage.traffic.let_in
    screen.show(counted(stage.cluster.frontends, kernel, made))
    screen.claim(
        f"the kernel counted {sum(kernel.values()):,} connections: every one that was let in",
        holds=not unanswered and all(kernel[each] == made[each] for each in kernel),
    )
    if witness.is_here():
        screen.claim(
            "nft lists the same numbers",
            holds=witness.counters(stage.node, stage.cluster.frontends) == now,
        )
    screen.pause(2.0)


def querying(stage: Stage) -> None:
    """The running proxy lists its services and their connections."""
    screen, door = stage.screen, stage.cluster.frontend("shop/storefront", "load balancer")
    screen.act(
        "Ask the running proxy",
        "`status`, `top`, `trace` and `diff` are others, and /status is a page for browsers.",
    )
    screen.command(f"kube-proxy services {door.service}")
    screen.show(wrapped(screen, stage.proxy.run_tool("services", door.service), 4))
    listed = msgspec.json.decode(
        stage.proxy.run_tool("services", "--no-rates", "--output=json"), type=ServiceList
    )
    connections = Counter({f"{s.namespace}/{s.service}": s.connections for s in listed.services})
    now: Counter[str] = Counter()
    for frontend, count in ruleset.counters(stage.node, stage.cluster.frontends).items():
        now[frontend.service] += count
    screen.claim(
        f"it lists {len(listed.services)} services, with all their connections",
        holds=connections == now,
        instead=f"{connections - now}, {now - connections}",
    )
    screen.pause(2.0)


def program(stage: Stage) -> None:
    """No chain and no rule belongs to a service: a thousand more services are data alone."""
    screen, web = stage.screen, stage.cluster.frontend("shop/web")
    has_nft = witness.is_here()
    source = "nft list table ip kube-proxy" if has_nft else "kube-proxy render"
    screen.act("The rules are a program, the cluster is its data", f"From `{source}`:")
    table = witness.listed(stage.node) if has_nft else stage.proxy.rendered()
    for head in ("map service-choices", "map service-endpoints", "chain pick-3"):
        screen.show(wrapped(screen, witness.excerpt(table, head, web.address), 8))
    before = ruleset.read(stage.node)
    chains, rules, elements = before.size()
    screen.show(f"{chains} chains, {rules} rules and {elements} elements.")
    screen.pause(2.0)
    documents, frontends = many(MORE_SERVICES, stage.cluster.pods("shop/web"))
    stage.cluster.add("tenants.json", documents)
    ends = [frontends[0], frontends[-1]]
    took = stage.proxy.wait(lambda: not _unanswered(stage, ends))
    after = ruleset.read(stage.node)
    screen.claim(
        f"{MORE_SERVICES:,} more services within {1000 * took:.0f} ms: {after.size()[2]:,} "
        "elements, not one more chain or rule",
        holds=after.rules == before.rules,
        instead=f"{after.size()[0]} chains, {after.size()[1]} rules",
    )
    unanswered = _unanswered(stage, frontends)
    screen.claim(
        "a pod answers for each of them",
        holds=not unanswered,
        instead=f"not for {len(unanswered)}, such as {', '.join(unanswered[:2])}",
    )
    screen.pause(1.0)


def _unanswered(stage: Stage, frontends: Sequence[Frontend]) -> list[str]:
    """The frontends at which no pod answers."""
    pods = stage.cluster.pods("shop/web")
    return [
        f"{each} ({outcome})"
        for each in frontends
        for outcome in stage.traffic.send([SHOPPER], each)
        if pod_of(outcome, pods) is None
    ]


def repair(stage: Stage) -> None:
    """Another program deletes the table: it is written again at once."""
    screen = stage.screen
    screen.act("Another program deletes the rules", "Pod shopper keeps connecting to shop/web.")
    before, first = ruleset.read(stage.node), ruleset.number(stage.node)
    command = [sys.executable, "-m", "demo.vandal"]
    if witness.is_here():
        command = ["nft", *vandal.COMMAND.split()]
    screen.command(f"nft {vandal.COMMAND}" if witness.is_here() else vandal.COMMAND)
    with stage.node.entered():
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    failed, outage = _outage(stage, process)
    after = ruleset.read(stage.node)
    again = ruleset.number(stage.node) != first
    screen.claim(
        f"every chain, every rule and all {after.size()[2]:,} elements are back",
        holds=after == before and process.returncode == 0,
        instead=f"{after.size()} chains, rules, elements instead of {before.size()}",
    )
    screen.claim(
        f"repaired within {1000 * outage:.0f} ms; {failed} connections failed meanwhile"
        if failed
        else "repaired between two connections; none failed",
        holds=again and outage < LONGEST_REPAIR,
        instead="that is too long" if again else "the table was never gone",
    )
    screen.pause(0.5)


def _outage(stage: Stage, process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """How many connections failed while the table was deleted, and for how long."""
    web, pods = stage.cluster.frontend("shop/web"), stage.cluster.pods("shop/web")
    failed: list[float] = []
    arrived: list[float] = []

    def is_over() -> bool:
        began = time.monotonic()
        (outcome,) = stage.traffic.send([SHOPPER], web, STALLED)
        if pod_of(outcome, pods) is None:
            failed.append(began)
            arrived.clear()
        else:
            arrived.append(began)
        return process.poll() is not None and len(arrived) > SUCCESSES

    stage.proxy.wait(is_over)
    return len(failed), arrived[0] - failed[0] if failed else 0.0
