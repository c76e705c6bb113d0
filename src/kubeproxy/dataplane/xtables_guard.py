"""Lists and watches the chains of iptables, where its programs write nftables rules.

The kernel sends a message for every change. It sends none for the tables of the legacy programs:
there only `watch_canaries` of iptables mode and full syncs find changes.
"""

import asyncio
import re
import threading

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer
from kubeproxy.dataplane.contract import Lost
from kubeproxy.dataplane.xtables_chains import TABLES, ChainName, is_own_chain
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, NFPROTO_IPV6, attributes_in
from kubeproxy.linux.nfnetlink import Nfnetlink, NftablesChanges
from kubeproxy.linux.xtables import Xtables

_NFPROTO = {Family.IPV4: NFPROTO_IPV4, Family.IPV6: NFPROTO_IPV6}
_TABLES = {f"{table}\0".encode(): table for table in TABLES}
_CHAIN_WITHIN = re.compile(rb"KUBE-[A-Z0-9-]+(?=\0)")
_CALM = 1.0
# Of memory for messages. Measured are some 20: a rule makes a message when removed and when added.
_ROOM_OF_A_BYTE = 40


def nft_chains(family: Family) -> tuple[ChainName, ...]:
    """All chains in the tables that `iptables-nft` uses, of kube-proxy and of others."""
    with Nfnetlink() as netfilter:
        listed = map(attributes_in, netfilter.dump(nft.NFT_MSG_GETCHAIN, _NFPROTO[family]))
        return tuple(
            ChainName(_TABLES[found[nft.NFTA_CHAIN_TABLE]], _name(found[nft.NFTA_CHAIN_NAME]))
            for found in listed
            if found.get(nft.NFTA_CHAIN_TABLE) in _TABLES
        )


def concerns(message: Message, family: Family) -> bool:
    """Whether a message says that our chains of the family, or the jumps to them, changed.

    A rule that is added to a built-in chain does not concern us; one that is removed there does,
    when it led to a chain of ours.
    """
    found = attributes_in(message)
    table = _TABLES.get(found.get(nft.NFTA_RULE_TABLE, b""))
    if message.payload[0] != _NFPROTO[family] or table is None:
        return False
    match message.type:
        case nft.NFT_MSG_DELCHAIN:
            chains = [_name(found[nft.NFTA_CHAIN_NAME])]
        case nft.NFT_MSG_NEWRULE | nft.NFT_MSG_DELRULE:
            chains = [_name(found[nft.NFTA_RULE_CHAIN])]
            is_built_in = chains[0].isupper() and chains[0].isalpha()
            if message.type == nft.NFT_MSG_DELRULE and is_built_in:
                chains += map(_name, _CHAIN_WITHIN.findall(message.payload))
        case _:
            return False
    return any(is_own_chain(table, chain) for chain in chains)


def _name(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def _generation() -> int:
    with Nfnetlink() as kernel:
        return kernel.generation()


class ChainGuard:
    """Reports changes that others make to the chains of one family."""

    def __init__(self, programs: Xtables) -> None:
        self._programs = programs
        self._watch: NftablesChanges | None = None
        self._seen = 0
        self._changed = asyncio.Event()
        self._is_concerned = False
        """Whether the transaction that is being read, of others, changes our chains."""
        self._writer: Writer | None = None
        self._turn = threading.Lock()

    async def follow(self, lost: Lost, pause: float) -> None:
        """Call `lost` when others change our chains, until cancelled or the programs are legacy.

        A repair is costly, and another program may answer it with a change: there is at most one a
        second. When the watch fails it is started again after the pause; anything may have
        changed meanwhile.
        """
        while True:
            try:
                if not await asyncio.to_thread(self._programs.is_nft):
                    return
                with await asyncio.to_thread(self._begin) as watch:
                    await self._listen(watch, lost)
            except* KernelError as group:
                klog.error(
                    "Cannot watch for changes of the rules by others, will try again",
                    err=group.exceptions[0],
                    ipFamily=self._programs.family.value,
                )
                self._changed.set()
            finally:
                self._watch = None
            await asyncio.sleep(pause)

    def restore(self, text: str) -> bool:
        """Have the programs restore the text, for threads; whether others wrote unseen meanwhile.

        The kernel makes a message of 4 KB for each rule before it sends the first, and our own
        would not leave room for those of others. So the watch pauses while much is written: the
        generation, which counts all transactions, is compared afterwards.
        """
        with self._turn:
            watch, seen = self._watch, self._seen
            if watch is None or len(text) * _ROOM_OF_A_BYTE <= watch.receive_buffer:
                self._programs.restore(text)
                return False
            with watch.paused():
                self._programs.restore(text)
            self._seen = _generation()
        own = text.count("\nCOMMIT\n")
        return self._seen != (seen + own) & 0xFFFFFFFF

    def _begin(self) -> NftablesChanges:
        """Start the watch, but not while very much is written."""
        with self._turn:
            self._watch = NftablesChanges()
            self._seen = _generation()
            return self._watch

    async def _listen(self, watch: NftablesChanges, lost: Lost) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.follow(self._receive))
            while True:
                await self._changed.wait()
                self._changed.clear()
                writer, self._writer = self._writer, None
                lost(writer)
                await asyncio.sleep(_CALM)

    def _receive(self, message: Message | None) -> None:
        if message is None:
            self._changed.set()
        elif message.type == nft.NFT_MSG_NEWGEN:
            self._seen = nft.generation_in(message)
            if self._is_concerned:
                self._is_concerned = False
                self._writer = nft.writer_in(message)
                self._changed.set()
        elif not self._programs.is_own(message.port) and concerns(message, self._programs.family):
            self._is_concerned = True
