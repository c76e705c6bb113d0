"""The first page, and the parts of it that the script asks for again."""

from collections.abc import Iterator

import msgspec

from kubeproxy.serve.status.web.asking import Asking, explain
from kubeproxy.serve.status.web.document import document, footer, heading
from kubeproxy.serve.status.web.markup import Markup, element
from kubeproxy.serve.status.web.overview import state
from kubeproxy.serve.status.web.servicetable import services
from kubeproxy.serve.status.web.synctable import syncs
from kubeproxy.serve.status.wire import Rates, ServiceList, Status


class Home(msgspec.Struct, frozen=True):
    """What the first page shows; `words` were searched for, and `sort` is how."""

    status: Status
    rates: Rates
    found: ServiceList
    words: str
    sort: str
    asking: Asking


def home(shown: Home) -> Iterator[Markup]:
    """What is wrong and how the families are, a question, the services, the syncs."""

    def main() -> Iterator[Markup]:
        yield from state(shown.status, shown.rates)
        yield from explain(shown.asking)
        yield from services(shown.found, shown.words, shown.sort)
        yield from syncs(shown.status)

    status = shown.status
    return document(f"kube-proxy on {status.node}", heading(status.node), main(), footer(status))


def state_parts(status: Status, rates: Rates) -> Iterator[Markup]:
    """What changes while one looks, beside the services."""
    yield from state(status, rates)
    yield from syncs(status)


def not_found(node: str, said: str) -> Iterator[Markup]:
    """A page for what is not there: `said` has a reason a line."""

    def main() -> Iterator[Markup]:
        lines = (element("p", line) for line in said.strip().split("\n"))
        yield element("section", element("div", *lines, class_="box warn"))

    return document(f"not found on {node}", heading(node), main())
