"""`kube-proxy diff` with a daemon and a kernel that are none: what is said, and the exit codes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.daemon import FakeDaemon, Page, Query, Reply, always, serving
from kubeproxy.app import cli
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.engine.observer import SyncStarted
from kubeproxy.serve.status.tablewire import Desired, read_table, table_pieces
from kubeproxy.serve.status.wire import NotProgrammed
from kubeproxy.tools.diff import command as diff
from kubeproxy.tools.diff.command import Seen, lasting
from kubeproxy.tools.diff.view import FamilyDiff, lines
from kubeproxy.tools.layout import Display, painted
from serve.status.living import Rig
from tools import reported
from world import endpoint_slice, service

ADD = Difference(
    Change.ADD, "element ip kube-proxy cluster-ips-in-use { 10.112.0.21 }", "shop/cart"
)
GONE = Difference(Change.REMOVE, "chain ip kube-proxy guest")
TABLE = Difference(Change.REPLACE, "table ip kube-proxy", reason="it is switched off")
REFUSED = NotProgrammed("shop/till:http", "TCP", "the kernel has no SCTP")


def rig(refuse: frozenset[str] = frozenset()) -> Rig:
    """A daemon that has programmed a service."""

    async def made() -> Rig:
        found = Rig(service(), endpoint_slice("L1 R1"))
        found.kernels[Family.IPV4].refuse = {*refuse}
        await found.sync()
        return found

    return asyncio.run(made())


def table_text(found: Rig, family: Family) -> str:
    return b"".join(table_pieces(found.live.state(), family)).decode()


def tables(found: Rig) -> Page:
    def page(query: Query) -> Reply:
        return 200, table_text(found, Family(query["family"][0]))

    return page


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    pages = {"/status": always(reported.status()), "/status/table": tables(rig())}
    with serving(FakeDaemon(pages), tmp_path / "socket") as serving_:
        yield serving_


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "MOMENT", 0.0)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> dict[Family, list[Difference]]:
    """How far the kernel is from what the daemon means, by family."""
    found: dict[Family, list[Difference]] = {}
    monkeypatch.setattr(diff, "drift", lambda desired: found.get(desired.table.family, []))
    return found


Kernel = dict[Family, list[Difference]]
Output = pytest.CaptureFixture[str]


def run(daemon: FakeDaemon, *arguments: str) -> int:
    return cli.main(["diff", f"--socket={daemon.socket}", *arguments])


# --- what is said -----------------------------------------------------------------------------


@pytest.mark.usefixtures("kernel")
def test_nothing_when_all_is_equal(daemon: FakeDaemon, capsys: Output) -> None:
    assert run(daemon) == 0
    assert capsys.readouterr() == ("", "")
    assert [query["family"] for query in daemon.queries("/status/table")] == [["IPv4"], ["IPv6"]]


def test_differences_by_family_and_service(
    daemon: FakeDaemon, kernel: Kernel, capsys: Output
) -> None:
    kernel[Family.IPV4] = [TABLE, ADD, GONE]
    kernel[Family.IPV6] = [GONE]
    assert run(daemon) == 1
    assert capsys.readouterr().out == (
        "--- kernel (IPv4, nftables)\n"
        "+++ desired\n"
        "@@ of no service port @@\n"
        "! table ip kube-proxy  # it is switched off\n"
        "- chain ip kube-proxy guest\n"
        "@@ shop/cart @@\n"
        "+ element ip kube-proxy cluster-ips-in-use { 10.112.0.21 }\n"
        "--- kernel (IPv6, nftables)\n"
        "+++ desired\n"
        "@@ of no service port @@\n"
        "- chain ip kube-proxy guest\n"
    )


@pytest.mark.usefixtures("kernel")
def test_what_the_daemon_could_not_program_is_said_as_such(
    daemon: FakeDaemon, capsys: Output
) -> None:
    daemon.pages["/status/table"] = tables(rig(refuse=frozenset({"cart"})))
    assert run(daemon) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "@@ shop/cart:http @@",
        "! not programmed: the kernel does not want it",
    ]


def test_json_for_programs(daemon: FakeDaemon, kernel: Kernel, capsys: Output) -> None:
    kernel[Family.IPV4] = [ADD]
    assert run(daemon, "-o=json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "families": [
            {
                "ipFamily": "IPv4",
                "mode": "nftables",
                "equal": False,
                "differences": [
                    {
                        "change": "add",
                        "object": ADD.object,
                        "servicePort": "shop/cart",
                        "reason": "",
                    }
                ],
                "notProgrammed": [],
            },
            {
                "ipFamily": "IPv6",
                "mode": "nftables",
                "equal": True,
                "differences": [],
                "notProgrammed": [],
            },
        ]
    }


def test_one_family_only(daemon: FakeDaemon, kernel: Kernel, capsys: Output) -> None:
    kernel[Family.IPV4] = [GONE]
    assert run(daemon, "--family=ipv6") == 0
    assert run(daemon, "--family=IPv4") == 1
    assert capsys.readouterr().out.count("---") == 1


def test_the_usage_has_the_exit_codes(capsys: Output) -> None:
    assert cli.main(["diff", "--help"]) == 0
    assert "3 when\nno proxy answers" in capsys.readouterr().out


# --- lines ------------------------------------------------------------------------------------


def shown(limit: int, *families: FamilyDiff, colours: bool = False) -> list[str]:
    return [painted(line, Display(colours=colours)) for line in lines(families, limit)]


def of(family: str, *found: Difference, failed: tuple[NotProgrammed, ...] = ()) -> FamilyDiff:
    return FamilyDiff(family, "nftables", not found and not failed, found, failed)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(0, "! - + ! -", id="all"),
        pytest.param(5, "! - + ! -", id="as-many-as-there-are"),
        pytest.param(4, "! - + ! ... 1 more: --limit 0 shows all", id="one-less"),
        pytest.param(1, "! ... 4 more: --limit 0 shows all", id="one"),
    ],
)
def test_a_limit(limit: int, expected: str) -> None:
    two = of("IPv4", TABLE, GONE, ADD, failed=(REFUSED,)), of("IPv6", GONE)
    *found, last = (line for line in shown(limit, *two) if line[:3] not in {"---", "+++", "@@ "})
    signs = [line[0] for line in found]
    assert " ".join([*signs, last if last[0] == "." else last[0]]) == expected


def test_colours() -> None:
    found = shown(0, of("IPv4", TABLE, ADD, GONE), colours=True)
    codes = [line[2 : line.index("m")] for line in found]
    assert codes == ["1", "1", "36", "33", "31", "36", "32"]


def test_names_do_nothing_to_a_terminal() -> None:
    wild = replace(ADD, object="element \x1b[2J", service_port="a\x07")
    assert not [line for line in shown(0, of("IPv4", wild)) if not line.isprintable()]


# --- two looks --------------------------------------------------------------------------------


def looks(*answers: tuple[bool, list[Difference]]) -> tuple[Callable[[Family], Seen], list[int]]:
    """One look after the other: whether a sync is under way, and what differs."""
    desired = read_table(table_text(rig(), Family.IPV4).encode())
    waiting, count = list(answers), [0]

    def look(_: Family) -> Seen:
        count[0] += 1
        syncing, found = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return Seen(replace(desired, syncing=syncing), found)

    return look, count


@pytest.mark.parametrize(
    ("answers", "expected", "count"),
    [
        pytest.param([(False, [])], [], 1, id="equal-at-once"),
        pytest.param([(False, [ADD]), (False, [])], [], 2, id="a-sync-came-between"),
        pytest.param([(False, [ADD]), (False, [GONE])], [], 2, id="another-sync-came-between"),
        pytest.param([(False, [ADD, GONE]), (False, [GONE, ADD])], [ADD, GONE], 2, id="lasting"),
        pytest.param([(False, [ADD, GONE]), (False, [GONE])], [GONE], 2, id="partly-lasting"),
        pytest.param(
            [(True, [ADD]), (True, [ADD]), (False, [])], [], 3, id="a-sync-that-takes-its-time"
        ),
        pytest.param([(True, [ADD])], [ADD], 10, id="a-sync-that-does-not-end"),
    ],
)
def test_what_looks_agree_on(
    answers: list[tuple[bool, list[Difference]]], expected: list[Difference], count: int
) -> None:
    look, looked = looks(*answers)
    waited: list[float] = []
    seen = lasting(look, [Family.IPV4], waited.append)
    assert (seen[Family.IPV4].differences, looked[0]) == (expected, count)
    assert len(waited) == count - 1


def test_looks_with_a_sync_between_them_do_not_count() -> None:
    """A cluster that alternates between two states shows the same difference in two looks."""
    desired = read_table(table_text(rig(), Family.IPV4).encode())
    answers = iter([(1, [ADD]), (2, [ADD]), (2, [])])

    def look(_: Family) -> Seen:
        syncs, found = next(answers)
        return Seen(replace(desired, syncs=syncs), found)

    assert lasting(look, [Family.IPV4], lambda _: None)[Family.IPV4].differences == []


def test_a_sync_under_way_is_noted(daemon: FakeDaemon, kernel: Kernel, capsys: Output) -> None:
    busy = rig()
    busy.history.observe(SyncStarted(Family.IPV4))
    daemon.pages["/status/table"] = tables(busy)
    kernel[Family.IPV4] = [ADD]
    assert run(daemon) == 1
    assert "note: IPv4: a sync is under way" in capsys.readouterr().err


# --- what goes wrong --------------------------------------------------------------------------


def test_no_daemon(tmp_path: Path, capsys: Output) -> None:
    assert cli.main(["diff", f"--socket={tmp_path}/none"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "no kube-proxy answers here" in err
    assert "--socket" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["--family=IPv5"], "--family IPv5: the proxy serves IPv4 or IPv6", id="family"
        ),
        pytest.param(["--limit=-1"], "--limit -1: must not be negative", id="limit"),
        pytest.param(["-o=yaml"], "--output yaml: must be text or json", id="output"),
        pytest.param(["--lmit=1"], "did you mean --limit?", id="flag"),
        pytest.param(["now"], 'does not take any arguments, got ["now"]', id="argument"),
    ],
)
def test_mistakes_are_trouble(
    daemon: FakeDaemon, capsys: Output, arguments: list[str], message: str
) -> None:
    assert run(daemon, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_kernel_that_cannot_be_read_is_trouble(
    daemon: FakeDaemon, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Desired) -> list[Difference]:
        raise KernelError("cannot read: the process needs CAP_NET_ADMIN")

    monkeypatch.setattr(diff, "drift", refuse)
    assert run(daemon) == 2
    assert capsys.readouterr().err == ("Error: cannot read: the process needs CAP_NET_ADMIN\n")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        pytest.param((503, "nothing is programmed yet\n"), "nothing is programmed", id="not-yet"),
        pytest.param((200, "{}\n"), "may be of another version", id="of-another-version"),
    ],
)
def test_a_daemon_without_a_table_is_trouble(
    daemon: FakeDaemon, capsys: Output, reply: Reply, message: str
) -> None:
    daemon.pages["/status/table"] = always(reply)
    assert run(daemon) == 2
    assert message in capsys.readouterr().err
