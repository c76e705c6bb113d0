"""`kube-proxy plan`: what a change would do on a node, before it is made. Nothing is written."""

import sys
from collections.abc import Generator, Sequence
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.errors import KubeProxyError, OperatorError
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import INT32, STRING, STRINGS
from kubeproxy.plan.change import carry_out, to_delete
from kubeproxy.plan.plan import Progress, make_plan
from kubeproxy.plan.side import side
from kubeproxy.plan.wire import Plan
from kubeproxy.tools import client
from kubeproxy.tools.clusterflags import SHARED_FLAGS
from kubeproxy.tools.command import OUTPUT, Command, not_negative, print_answer
from kubeproxy.tools.plan.source import read_change, read_listings, read_present
from kubeproxy.tools.plan.view import lines

NOTICED: Final = 1
TROUBLE: Final = 2
_STEP: Final = 50
"""Progress is shown after so many Services."""

_OWN: Final = (
    Flag(
        "filename",
        STRINGS,
        (),
        "The change: Services, EndpointSlices, or a new config file; a file, a directory, or - for"
        " standard input. May be repeated.",
        shorthand="f",
    ),
    Flag(
        "delete",
        STRINGS,
        (),
        "An object that is deleted: service/NAMESPACE/NAME or endpointslice/NAMESPACE/NAME. May be"
        " repeated.",
    ),
    Flag("mode", STRING, "", "Another proxy mode, into which the node is moved."),
    Flag("node", STRING, "", "The node, where the cluster is read; default: this host."),
    Flag(
        "rules",
        STRINGS,
        (),
        "A file with what iptables-save or nft list ruleset prints on the node, to find rules of"
        " other programs. May be repeated. On the node itself, they are read.",
    ),
    Flag("limit", INT32, 20, "Show at most so many names of a kind as text; 0 is all."),
    OUTPUT,
)
_AFTERWARDS: Final = """
Says what clients would notice, Service by Service, the most harmful first. The running proxy of
this node is asked for the cluster, unless the command line names another one. Nothing is written:
not to the kernel, not to the cluster.

Exit codes: 0 when clients would notice nothing, 1 when they would, 2 when something went wrong,
3 when no proxy answers and no cluster is named.
"""


def main(arguments: Sequence[str]) -> int:
    """Show the plan; errors have another exit code than changes, as those of `diff`."""
    try:
        return COMMAND.main(arguments)
    except KubeProxyError as error:
        if error.exit_code == NOTICED:
            error.exit_code = TROUBLE
        raise


def _run(parsed: Parsed) -> int:
    files, deleted = parsed.value("filename", tuple), parsed.value("delete", tuple)
    mode, limit = parsed.value("mode", str), not_negative(parsed, "limit")
    if not files and not deleted and not mode:
        raise OperatorError("what changes? Give -f FILE, --delete OBJECT or --mode MODE")
    change = read_change(files, mode)
    gone = [to_delete(each) for each in deleted]
    present = read_present(parsed, change)
    listings = read_listings(parsed.value("rules", tuple), present)
    before = side(present.cluster, present.before)
    remarks = list(carry_out(present.cluster, gone, change.objects))
    after = side(present.cluster, present.after)
    found = _with_progress(make_plan(before, after, listings, remarks))
    print_answer(parsed, found, lambda width: lines(found, width, limit), cut=False)
    return NOTICED if found.noticed else 0


def _with_progress(steps: Generator[Progress, None, Plan]) -> Plan:
    """The plan; meanwhile a terminal shows how far it is."""
    shows = sys.stderr.isatty()
    try:
        while True:
            progress = next(steps)
            if shows and progress.done % _STEP == 0 and progress.done:
                sys.stderr.write(f"\r{progress.done} of {progress.of} Services ")
                sys.stderr.flush()
    except StopIteration as done:
        found: Plan = done.value
        return found
    finally:
        if shows:
            sys.stderr.write("\r\x1b[K")


COMMAND: Final = Command(
    "plan",
    (*_OWN, *client.FLAGS, *FLAGS),
    _run,
    _AFTERWARDS,
    listed=(
        *(replace(flag, group="Plan") for flag in _OWN),
        *client.FLAGS,
        *SHARED_FLAGS,
    ),
)
usage_text = COMMAND.usage_text
