"""The log of a real daemon: a start in three lines, and transactions that nft understands."""

import re
from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import mall
from lab.listing import KEYWORD
from lab.modes import only
from lab.namespaces import Namespace
from lab.stage import Lab

_TABLE = re.compile(r'"Transaction" ipFamily="IPv4" commands=<\n((?:\t.*\n)+) >')
_COUNTED = re.compile(r"packets \d+ bytes \d+")
_EXPIRES = re.compile(r" (timeout|expires) \w+")


@pytest.fixture
def reader() -> Iterator[Namespace]:
    """Another network namespace, where no proxy runs."""
    namespace = Namespace("reader")
    yield namespace
    namespace.close()


@only("nftables", reason="the transactions of the other modes are the input of programs")
def test_at_9_the_log_has_whole_transactions_as_nft_reads_them(
    lab: Lab, reader: Namespace
) -> None:
    lab.run("--vmodule=transactions=9", documents=mall())
    scripts = _TABLE.findall(lab.daemon.log())
    text = "\n".join(re.sub(r"^\t", "", script, flags=re.MULTILINE) for script in scripts)
    reader.run(["nft", "-f", "-"], stdin=text)
    keyword = KEYWORD[Family.IPV4]
    assert listed(reader, keyword) == listed(lab.network.node, keyword)


def listed(namespace: Namespace, keyword: str) -> list[str]:
    """The table as nft lists it, without what packets leave in it, and in one order."""
    text = namespace.run(["nft", "list", "table", keyword, "kube-proxy"])
    plain = _EXPIRES.sub("", _COUNTED.sub("", text))
    return sorted(part.strip() for part in re.split(r"[,{}\n]", plain))
