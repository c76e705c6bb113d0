"""A plan as lines: grouped, cut to a number of names, within the width of a terminal."""

import pytest

from kubeproxy.plan.outcome import SENTENCES, Effect
from kubeproxy.plan.wire import Change, ForeignRule, Habit, Notice, Plan, ServicePlan
from kubeproxy.tools.layout import Display, painted
from kubeproxy.tools.plan.view import lines

REFUSED = Notice(
    Effect.REFUSED,
    "cluster IP",
    tuple(f"10.112.0.{number}:80/TCP" for number in range(5)),
    ("pods", "outside"),
    before="2 endpoints",
    after="refused",
)
MORE = Notice(Effect.MORE, "cluster IP", ("10.112.0.1:80/TCP",), ("pods",), gained=("a", "b", "c"))


def plan(*services: ServicePlan, **parts: object) -> Plan:
    return Plan("kestrel", "nftables", "nftables", services, of_services=9, **parts)  # type: ignore[arg-type]  # parts of a plan


def shown(found: Plan, width: int | None = None, limit: int = 2) -> list[str]:
    return [painted(each, Display(width)) for each in lines(found, width, limit)]


def carts(number: int, *notices: Notice) -> list[ServicePlan]:
    return [ServicePlan("shop", f"cart-{n}", Change.SAME, notices) for n in range(number)]


def test_lists_end_after_some_names() -> None:
    one = ServicePlan("shop", "cart", Change.CHANGED, (REFUSED, MORE), objects=1)
    assert shown(plan(one))[2:-2] == [
        "shop/cart  changed, 1 object written",
        "  ! new connections are refused",
        "    2 endpoints -> refused",
        "      cluster IP 10.112.0.0:80/TCP, 10.112.0.1:80/TCP and 3 more, for pods, outside",
        "  * new connections also go to more endpoints",
        "      cluster IP 10.112.0.1:80/TCP, for pods",
        "      new: a, b and 1 more",
    ]
    assert "10.112.0.4:80/TCP" in " ".join(shown(plan(one), limit=0))


def test_what_many_services_have_in_common_is_told_once() -> None:
    out = shown(plan(*carts(4, REFUSED, MORE)))
    assert out[2] == "4 Services: new connections are refused"
    assert "    at the cluster IP, for pods, outside" in out
    assert "    such as 10.112.0.0:80/TCP; of shop/cart-0, shop/cart-1 and 2 more" in out
    assert "shop/cart-0" not in out
    apart = shown(plan(*carts(3, REFUSED)))
    assert "shop/cart-0" in apart


def test_what_else_there_is_to_say() -> None:
    one = ServicePlan(
        "shop",
        "cart",
        Change.SAME,
        conflicts=("it is taken",),
        left_out="too many ports",
        policies=("balance: a -> b",),
    )
    out = shown(
        plan(
            one,
            addresses=(REFUSED,),
            settings=(Habit("mode", "a", "b"),),
            habits=(Habit("choice", "c", "d"),),
            foreign_rules=(ForeignRule("-A FORWARD", "it goes"),),
            remarks=("something",),
        )
    )
    assert "  conflict: it is taken" in out
    assert "  not served: too many ports" in out
    assert "  ~ balance: a -> b" in out
    assert "Addresses of Services, besides their ports" in out
    assert "  ! -A FORWARD" in out
    assert "  choice: c -> d" in out
    assert "  mode: a -> b" in out
    assert "  something" in out


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    one = ServicePlan("shop", "cart", Change.CHANGED, (REFUSED,), frontends_added=("x",) * 30)
    found = plan(one, *carts(5, MORE), remarks=("a long remark " * 20,))
    assert max(map(len, shown(found, width, limit=0))) <= width


def test_the_summary_counts() -> None:
    calm = ServicePlan("shop", "calm", Change.SAME, (MORE,))
    assert shown(plan(ServicePlan("shop", "cart", Change.SAME, (REFUSED,)), calm))[-1] == (
        "1 Service would break something for clients; 1 would change for them; 7 of 9 would stay"
        " as they are. 0 objects would be written to the kernel."
    )
    last = Plan("kestrel", "a", "b", (calm,), of_services=2)
    assert "1 of 2 would stay as it is" in shown(last)[-1]
    assert shown(last)[0] == "Plan for node kestrel: from a to b mode (nothing is written)"


def test_all_clients() -> None:
    notice = Notice(Effect.FLOWS_CUT, "flows", ("a",), ("all",), lost=("b",))
    out = shown(plan(ServicePlan("shop", "cart", Change.SAME, (notice,))))
    assert "      flows a, for all clients" in out
    assert "      no longer: b" in out


def test_every_effect_has_a_sentence() -> None:
    assert SENTENCES.keys() == set(Effect)
