"""The acts about the proxy itself: why, how many, with which rules, and what if they are gone."""

import subprocess
import time

import msgspec

from demo import ruleset
from demo.cluster import Frontend, many
from demo.pictures import counted, wrapped
from demo.proxy import CIDR_FLAG
from demo.stage import MANIFESTS, Stage
from demo.traffic import CUSTOMER, SHOPPER, STRANGER, Client, pod_of

QUESTIONS = 30
MORE_SERVICES = 1000
LABEL = 13
"""Where the text of `explain` begins, behind its labels."""
CALM = 300
"""Connections that reach a pod, one after the other, when a repair is over."""

LONG = 5.0
"""Seconds that no repair may take, however slow the machine."""


class _Answer(msgspec.Struct, frozen=True):
    verdict: str


def reasons(stage: Stage) -> None:
    """`explain` says what becomes of a packet, and why."""
    screen, door = stage.screen, stage.cluster.frontend("shop/storefront", "load balancer")
    screen.act("Why was that packet dropped?", "The proxy can say what it does, and why.")
    question = (f"--from={STRANGER.address}", f"--to={door.address}:{door.port}")
    screen.command(f"kube-proxy explain --manifests={MANIFESTS} {CIDR_FLAG} {' '.join(question)}")
    screen.show(wrapped(screen, stage.proxy.explain(*question), LABEL))
    verdicts = {client: _verdict(stage, client, door) for client in (CUSTOMER, STRANGER)}
    screen.claim(
        f"explain says {verdicts[CUSTOMER]} for {CUSTOMER.address} and {verdicts[STRANGER]} for "
        f"{STRANGER.address}: what the wire did",
        holds=verdicts == {CUSTOMER: "forward", STRANGER: "drop"},
    )
    screen.pause(2.5)


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
        f"After {QUESTIONS} more questions to {dns.service}; from the set service-connections.",
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
    screen.pause(2.5)


def program(stage: Stage) -> None:
    """No chain and no rule belongs to a service: a thousand more services are data alone."""
    screen, web = stage.screen, stage.cluster.frontend("shop/web")
    screen.act("The rules are a program, the cluster is its data", "From `nft list table`:")
    for kind, name in (("map", "service-ips"), ("map", "service-endpoints"), ("chain", "pick-3")):
        text = ruleset.excerpt(stage.node, kind, name, web.address)
        screen.show(wrapped(screen, text, 8))
    before = ruleset.read(stage.node)
    chains, rules, elements = before.size()
    screen.show(f"{chains} chains, {rules} rules and {elements} elements.")
    screen.pause(2.5)
    documents, frontends = many(MORE_SERVICES, stage.cluster.pods("shop/web"))
    stage.cluster.add("tenants.json", documents)
    took = stage.proxy.wait(lambda: _all_answer(stage, [frontends[0], frontends[-1]]))
    after = ruleset.read(stage.node)
    screen.claim(
        f"{MORE_SERVICES:,} more services, {1000 * took:.0f} ms after their file appeared: "
        f"{after.size()[2]:,} elements, and not one more chain or rule",
        holds=after.rules == before.rules,
        instead=f"{after.size()[0]} chains, {after.size()[1]} rules",
    )
    screen.claim("each of them is answered", holds=_all_answer(stage, frontends))
    screen.pause(1.5)


def _all_answer(stage: Stage, frontends: list[Frontend]) -> bool:
    pods = stage.cluster.pods("shop/web")
    return all(
        pod_of(outcome, pods) is not None
        for each in frontends
        for outcome in stage.traffic.send([SHOPPER], each, 0.05)
    )


def repair(stage: Stage) -> None:
    """Somebody deletes the table: it is written again at once."""
    screen = stage.screen
    screen.act("Somebody deletes the rules", "Pod shopper keeps connecting to shop/web.")
    before = ruleset.read(stage.node)
    command = ["nft", "delete", "table", *ruleset.TABLE]
    screen.command(" ".join(command))
    with stage.node.entered():
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    strayed, outage = _outage(stage, process)
    after = ruleset.read(stage.node)
    screen.claim(
        f"every chain, every rule and all {after.size()[2]:,} elements are back",
        holds=after == before and process.returncode == 0,
        instead=f"{after.size()} chains, rules, elements instead of {before.size()}",
    )
    screen.claim(
        f"connections went astray for {1000 * outage:.0f} ms ({strayed} of them), then no more",
        holds=strayed > 0 and outage < LONG,
        instead="that is too long" if strayed else "the table was never gone",
    )
    screen.pause(1.0)


def _outage(stage: Stage, process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """How many connections went astray while a process did its harm, and for how long."""
    web, pods = stage.cluster.frontend("shop/web"), stage.cluster.pods("shop/web")
    strayed: list[float] = []
    calm = 0

    def is_over() -> bool:
        nonlocal calm
        began = time.monotonic()
        (outcome,) = stage.traffic.send([SHOPPER], web)
        if pod_of(outcome, pods) is None:
            strayed.append(began)
            calm = 0
        else:
            calm += 1
        return process.poll() is not None and calm > CALM

    stage.proxy.wait(is_over)
    return len(strayed), strayed[-1] - strayed[0] if strayed else 0.0
