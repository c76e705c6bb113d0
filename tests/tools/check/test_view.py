"""What a check found, as people see it."""

from kubeproxy.dataplane.preflight import NODE, PORTS, Finding, Grade, lacking, ok
from kubeproxy.tools.check.judge import ModeVerdict, Report
from kubeproxy.tools.check.view import screen
from kubeproxy.tools.layout import Display, painted

LONG = "net.netfilter.nf_conntrack_tcp_timeout_established"


def report(*findings: Finding) -> Report:
    verdicts = (
        ModeVerdict("nftables", True, "ready, 1 warning"),
        ModeVerdict("ipvs", False, "not possible: the kernel has no ip_vs"),
    )
    return Report("kestrel", "6.1.0", "root", verdicts, findings)


def shown(report: Report, width: int | None = None, *, colours: bool = False) -> str:
    lines = screen(report, width)
    return "".join(f"{painted(each, Display(width, colours)).rstrip(' ')}\n" for each in lines)


EVERYTHING = report(
    ok(PORTS, "health 0.0.0.0:10256"),
    ok(NODE, "IP families", "IPv4 and IPv6"),
    lacking(NODE, "net.ipv4.ip_forward", "is 0", "sysctl -w it, or not", Grade.WARNING),
    lacking(NODE, "rights", "not seen", "run as root", Grade.UNKNOWN),
    lacking("ipvs", "ip_vs", "the kernel has no ip_vs", "modprobe ip_vs ip_vs_rr on the node"),
)

PLAIN = """\
kestrel, Linux 6.1.0, checked as root
Rules and devices are tried in scratch network namespaces: nothing here is changed.

this node
  ok  IP families          IPv4 and IPv6
  !   net.ipv4.ip_forward  is 0
                           -> sysctl -w it, or not
  --  rights               not seen
                           -> run as root

ipvs mode
  !!  ip_vs  the kernel has no ip_vs
             -> modprobe ip_vs ip_vs_rr on the node

ports
  ok  health 0.0.0.0:10256

nftables: ready, 1 warning
ipvs:     not possible: the kernel has no ip_vs
"""


def test_topics_stand_in_their_order_and_columns_are_aligned() -> None:
    assert shown(EVERYTHING) == PLAIN


def test_on_a_terminal_lines_are_wrapped_and_nothing_is_lost() -> None:
    narrow = shown(EVERYTHING, 45).splitlines()
    assert narrow[5:9] == [
        "this node",
        "  ok  IP families",
        "        IPv4 and IPv6",
        "  !   net.ipv4.ip_forward",
    ]
    assert narrow[16:19] == [
        "  !!  ip_vs  the kernel has no ip_vs",
        "             -> modprobe ip_vs ip_vs_rr on",
        "                the node",
    ]
    assert narrow[-2:] == [
        "ipvs:     not possible: the kernel has no",
        "          ip_vs",
    ]


def test_remedies_can_be_read_on_a_phone() -> None:
    narrow = shown(EVERYTHING, 30).splitlines()
    assert narrow[narrow.index("ipvs mode") + 1 :][:6] == [
        "  !!  ip_vs",
        "        the kernel has no",
        "        ip_vs",
        "        -> modprobe ip_vs",
        "           ip_vs_rr on the",
        "           node",
    ]


def test_a_long_name_has_a_line_of_its_own() -> None:
    finding = lacking(NODE, LONG, "is 1, and should be 2", "set it")
    assert shown(report(finding)).splitlines()[4:7] == [
        f"  !!  {LONG}",
        f"{' ' * 38}is 1, and should be 2",
        f"{' ' * 38}-> set it",
    ]
    assert f"\n  ok  {LONG}\n" in shown(report(ok(NODE, LONG)))


def test_colours_change_nothing_but_colours() -> None:
    coloured = shown(EVERYTHING, 100, colours=True)
    assert "\x1b[1mthis node\x1b[0m" in coloured
    assert "\x1b[31m!!\x1b[0m  ip_vs" in coloured
    for code in ("0", "1", "31", "32", "33", "36"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == PLAIN


def test_what_is_not_known_is_neither_green_nor_red() -> None:
    verdict = ModeVerdict("nftables", False, "not known: no result", known=False)
    finding = lacking("nftables", "rules", "no result", "try again", Grade.UNTRIED)
    lines = shown(Report("kestrel", "6.1.0", "root", (verdict,), (finding,)), 100, colours=True)
    assert "  \x1b[33m??\x1b[0m  rules  no result\n             -> try again\n" in lines
    assert lines.endswith("\x1b[33mnftables:\x1b[0m not known: no result\n")


def test_a_report_of_nothing() -> None:
    assert shown(Report("kestrel", "6.1.0", "root", (), ())).startswith("kestrel, Linux 6.1.0")
