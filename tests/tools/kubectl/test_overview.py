"""How nodes are, as rows and as lines below them."""

import msgspec
import pytest
from msgspec.structs import replace

from kubeproxy.serve.status.wire import ConntrackState
from kubeproxy.tools.kubectl.overview import (
    ClusterReport,
    Grade,
    Wrong,
    answered,
    ranked,
    screen,
    without_answer,
)
from kubeproxy.tools.kubectl.proxies import Kind, Proxy
from kubeproxy.tools.layout import Display, painted
from tools import reported

OURS = Proxy("kestrel", Kind.OURS, "kube-system", "ours-1", "kube-proxy", "a/kubeproxy:0.1.0")


def shown(found: ClusterReport, width: int | None = None) -> list[str]:
    return [painted(each, Display(width)).rstrip() for each in screen(found, width)]


def test_conntrack_is_shown_where_it_is_known() -> None:
    status = replace(reported.status(), conntrack=ConntrackState(250, 1000))
    found = answered(OURS, msgspec.json.encode(status))
    assert found.conntrack_percent == 25.0
    assert shown(ranked([found]))[3].split()[-4:] == ["25", "%", "3", "0"]
    status = replace(status, conntrack=ConntrackState(0, 0))
    found = answered(OURS, msgspec.json.encode(status))
    assert found.conntrack_percent is None


def test_before_the_first_sync() -> None:
    young = replace(reported.family(), last_sync=None, last_full_sync=None)
    found = answered(OURS, msgspec.json.encode(reported.status(young)))
    assert (found.grade, found.last_sync_seconds) == ("UNWELL", None)


def test_a_warning() -> None:
    twice = replace(reported.family(), conflicts=(reported.TWICE,))
    found = ranked([answered(OURS, msgspec.json.encode(reported.status(twice)))])
    assert (found.nodes[0].grade, found.unwell) == ("WARNED", [])
    assert shown(found)[0] == "kube-proxy is well on 1 node"


def test_what_is_wrong_has_the_same_words_on_every_node() -> None:
    unfit = replace(reported.status(), node_eligible=False)
    other = replace(unfit, node="heron")
    reports = [
        answered(OURS, msgspec.json.encode(unfit)),
        replace(answered(OURS, msgspec.json.encode(other)), node="heron"),
    ]
    lines = shown(ranked(reports))
    assert lines[6:8] == [
        "The Node fails the health check of load balancers",
        "  on 2 nodes: heron, kestrel",
    ]


@pytest.mark.parametrize("data", [b"{}", b"", b"no JSON"])
def test_an_answer_of_another_version(data: bytes) -> None:
    found = answered(OURS, data)
    assert (found.grade, found.version) == ("UNKNOWN", "0.1.0")
    assert found.wrong[0].what.startswith("it is of another version: ")
    assert not found.wrong[0].severe


def test_the_order() -> None:
    reports = [
        replace(without_answer(OURS, grade, "x"), node=name)
        for name, grade in (("b", Grade.WELL), ("a", Grade.WELL), ("c", Grade.DOWN))
    ]
    assert [each.node for each in ranked(reports).nodes] == ["c", "a", "b"]


def test_very_many_cases() -> None:
    cases = tuple((f"shop/s{number}", "refused") for number in range(7))
    report = replace(without_answer(OURS, Grade.UNWELL, ""), wrong=(Wrong("it", cases=cases),))
    lines = shown(ranked([report]))
    assert lines[-2:] == [
        "    shop/s4: refused",
        "    and 2 more (status --node kestrel -o json)",
    ]


def test_in_a_narrow_terminal() -> None:
    found = replace(without_answer(OURS, Grade.SILENT, "no answer " * 12), node="n" * 60)
    assert max(map(len, shown(ranked([found]), 80))) <= 80
