"""The status page in a real browser, against a real daemon: what people see, and that it is safe.

With KUBEPROXY_SCREENSHOTS=DIRECTORY, the pictures of docs/status.md are taken there: `make
screenshots`.
"""

import json
import math
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubeproxy.base.inet import Protocol
from lab.browser import Browser, element
from lab.calls import Calls
from lab.deploy import ETP_LOCAL, RANGES, Address, Port, deploy, everywhere
from lab.documents import dual_stack
from lab.modes import only
from lab.network import Network
from lab.outcome import Probe
from lab.page import METRICS, ask
from lab.plan import HOSTS, cluster_ip, vip
from lab.stage import Lab
from world import Document

pytestmark = only("nftables", reason="the tools and pages are the same in every mode")

ROOT = Path(__file__).parents[2]
KUBE_PROXY = str(Path(sys.executable).with_name("kube-proxy"))
DAEMON = f"http://127.0.0.1:{METRICS}"
HOME = f"{DAEMON}/status"
KINDS = ("Service", "EndpointSlice")
PICTURES = os.environ.get("KUBEPROXY_SCREENSHOTS", "")


def shop() -> list[Document]:
    """The Services of the examples, in both families."""
    documents: list[Document] = []
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        text = path.read_text()
        found = [each for each in yaml.safe_load_all(text) if each["kind"] in KINDS]
        documents += found if "IPv6" in text else dual_stack(found)
    return documents


@pytest.fixture(scope="module")
def chromium(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(network.node, tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.fixture
def browser(chromium: Browser, lab: Lab) -> Browser:
    """A window of a desk, which has seen nothing yet, and a daemon that serves the shop."""
    lab.run()
    lab.put(*shop())
    chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    resize(chromium, 1280)
    chromium.open("about:blank")
    chromium.requests.clear()
    chromium.complaints.clear()
    return chromium


def resize(browser: Browser, width: int, *, dark: bool = False) -> None:
    phone = width < 600
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=2 if phone else 1,
        mobile=phone,
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])


def rows(browser: Browser) -> list[str]:
    """The names in the table of services."""
    found = browser.evaluate(
        "[...document.querySelectorAll('#found .service')].map(e => e.innerText)"
    )
    assert isinstance(found, list)
    return found


def explained(lab: Lab, *arguments: str) -> str:
    """What the command prints."""
    return lab.network.node.run([KUBE_PROXY, "explain", *arguments])


def assert_nothing_else_happened(browser: Browser) -> None:
    """The page sent requests to the daemon only, and neither it nor the browser complained."""
    elsewhere = [url for url in browser.requests if not url.startswith((DAEMON, "data:"))]
    assert elsewhere == []
    assert browser.complaints == []


def test_the_page_shows_the_daemon_and_loads_nothing_else(browser: Browser) -> None:
    browser.open(HOME)
    assert browser.evaluate("document.title") == "kube-proxy on kestrel"
    state = browser.text("#state")
    assert "healthy" in state
    assert "nftables mode" in state
    families = browser.evaluate(
        "[...document.querySelectorAll('#state h2')].map(e => e.innerText)"
    )
    assert families == ["IPv4 programmed", "IPv6 programmed", "Connections"]
    assert "shop/web" in rows(browser)
    assert "no endpoint can serve" in browser.text("#found")
    assert "what changed" in browser.text("#syncs")
    # Long enough for the script to ask for rates, state and table.
    browser.wait("document.querySelectorAll('[data-chart] polyline').length === 1")
    assert_nothing_else_happened(browser)


def test_a_service_that_was_just_added_appears_by_itself(browser: Browser, lab: Lab) -> None:
    browser.open(HOME)
    assert "mall/novel" not in rows(browser)
    browser.evaluate("window.before = true")
    lab.put(*shop(), *deploy("novel", Address(61), "L1 R1"))
    browser.wait("document.querySelector('#found').innerText.includes('mall/novel')")
    assert browser.evaluate("window.before"), "the page was loaded again"
    assert_nothing_else_happened(browser)


def test_connections_are_drawn_while_they_are_made(browser: Browser, lab: Lab) -> None:
    browser.open(HOME)
    with Calls(lab.network, "P", [(cluster_ip(20), 80)]):
        browser.wait(
            "parseFloat(document.querySelector('[data-rate=\"shop/web\"]').innerText) >= 1"
        )
    points = browser.evaluate(
        "document.querySelector('[data-spark=\"shop/web\"] polyline').getAttribute('points')"
    )
    assert isinstance(points, str)
    heights = {point.split(",")[1] for point in points.split()}
    assert "2.0" in heights, f"no look was the busiest: {points}"


def test_searching_while_typing(browser: Browser) -> None:
    browser.open(HOME)
    browser.press("/")
    assert browser.evaluate("document.activeElement.id") == "q"
    browser.call("Input.insertText", text="dns")
    browser.wait("document.querySelectorAll('#found .service').length === 1")
    assert rows(browser) == ["kube-system/kube-dns"]
    assert browser.evaluate("location.search") == "?q=dns&sort=name"
    browser.fill("#q", "10.112.0.23")
    browser.wait("document.querySelector('#found').innerText.includes('shop/reports')")
    browser.fill("#q", "not-a-service")
    browser.wait("document.querySelector('#found').innerText.startsWith('0 of')")
    assert_nothing_else_happened(browser)


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        pytest.param("outside", "shop/web", id="a-service-from-outside"),
        pytest.param("10.64.3.50", "10.112.0.20:80", id="a-cluster-ip-from-a-pod"),
        pytest.param("192.0.2.50", "203.0.113.20:443", id="an-endpoint-is-left-out"),
        pytest.param("192.0.2.200", "203.0.113.20:443", id="source-ranges-drop"),
        pytest.param("host", "shop/reports", id="no-endpoint"),
    ],
)
def test_the_form_answers_as_the_command_does(
    browser: Browser, lab: Lab, source: str, destination: str
) -> None:
    arguments = (f"--from={source}", f"--to={destination}")
    browser.open(HOME)
    browser.fill("#from", source)
    browser.fill("#to", destination)
    browser.press("Enter")
    browser.wait("document.querySelector('#answer pre') !== null")
    assert browser.content("#answer pre") + "\n" == explained(lab, *arguments)
    drawn = browser.content("#answer")
    _, body = ask(lab.network.node, f"/status/explain?from={source}&to={destination}")
    for answer in json.loads(body):
        words = [
            answer[name] for name in ("client", "verdict", "summary", "sourceAddress", "replies")
        ]
        places = [each["endpoint"] for each in (*answer["endpoints"], *answer["notChosen"])]
        reasons = [each["reason"] for each in answer["notChosen"]]
        assert [each for each in (*words, *places, *reasons) if each not in drawn] == []
    assert_nothing_else_happened(browser)


def test_programs_get_from_the_daemon_what_the_command_prints(lab: Lab) -> None:
    lab.run()
    lab.put(*shop())
    _, body = ask(lab.network.node, "/status/explain?from=outside&to=shop/web")
    printed = explained(lab, "--from=outside", "--to=shop/web", "--output=json")
    assert json.loads(printed) == json.loads(body)


def test_a_question_that_makes_no_sense_is_an_error(browser: Browser) -> None:
    browser.open(f"{HOME}?from=outside&to=shop/missing")
    assert "to shop/missing:" in browser.text("#answer")
    assert_nothing_else_happened(browser)


HOSTILE = ("<script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)//")


def hostile() -> list[Document]:
    """Services, ports and nodes with names that an API server would not let pass."""
    documents = []
    for number, name in enumerate(HOSTILE[:2]):
        service, *slices = deploy(name, Address(71 + number), "L1 R1", [Port(80, 8080)])
        text = json.dumps([service, *slices])
        text = text.replace('"tcp-80"', json.dumps(HOSTILE[2]))
        documents += json.loads(text.replace('"heron"', json.dumps(HOSTILE[1])))
    return documents


def test_hostile_names_are_text(browser: Browser, lab: Lab) -> None:
    lab.put(*shop(), *hostile())
    browser.open(HOME)
    names = [f"mall/{name}" for name in HOSTILE[:2]]
    assert set(names) <= set(rows(browser))
    for name in names:
        browser.fill("#q", name)
        browser.wait("document.querySelectorAll('#found .service').length === 1")
        assert rows(browser) == [name]
        assert name in browser.text("#found p")
        browser.fill("#from", "outside")
        browser.fill("#to", name)
        browser.press("Enter")
        browser.wait("document.querySelector('#answer pre') !== null")
        assert name in browser.text("#answer")
        assert HOSTILE[1] in browser.text("#answer")
        browser.evaluate(f"{element('#found .service')}.click()")
        browser.wait("document.querySelector('#service') !== null")
        assert name.removeprefix("mall/") in browser.text("#about h2")
        assert HOSTILE[2] in browser.text("#service")
        browser.open(
            f"{HOME}?q={'%22%3E%3Cscript%3Ealert(1)%3C/script%3E'}&from=%3Cb%3E&to=%3Cb%3E"
        )
        assert (
            browser.evaluate("document.querySelector('main b:empty, main img, main script')")
            is None
        )
    assert_nothing_else_happened(browser)


def test_pages_of_other_sites_may_lead_here_and_get_nothing(browser: Browser) -> None:
    browser.open(f"http://localhost:{METRICS}/configz")  # another site than 127.0.0.1
    asks = f"fetch('{HOME}/rates', {{mode: 'no-cors'}})"
    browser.evaluate(f"void {asks}.then(() => {{ document.title = 'asked'; }})")
    browser.wait("document.title === 'asked'")
    assert [each for each in browser.complaints if "403 (Forbidden)" in each] != []
    browser.evaluate(f"location = {json.dumps(HOME)}")
    browser.wait("document.title === 'kube-proxy on kestrel'")


def test_everything_is_there_without_a_script(browser: Browser, lab: Lab) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(HOME)
    assert "programmed" in browser.text("#state")
    assert "shop/web" in rows(browser)
    browser.fill("#q", "storefront")
    browser.submit("#q")
    assert rows(browser) == ["shop/storefront"]
    assert browser.evaluate("location.search") == "?q=storefront&sort=name"
    browser.fill("#from", "192.0.2.50")
    browser.fill("#to", "203.0.113.20:443")
    browser.submit("#to")
    said = explained(lab, "--from=192.0.2.50", "--to=203.0.113.20:443")
    assert browser.content("#answer pre") + "\n" == said
    browser.open(f"{HOME}?sort=connections")
    assert browser.evaluate("document.querySelector('th[aria-sort]').innerText") == "Connections"
    browser.open(f"{HOME}/services/shop/storefront")
    assert "it is on node heron, and the traffic policy is Local" in browser.text("#service")
    assert_nothing_else_happened(browser)


MANY = 230


def unserved(number: int) -> Document:
    """One of many Services that have no endpoints."""
    address = f"10.112.1.{number}"
    spec = {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]}
    metadata = {"namespace": "outlet", "name": f"store-{number:03d}"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def test_further_services_are_on_further_pages(browser: Browser, lab: Lab) -> None:
    many = list(map(unserved, range(1, MANY + 1)))
    lab.put(*shop(), *many)
    every = MANY + 6  # the shop has five, and the lab one by which it sees that it is programmed
    browser.open(HOME)
    assert f"1\u2013200 of {every}" in browser.text("#found")
    browser.evaluate("document.querySelector('a[rel=next]').click()")
    browser.wait(f"document.querySelector('#found').innerText.includes('201\u2013{every}')")
    assert "shop/web" in rows(browser)
    lab.put(*shop(), *many[1:])
    browser.wait(f"document.querySelector('#found').innerText.includes('201\u2013{every - 1}')")
    browser.evaluate("document.querySelector('[name=problems]').click()")
    browser.wait("document.querySelector('#found').innerText.includes('have problems')")
    assert f"1\u2013200 of {MANY + 1}" in browser.text("#found")
    assert "shop/web" not in rows(browser)
    assert browser.evaluate("location.search") == "?q=&sort=name&problems=true"
    assert_nothing_else_happened(browser)


ONE_LINE = 30
BROKEN = f"""[...document.querySelectorAll('td.address div')]
    .filter(e => e.offsetHeight > {ONE_LINE}).map(e => e.innerText)"""


@pytest.mark.parametrize("width", [360, 800, 900], ids=["phone", "tablet", "small-window"])
@pytest.mark.parametrize("path", ["", "?from=outside&to=shop/storefront", "/services/shop/web"])
def test_narrow_windows_show_it_without_scrolling_sideways(
    browser: Browser, lab: Lab, path: str, width: int
) -> None:
    lab.put(*shop(), *deploy("a" * 63, Address(61), "L1 R1"))
    resize(browser, width)
    browser.open(HOME + path)
    shown = browser.evaluate("[innerWidth, document.documentElement.scrollWidth]")
    assert shown == [width, width]
    assert browser.evaluate(BROKEN) == [], "a long name leaves no room for addresses"
    assert_nothing_else_happened(browser)


def test_a_service_that_is_deleted_while_shown_is_reported(browser: Browser, lab: Lab) -> None:
    lab.put(*shop(), *deploy("novel", Address(61), "L1 R1"))
    browser.open(f"{HOME}/services/mall/novel")
    assert "10.112.0.61:80" in browser.text("#service")
    lab.put(*shop())
    browser.wait("document.body.innerText.includes('no service ports for mall/novel')")


HIDDEN = """
let hidden = true;
Object.defineProperty(document, "hidden", { get: () => hidden });
window.show = () => { hidden = false; document.dispatchEvent(new Event("visibilitychange")); };
"""


def test_a_hidden_tab_sends_no_requests(browser: Browser) -> None:
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=HIDDEN)
    try:
        browser.open(HOME)
        # A script that asks does so before the page counts as loaded.
        assert browser.requests == [HOME]
        browser.evaluate("show()")
        browser.wait("document.querySelectorAll('[data-chart] polyline').length === 1")
        assert f"{HOME}/rates" in browser.requests
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", **added)


def test_a_daemon_that_ends_is_noticed(browser: Browser, lab: Lab) -> None:
    browser.open(HOME)
    browser.wait("document.querySelector('.silent').hidden")
    lab.stop()
    browser.wait("!document.querySelector('.silent').hidden")
    assert "has not answered since" in browser.text(".silent")
    lab.run(documents=shop())
    browser.wait("document.querySelector('.silent').hidden")


# --- the pictures of the documents ------------------------------------------------------------

LOOKS = (34, 20) if PICTURES else (2, 2)
"""Points of the charts on the first page, and on that of a Service."""
LARGEST = 200_000
ROLLING = ("L1 L2 R1", "L1 L2 R1 R2:unready", "L1 L2 R1 R2", "L1:draining L2 R1 R2")
"""The endpoints of a service that is being replaced."""


def mall(step: int = 3) -> list[Document]:
    """More Services for the pictures, of which one is at some step of a rolling update."""
    ports = [Port(node_port=31080)]
    media = {**ETP_LOCAL, **RANGES, "healthCheckNodePort": 31999}
    return [
        *deploy("checkout", everywhere(41), ROLLING[step % len(ROLLING)], ports),
        *deploy("search", Address(42), "L1 R1 R2"),
        *deploy("ledger", Address(43), "L2 R1:draining"),
        *deploy("media", everywhere(44), "L1 L3 L2:draining R2", [Port(node_port=31082)], media),
    ]


def rival() -> list[Document]:
    """A Service that claims a node port that another has."""
    return deploy("pop-up", Address(45), "L1", [Port(node_port=31082)])


def trade(browser: Browser, lab: Lab, looks: int) -> None:
    """Clients of several services, more and fewer of them, until charts have so many points."""
    pod, outside = HOSTS["P"].ipv4, HOSTS["X"].ipv4
    trips = (
        Probe("P", pod, cluster_ip(20), 80, Protocol.TCP),
        Probe("P", pod, cluster_ip(41), 80, Protocol.TCP),
        Probe("P", pod, cluster_ip(42), 80, Protocol.TCP),
        Probe("X", outside, vip(44), 80, Protocol.TCP),
        Probe("X", outside, vip(41), 80, Protocol.TCP),
    )
    chance = random.Random(5)
    drawn = seen = 0
    while drawn < looks:
        busy = [math.sin(drawn / (2 + n) + n) + 1.3 for n in range(len(trips))]
        lab.dialer.dial(chance.choices(trips, busy, k=int(4 + 8 * busy[0])))
        line = "document.querySelector('[data-chart] polyline, [data-spark] polyline')"
        drawn = int(str(browser.evaluate(f"{line}?.points.length ?? 0")))
        if drawn > seen:
            seen = drawn
            lab.put(*shop(), *mall(seen))


def test_the_pictures_of_the_documents(browser: Browser, lab: Lab, tmp_path: Path) -> None:
    directory = Path(PICTURES) if PICTURES else tmp_path
    lab.run("--nftables-endpoint-counters", documents=[*shop(), *mall()])
    browser.open(f"{HOME}?sort=rate")
    trade(browser, lab, LOOKS[0])
    browser.wait("document.querySelector('#found').innerText.includes('shop/web')")
    browser.picture(directory / "status.png", 1010)
    browser.open(f"{HOME}/services/mall/media")
    trade(browser, lab, LOOKS[1])
    browser.picture(directory / "status-service.png", 990)
    lab.put(*shop(), *mall())
    browser.open(f"{HOME}?from={HOSTS['L2'].ipv4}&to={cluster_ip(41)}:80")
    browser.evaluate(f"{element('#explain')}.scrollIntoView({{behavior: 'instant'}})")
    browser.picture(directory / "status-explain.png", 570)
    lab.put(*shop(), *mall(), *rival())
    resize(browser, 360, dark=True)
    browser.open(HOME)
    browser.picture(directory / "status-phone.png", 720)
    sizes = {path.name: path.stat().st_size for path in directory.glob("status*.png")}
    assert len(sizes) == 4
    assert max(sizes.values()) < LARGEST, sizes
    assert_nothing_else_happened(browser)
