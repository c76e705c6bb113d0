"""`kubectl kubeproxy`: one of our commands, on the nodes of a cluster."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from kubeproxy.base.errors import FieldError, KubeProxyError, OperatorError
from kubeproxy.config.errors import UsageError
from kubeproxy.config.flagset import HELP, Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.explain.words import INDENT, Explanation, render
from kubeproxy.serve.status.wire import ServiceDetail, ServiceList
from kubeproxy.tools import explain
from kubeproxy.tools.bundle import command as bundle
from kubeproxy.tools.command import OUTPUT, display_of, print_answer, say, show, wants_json
from kubeproxy.tools.diff import command as diff
from kubeproxy.tools.kubectl import tracing
from kubeproxy.tools.kubectl.ask import Answers, Cluster, ask, decoded, reports, why_not
from kubeproxy.tools.kubectl.flags import (
    ADDRESSES,
    ALL,
    CONNECTION,
    NODE,
    POD,
    PROXIES,
    passed_on,
    taken,
)
from kubeproxy.tools.kubectl.kubectl import remark
from kubeproxy.tools.kubectl.merge import OnNode, busiest, grouped, heading, in_words, merged
from kubeproxy.tools.kubectl.overview import ranked, screen
from kubeproxy.tools.kubectl.proxies import Proxy, askable
from kubeproxy.tools.layout import fitted
from kubeproxy.tools.services import command as services
from kubeproxy.tools.services.view import detail, listing, remarks
from kubeproxy.tools.shell.candidates import FILES, CommandLine, Word, candidates
from kubeproxy.tools.top import command as top
from kubeproxy.tools.trace import command as trace

UNWELL: Final = 1
TROUBLE: Final = 2
_WHERE: Final = (NODE, POD, ALL)
_COMMON: Final = (OUTPUT, *PROXIES, *CONNECTION, HELP)
_SERVICES: Final = taken(services.COMMAND.flags, {"search", "sort", "limit", "no-rates"})
_EXPLAIN: Final = taken(explain.COMMAND.flags, {"from", "to", "interface"})
_TRACE: Final = taken(trace.COMMAND.flags, {"to", "from", "endpoint", "count", "seconds", "rate"})
_DIFF: Final = taken(diff.COMMAND.flags, {"family", "limit"})
_TOP: Final = taken(top.COMMAND.flags, {"interval", "once", "count"})
_HIDE: Final = taken(bundle.COMMAND.flags, {"hide"})
_FILE: Final = taken(bundle.COMMAND.flags, {"file", "force"})
_MOST_IN_TOP: Final = 20


class Subcommand(msgspec.Struct, frozen=True):
    """One of our commands as it is called from afar."""

    what: str
    run: Callable[[Cluster, Parsed], int]
    flags: Sequence[Flag]
    takes_arguments: bool = False


# --- what each does ---------------------------------------------------------------------------


def _status(cluster: Cluster, parsed: Parsed) -> int:
    found = ranked(reports(cluster, cluster.chosen(everywhere=True)))
    print_answer(parsed, found, partial(screen, found))
    return UNWELL if found.unwell else 0


def _services(cluster: Cluster, parsed: Parsed) -> int:
    chosen, names = cluster.chosen(), [each for each in parsed.positionals if each]
    if len(names) > 1:
        raise OperatorError(f"one service at a time, got: {' '.join(names)}")
    if names and len(chosen) > 1:
        raise OperatorError("of one Service, one node at a time is shown: give --node or --pod")
    words = ["services", "-o=json", *passed_on(_SERVICES, parsed), *names]
    if names:
        return _service(cluster, parsed, chosen, words)
    found, answers = decoded(ask(cluster, chosen, words), ServiceList, {})
    if found:
        one = next(iter(found.values())) if len(found) == 1 else merged(found)
        print_answer(parsed, one, partial(listing, one))
        for text in remarks(one):
            remark(text)
    return _errors_told(answers)


def _service(
    cluster: Cluster, parsed: Parsed, chosen: Sequence[Proxy], words: Sequence[str]
) -> int:
    names = {} if wants_json(parsed) else cluster.names()
    found, answers = decoded(ask(cluster, chosen, words), ServiceDetail, names)
    for each in found.values():
        print_answer(parsed, each, partial(detail, each))
    return _errors_told(answers)


def _explain(cluster: Cluster, parsed: Parsed) -> int:
    if not parsed.value("to", tuple):
        raise OperatorError("--to is missing: say where the packet goes")
    source = parsed.value("from", str)
    pod = explain.pod_of(source)
    chosen = cluster.chosen(by_default=pod)
    given = list(passed_on(_EXPLAIN, parsed))
    if pod:
        given = [each for each in given if not each.startswith("--from=")]
        given.append(f"--from={_address_of(cluster, pod, parsed.value('to', tuple))}")
    names = {} if wants_json(parsed) else cluster.names()
    words = ["explain", "--live", "-o=json", *given]
    found, answers = decoded(ask(cluster, chosen, words), tuple[Explanation, ...], names)
    if wants_json(parsed):
        _print_json(found)
    elif len(found) == 1:
        _print_text("\n\n".join(map(render, next(iter(found.values())))))
    else:
        _print_groups({node: in_words(each) for node, each in found.items()})
    return _errors_told(answers)


def _address_of(cluster: Cluster, text: str, to: Sequence[object]) -> str:
    """The address of a pod, of the family of the destination where that is an address."""
    addresses = cluster.pod(text).addresses
    if not addresses:
        raise FieldError("from", text, "this Pod has no address yet")
    wants_ipv6 = any(str(each).startswith("[") for each in to)
    return next((each for each in addresses if (":" in each) is wants_ipv6), addresses[0])


def _trace(cluster: Cluster, parsed: Parsed) -> int:
    named = cluster.chosen()
    chosen = list(askable(named))
    missing = _errors_told(Answers({}, why_not(named)))
    if not chosen:
        return missing
    names = {} if wants_json(parsed) else cluster.names()
    kubectl, words = cluster.kubectl, ["trace", "-o=json", *passed_on(_TRACE, parsed)]
    running = {
        each.node: kubectl.start(kubectl.inside(each, words, "--stdin=false")) for each in chosen
    }
    return tracing.follow(running, names, os.environ, as_json=wants_json(parsed)) or missing


def _diff(cluster: Cluster, parsed: Parsed) -> int:
    as_json = wants_json(parsed)
    words = ["diff", *(["-o=json"] if as_json else []), *passed_on(_DIFF, parsed)]
    answers = ask(cluster, cluster.chosen(), words)
    errors = dict(answers.errors)
    texts: dict[str, str] = {}
    for node, done in answers.done.items():
        if done.code in {0, diff.DIFFERENT} and (done.out or not done.code):
            texts[node] = done.out.decode(errors="replace")
        else:
            errors[node] = done.err
    different = [node for node, done in answers.done.items() if node in texts and done.code]
    if as_json:
        _print_json({node: msgspec.json.decode(text) for node, text in texts.items()})
    elif len(texts) == 1:
        _print_text(next(iter(texts.values())).rstrip("\n"))
    else:
        _print_groups({node: text or "no difference" for node, text in texts.items()})
    return _errors_told(Answers(answers.done, errors)) or (UNWELL if different else 0)


def _top(cluster: Cluster, parsed: Parsed) -> int:
    chosen = cluster.chosen()
    if len(chosen) > 1:
        words = ["services", "-o=json"]
        found, answers = decoded(ask(cluster, chosen, words), ServiceList, {})
        rows = busiest(merged(found), _MOST_IN_TOP)
        print_answer(parsed, rows, partial(listing, rows))
        return _errors_told(answers)
    kubectl, proxy = cluster.kubectl, next(askable(chosen), None)
    if proxy is None:
        return _errors_told(Answers({}, why_not(chosen)))
    words = ["top", *passed_on((*_TOP, OUTPUT), parsed)]
    on_screen = sys.stdin.isatty() and sys.stdout.isatty()
    return kubectl.become(kubectl.inside(proxy, words, *(["-it"] if on_screen else [])))


def _bundle(cluster: Cluster, parsed: Parsed) -> int:
    chosen = cluster.chosen()
    if len(chosen) > 1:
        raise OperatorError("of one node at a time: give --node or --pod")
    proxy = next(askable(chosen), None)
    if proxy is None:
        return _errors_told(Answers({}, why_not(chosen)))
    path = Path(parsed.value("file", str) or f"{bundle.name_at(time.time())}.tar.gz")
    words = ["bundle", "--file=-", *passed_on(_HIDE, parsed)]
    with bundle.new_file(path, force=parsed.value("force", bool)) as file:
        if cluster.kubectl.save(cluster.kubectl.inside(proxy, words, "--stdin=false"), file):
            raise OperatorError(f"there is no bundle of node {proxy.node}: see above")
    remark(f"{path} is the bundle of node {proxy.node}")
    return 0


# --- what all of them do ----------------------------------------------------------------------


def _errors_told(answers: Answers) -> int:
    """Say which nodes gave no answer; 1 when there are any."""
    for nodes, why in grouped(answers.errors):
        remark(f"no answer of {', '.join(nodes)}: {why}")
    return UNWELL if answers.errors else 0


def _print_json(found: Mapping[str, object]) -> None:
    value = [OnNode(node, answer) for node, answer in found.items()]
    say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _print_text(text: str) -> None:
    if text:
        display = display_of(sys.stdout, os.environ)
        show(fitted(text, display.width, INDENT), msgspec.structs.replace(display, width=None))


def _print_groups(texts: Mapping[str, str]) -> None:
    """Each text once, below the nodes that say it."""
    display = display_of(sys.stdout, os.environ)
    for number, (nodes, text) in enumerate(grouped(texts)):
        if number:
            say("")
        show([heading(nodes)], display)
        _print_text(text.rstrip("\n"))


SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {
    "status": Subcommand("how each node is, the worst first", _status, (NODE, POD)),
    "services": Subcommand(
        "Services of a node, or of all", _services, (*_SERVICES, *_WHERE, ADDRESSES), True
    ),
    "explain": Subcommand(
        "where a packet goes on a node, and why", _explain, (*_EXPLAIN, *_WHERE, ADDRESSES)
    ),
    "trace": Subcommand("new connections as they are made", _trace, (*_TRACE, *_WHERE, ADDRESSES)),
    "diff": Subcommand("whether the kernel has what is meant", _diff, (*_DIFF, *_WHERE)),
    "top": Subcommand("the busiest Services", _top, (*_TOP, *_WHERE)),
    "bundle": Subcommand(
        "all that a search for a fault needs, in one file", _bundle, (*_FILE, *_HIDE, NODE, POD)
    ),
}
_ANY_FILE: Final = ":0"
_NO_FILE: Final = ":4"
_AFTERWARDS: Final = """
kubectl kubeproxy COMMAND --help shows the flags of a command. Exit codes: 0 when all is well, 1
when a node is not well, differs or gives no answer, 2 for errors and mistakes in the command line.
"""


def usage_text() -> str:
    """The commands that there are."""
    lines = ["Usage:", "  kubectl kubeproxy COMMAND [flags]", "", "Commands:"]
    lines += [f"  {name:<9} {each.what}" for name, each in SUBCOMMANDS.items()]
    return "\n".join(lines) + "\n" + _AFTERWARDS


def main(arguments: Sequence[str]) -> int:
    """Run the command line; errors have another exit code than nodes that are not well."""
    try:
        return _run(list(arguments))
    except KubeProxyError as error:
        error.exit_code = TROUBLE
        raise


def _run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in {"help", "--help", "-h"}:
        say(usage_text().rstrip("\n"))
        return 0 if arguments else TROUBLE
    name, *rest = arguments
    if name not in SUBCOMMANDS:
        meant = next(iter(get_close_matches(name, SUBCOMMANDS, 1)), "")
        hint = f": did you mean {meant}?" if meant else f"; there are {', '.join(SUBCOMMANDS)}"
        raise UsageError(f"there is no command {name!r}{hint}", show_usage=False)
    chosen = SUBCOMMANDS[name]
    flags = (*chosen.flags, *_COMMON)
    parsed = parse(flags, rest)
    call = f"kubectl kubeproxy {name}"
    if parsed.value("help", bool):
        say(usage(call, flags).rstrip("\n"))
        return 0
    if not chosen.takes_arguments:
        refuse_positionals(call, parsed)
    if parsed.value("output", str) not in {"text", "json"}:
        raise FieldError("output", parsed.value("output", str), "must be text or json")
    return chosen.run(Cluster(parsed), parsed)


def complete(arguments: Sequence[str]) -> int:
    """Print what the last word may become, as kubectl asks its plugins for it."""
    name, *rest = arguments or [""]
    names = [Word(each, chosen.what) for each, chosen in SUBCOMMANDS.items()]
    line = CommandLine((), [name], names)
    if rest:
        flags = (*SUBCOMMANDS[name].flags, *_COMMON) if name in SUBCOMMANDS else ()
        line = CommandLine(flags, rest)
    found = candidates(line, lambda _given, _text: ())
    for word in found:
        if word.text != FILES:
            say(f"{word.text}\t{word.about}" if word.about else word.text)
    say(_ANY_FILE if any(word.text == FILES for word in found) else _NO_FILE)
    return 0
