"""The latest syncs, the newest first."""

import msgspec

from kubeproxy.serve.status.web.synctable import syncs
from kubeproxy.serve.status.wire import Sync
from serve.status.web.parsed import Parsed
from serve.status.web.samples import IPV4, IPV6, STATUS, SYNC

replace = msgspec.structs.replace


def history(length: int) -> tuple[Sync, ...]:
    return tuple(
        replace(SYNC, ended=f"2026-03-01T11:{n // 60:02d}:{n % 60:02d}Z") for n in range(length)
    )


def test_the_syncs_of_both_families_newest_first() -> None:
    first, second, third = history(3)
    failed = replace(second, outcome="failed")
    families = (
        replace(IPV4, history=(first, third)),
        replace(IPV6, history=(failed,)),
    )
    found = Parsed(syncs(replace(STATUS, families=families)))
    assert found.values("datetime") == [third.ended, second.ended, first.ended]
    assert found.count("details") == 0
    assert "11:00:01IPv6what changed0.8 ms0104failed" in found.text


def test_older_syncs_are_folded_away_and_the_oldest_left_out() -> None:
    found = Parsed(syncs(replace(STATUS, families=(replace(IPV4, history=history(100)),))))
    assert "48 older syncs" in found.text
    assert len(found.values("datetime")) == 60
