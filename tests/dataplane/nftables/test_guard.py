import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Self

import pytest

from fakes.nftables import FakeNftables
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer
from kubeproxy.dataplane.contract import Lost
from kubeproxy.dataplane.nftables import guard as guard_module
from kubeproxy.dataplane.nftables.encode import delete_table, new_chain, new_table
from kubeproxy.dataplane.nftables.guard import Moment, TableGuard, concerns
from kubeproxy.dataplane.nftables.language import Chain
from kubeproxy.dataplane.nftables.names import AFFINITY, LOCAL_AFFINITY, SERVICE_CHOICES, TABLE
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.linux.netlink.attribute import text, u32
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, NFPROTO_IPV6
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_DELTABLE,
    NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWGEN,
    NFT_MSG_NEWSETELEM,
    NFTA_GEN_ID,
    NFTA_GEN_PROC_NAME,
    NFTA_GEN_PROC_PID,
)
from world import Mode, node

OURS, THEIRS = 4711, 815
PROGRAM = program(node(Mode.NFTABLES), NftablesSettings())
TABLE_NAME = text(1, TABLE)


def message(kind: int, body: bytes, family: int = NFPROTO_IPV4, port: int = THEIRS) -> Message:
    return Message(kind, 0, 0, bytes([family, 0, 0, 0]) + body, port)


BY_NFT = message(
    NFT_MSG_NEWGEN,
    u32(NFTA_GEN_ID, 9) + u32(NFTA_GEN_PROC_PID, 4711) + text(NFTA_GEN_PROC_NAME, "nft"),
)
"""The end of a transaction."""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(message(NFT_MSG_DELTABLE, TABLE_NAME), NFPROTO_IPV4, id="our-table-goes"),
        pytest.param(
            message(NFT_MSG_DELTABLE, TABLE_NAME, NFPROTO_IPV6), NFPROTO_IPV6, id="that-of-ipv6"
        ),
        pytest.param(message(NFT_MSG_DELTABLE, text(1, "filter")), None, id="a-foreign-table"),
        pytest.param(
            message(NFT_MSG_NEWCHAIN, TABLE_NAME + text(3, "x")), NFPROTO_IPV4, id="a-new-chain"
        ),
        pytest.param(
            message(NFT_MSG_NEWSETELEM, TABLE_NAME + text(2, SERVICE_CHOICES)),
            NFPROTO_IPV4,
            id="an-element",
        ),
        pytest.param(
            message(NFT_MSG_NEWSETELEM, TABLE_NAME + text(2, AFFINITY)), None, id="a-pin"
        ),
        pytest.param(
            message(NFT_MSG_NEWSETELEM, TABLE_NAME + text(2, LOCAL_AFFINITY)),
            None,
            id="a-local-pin",
        ),
        pytest.param(message(NFT_MSG_NEWGEN, u32(1, 9)), None, id="the-end-of-a-transaction"),
    ],
)
def test_what_concerns_us(said: Message, expected: int | None) -> None:
    assert expected == concerns(said)


class FakeWatch:
    """Stands in for `NftablesChanges`: sends what it is given."""

    def __init__(self) -> None:
        self.notify: Callable[[Message | None], None] = lambda _: None
        self.pauses = 0
        self.is_paused = False
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.pauses += 1
        self.is_paused = True
        yield
        self.is_paused = False

    async def follow(self, changed: Callable[[Message | None], None]) -> None:
        self.notify = changed
        await asyncio.Event().wait()


class Followed:
    """A guard that both families follow, and how often each has lost its table."""

    def __init__(self, guard: TableGuard, watches: list[FakeWatch]) -> None:
        self.guard = guard
        self.writers: list[Writer | None] = []
        self.lost = {Family.IPV4: 0, Family.IPV6: 0}
        self.watches = watches

    def lose(self, family: Family) -> Lost:
        def lost(writer: Writer | None) -> None:
            self.lost[family] += 1
            self.writers.append(writer)

        return lost

    @property
    def watch(self) -> FakeWatch:
        (watch,) = self.watches  # one for both
        return watch


@pytest.fixture
async def followed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Followed]:
    made: list[FakeWatch] = []

    def watch() -> FakeWatch:
        made.append(FakeWatch())
        return made[-1]

    monkeypatch.setattr(guard_module, "NftablesChanges", watch)
    followed = Followed(TableGuard(), made)
    tasks = [
        asyncio.ensure_future(followed.guard.follow(number, OURS + number, followed.lose(family)))
        for number, family in ((NFPROTO_IPV4, Family.IPV4), (NFPROTO_IPV6, Family.IPV6))
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    yield followed
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(message(NFT_MSG_DELTABLE, TABLE_NAME), (1, 0), id="ours-in-ipv4"),
        pytest.param(message(NFT_MSG_DELTABLE, TABLE_NAME, NFPROTO_IPV6), (0, 1), id="in-ipv6"),
        pytest.param(
            message(NFT_MSG_DELTABLE, TABLE_NAME, port=OURS + NFPROTO_IPV4), (0, 0), id="our-doing"
        ),
        pytest.param(
            message(NFT_MSG_DELTABLE, TABLE_NAME, port=OURS + NFPROTO_IPV6),
            (0, 0),
            id="the-doing-of-the-other-family",
        ),
        pytest.param(message(NFT_MSG_DELTABLE, TABLE_NAME, 5), (0, 0), id="a-bridge-of-that-name"),
        pytest.param(message(NFT_MSG_NEWGEN, u32(1, 9)), (0, 0), id="nothing-of-ours"),
        pytest.param(None, (1, 1), id="messages-were-lost"),
    ],
)
async def test_which_family_is_notified(
    followed: Followed, said: Message | None, expected: tuple[int, int]
) -> None:
    followed.watch.notify(said)
    if said is not None:
        followed.watch.notify(BY_NFT)
    assert expected == (followed.lost[Family.IPV4], followed.lost[Family.IPV6])


async def test_the_end_of_a_transaction_says_who_made_it(followed: Followed) -> None:
    followed.watch.notify(message(NFT_MSG_DELTABLE, TABLE_NAME))
    followed.watch.notify(message(NFT_MSG_DELTABLE, TABLE_NAME, NFPROTO_IPV6))
    assert followed.writers == []
    followed.watch.notify(BY_NFT)
    assert followed.writers == [Writer("nft", 4711)] * 2
    followed.watch.notify(message(NFT_MSG_DELTABLE, TABLE_NAME))
    followed.watch.notify(message(NFT_MSG_NEWGEN, u32(NFTA_GEN_ID, 10)))
    followed.watch.notify(BY_NFT)  # of something else
    assert followed.writers[2:] == [None]


async def test_our_own_transactions_blame_nobody(followed: Followed) -> None:
    followed.watch.notify(message(NFT_MSG_DELTABLE, TABLE_NAME))
    ours = message(NFT_MSG_NEWGEN, u32(NFTA_GEN_ID, 9), port=OURS + NFPROTO_IPV4)
    followed.watch.notify(ours)
    assert followed.writers == []
    followed.watch.notify(None)
    assert followed.writers == [None, None]
    followed.watch.notify(BY_NFT)
    assert len(followed.writers) == 2


def someone_commits(kernel: FakeNftables) -> None:
    FakeNftables(kernel.ruleset).commit([new_table(PROGRAM), delete_table(Family.IPV4, TABLE)])


async def test_during_a_large_transaction_generations_are_counted_instead(
    followed: Followed,
) -> None:
    kernel = FakeNftables()
    async with followed.guard.paused(kernel):
        assert followed.watch.is_paused
        kernel.commit([new_table(PROGRAM)])
        followed.guard.committed()
    assert not followed.watch.is_paused
    assert followed.lost == {Family.IPV4: 0, Family.IPV6: 0}


async def test_what_others_do_during_a_large_transaction_is_noticed_after_it(
    followed: Followed,
) -> None:
    kernel = FakeNftables()
    async with followed.guard.paused(kernel):
        someone_commits(kernel)
    assert followed.lost == {Family.IPV4: 1, Family.IPV6: 1}


async def test_also_when_the_transaction_fails(followed: Followed) -> None:
    kernel = FakeNftables()

    async def fail() -> None:
        async with followed.guard.paused(kernel):
            someone_commits(kernel)
            kernel.commit([new_chain(PROGRAM, Chain("x", ()))])  # there is no table

    with pytest.raises(KernelError):
        await fail()
    assert followed.lost == {Family.IPV4: 1, Family.IPV6: 1}


async def test_without_a_watch_nothing_is_paused_and_none_is_notified() -> None:
    kernel = FakeNftables()
    guard = TableGuard()
    async with guard.paused(kernel):
        someone_commits(kernel)
    assert await guard.moment(kernel) == Moment(kernel.generation(), 0)


async def test_the_generation_that_is_expected_counts_our_own_transactions() -> None:
    guard = TableGuard()
    kernel = FakeNftables()
    kernel.ruleset.generation = 0xFFFFFFFF
    since = await guard.moment(kernel)
    assert guard.expected(since) == 0xFFFFFFFF
    guard.committed(2)
    assert guard.expected(since) == 1
    assert guard.expected(None) is None


async def test_the_present_waits_for_a_transaction_that_is_under_way() -> None:
    guard = TableGuard()
    kernel = FakeNftables()
    async with guard.paused(kernel):
        moment = asyncio.ensure_future(guard.moment(kernel))
        await asyncio.sleep(0)
        assert not moment.done()
        kernel.commit([new_table(PROGRAM)])
        guard.committed()
    assert await moment == Moment(kernel.generation(), 1)
