"""What a client gets, reduced to what it can notice; and what it notices when that changes."""

from enum import Enum
from typing import Final

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import join
from kubeproxy.table.decide import Action, Reason, Verdict

Endpoint = tuple[str, int]


class Outcome(msgspec.Struct, frozen=True):
    """A verdict without its reasons. `hidden` are the endpoints that do not see the client.

    `reason` is there to be told, and is not compared.
    """

    action: Action
    endpoints: frozenset[Endpoint] = frozenset()
    hidden: frozenset[Endpoint] = frozenset()
    affinity: int = 0
    healing: Healing = Healing.NONE
    reason: Reason | None = None

    @property
    def served(self) -> bool:
        """Whether the client reaches an endpoint."""
        return bool(self.endpoints)


class Effect(Enum):
    """What a client notices, the most harmful first. The value is its name for programs."""

    REFUSED = "refused"
    DROPPED = "dropped"
    UNSERVED = "unserved"
    FLOWS_CUT = "flows-cut"
    UNHEALTHY = "unhealthy"
    AFFINITY_LOST = "affinity-lost"
    ELSEWHERE = "elsewhere"
    FEWER = "fewer-endpoints"
    HIDDEN = "source-hidden"
    SHOWN = "source-shown"
    AFFINITY_CHANGED = "affinity-changed"
    BLOCKED = "blocked"
    FAILS_OTHERWISE = "fails-otherwise"
    UNBLOCKED = "unblocked"
    BY_OTHER_MEANS = "by-other-means"
    CHOSEN_OTHERWISE = "chosen-otherwise"
    HEALED_OTHERWISE = "healed-otherwise"
    MORE = "more-endpoints"
    SERVED = "served"
    HEALTHY = "healthy"


HARM: Final = {effect: rank for rank, effect in enumerate(Effect)}
HARMFUL: Final = frozenset(list(Effect)[: HARM[Effect.FEWER] + 1])
"""What breaks something for those who use a Service as it is."""

SENTENCES: Final = {
    Effect.REFUSED: "new connections are refused",
    Effect.DROPPED: "new connections get no answer",
    Effect.UNSERVED: "new connections are no longer handled by the proxy",
    Effect.BLOCKED: "packets that the proxy let pass are refused or dropped",
    Effect.FLOWS_CUT: "established UDP flows are cut and have to start again",
    Effect.UNHEALTHY: "load balancers stop sending to this node: no endpoint is on it",
    Effect.AFFINITY_LOST: "clients lose the endpoint that they have (session affinity)",
    Effect.ELSEWHERE: "new connections go to other endpoints",
    Effect.FEWER: "new connections go to fewer endpoints",
    Effect.HIDDEN: "the client's address is hidden from the endpoint",
    Effect.SHOWN: "the client's address is shown to the endpoint",
    Effect.AFFINITY_CHANGED: "session affinity is another",
    Effect.FAILS_OTHERWISE: "connections fail in another way",
    Effect.UNBLOCKED: "packets that were refused are let pass",
    Effect.BY_OTHER_MEANS: "connections take another way to the same endpoints",
    Effect.CHOSEN_OTHERWISE: "endpoints are chosen in another way",
    Effect.HEALED_OTHERWISE: "failing endpoints are treated in another way",
    Effect.MORE: "new connections also go to more endpoints",
    Effect.SERVED: "new connections are served",
    Effect.HEALTHY: "load balancers start sending to this node",
}


def outcome_of(verdict: Verdict) -> Outcome:
    """What the verdict means for the client."""
    choices = verdict.choices
    return Outcome(
        verdict.action,
        frozenset([(each.backend.address, each.backend.port) for each in choices]),
        frozenset(
            [(each.backend.address, each.backend.port) for each in choices if each.masquerade]
        ),
        verdict.affinity_seconds,
        verdict.healing,
        verdict.reason,
    )


def effects(before: Outcome, after: Outcome) -> list[Effect]:
    """What the client notices; nothing when the two are the same to it."""
    if before.served and after.served:
        return [*_endpoints(before, after), *_treatment(before, after)]
    if before.served:
        return [_END[after.action]]
    if after.served:
        return [Effect.SERVED]
    if before.action is after.action:
        return []
    if before.action is Action.PASS:
        return [Effect.BLOCKED]
    return [Effect.UNBLOCKED if after.action is Action.PASS else Effect.FAILS_OTHERWISE]


_END: Final = {
    Action.REJECT: Effect.REFUSED,
    Action.DROP: Effect.DROPPED,
    Action.PASS: Effect.UNSERVED,
}


def _endpoints(before: Outcome, after: Outcome) -> list[Effect]:
    if before.endpoints == after.endpoints:
        return []
    if before.endpoints.isdisjoint(after.endpoints):
        return [Effect.ELSEWHERE]
    return [Effect.MORE if before.endpoints < after.endpoints else Effect.FEWER]


def _treatment(before: Outcome, after: Outcome) -> list[Effect]:
    """What else differs for a client that is served on both sides."""
    found = []
    both = before.endpoints & after.endpoints
    was, is_ = (before.hidden & both, after.hidden & both) if both else _any(before, after)
    if is_ - was:
        found.append(Effect.HIDDEN)
    if was - is_:
        found.append(Effect.SHOWN)
    if before.affinity != after.affinity:
        found.append(Effect.AFFINITY_CHANGED if after.affinity else Effect.AFFINITY_LOST)
    if before.action is not after.action:
        found.append(Effect.BY_OTHER_MEANS)
    if before.healing != after.healing:
        found.append(Effect.HEALED_OTHERWISE)
    return found


def _any(before: Outcome, after: Outcome) -> tuple[frozenset[bool], frozenset[bool]]:
    """Whether any endpoint does not see the client, where the endpoints are all others."""
    one, other = bool(before.hidden), bool(after.hidden)
    return frozenset({True} if one else ()), frozenset({True} if other else ())


_NOT_SERVED: Final = {Action.REJECT: "refused", Action.DROP: "dropped", Action.PASS: "let pass"}


def words(outcome: Outcome) -> str:
    """An outcome in few words."""
    if not outcome.served:
        text = _NOT_SERVED[outcome.action]
        return f"{text} ({outcome.reason.value})" if outcome.reason else text
    count = len(outcome.endpoints)
    text = "1 endpoint" if count == 1 else f"{count} endpoints"
    if outcome.action is Action.LOCAL_PROXY:
        text += " by the proxy's own process"
    if outcome.hidden:
        text += ", client's address hidden" + (
            "" if outcome.hidden == outcome.endpoints else " in part"
        )
    if outcome.affinity:
        text += f", affinity {outcome.affinity} s"
    return text


def names(endpoints: frozenset[Endpoint]) -> tuple[str, ...]:
    """Endpoints in order, as texts."""
    return tuple(join(*each) for each in sorted(endpoints))
