"""The differences of a family, for programs and as lines like those of `diff -u`."""

from collections.abc import Iterator
from typing import Final

import msgspec

from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.serve.status.wire import NotProgrammed
from kubeproxy.tools.layout import Line, Span, Style, line

_SIGN: Final = {Change.ADD: "+", Change.REMOVE: "-", Change.REPLACE: "!"}
_STYLE: Final = {"+": Style.GREEN, "-": Style.RED, "!": Style.YELLOW}


class FamilyDiff(msgspec.Struct, frozen=True, rename="camel"):
    """One IP family. `not_programmed` is what the daemon itself knows to be missing."""

    ip_family: str
    mode: str
    equal: bool
    differences: tuple[Difference, ...] = ()
    not_programmed: tuple[NotProgrammed, ...] = ()

    @property
    def size(self) -> int:
        """How many lines there are to show, but for headings."""
        return len(self.differences) + len(self.not_programmed)


class Diff(msgspec.Struct, frozen=True):
    """All families that were looked at."""

    families: tuple[FamilyDiff, ...]


def lines(families: tuple[FamilyDiff, ...], limit: int) -> Iterator[Line]:
    """The differences by family and service port; so many of them at most, 0 is all."""
    size = sum(family.size for family in families)
    room = limit or size
    for family in families:
        if family.size and room > 0:
            yield line(Span(f"--- kernel ({family.ip_family}, {family.mode})", Style.BOLD))
            yield line(Span("+++ desired", Style.BOLD))
            yield from _groups(family, room)
        room -= family.size
    if room < 0:
        yield line(f"... {-room} more: --limit 0 shows all")


def _groups(family: FamilyDiff, limit: int) -> Iterator[Line]:
    """The lines of a family under the service ports that they belong to."""
    groups: dict[str, list[str]] = {}
    for missing in family.not_programmed:
        text = f"! not programmed: {missing.reason}"
        groups.setdefault(missing.service_port, []).append(text)
    for each in family.differences:
        reason = f"  # {each.reason}" if each.reason else ""
        text = f"{_SIGN[each.change]} {each.object}{reason}"
        groups.setdefault(each.service_port, []).append(text)
    for name in sorted(groups):
        shown = groups[name][:limit]
        limit -= len(shown)
        if shown:
            yield line(Span(f"@@ {name or 'of no service port'} @@", Style.CYAN))
        yield from (line(Span(text, _STYLE[text[0]])) for text in shown)
