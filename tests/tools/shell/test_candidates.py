"""What may follow what was typed."""

from collections.abc import Iterable, Mapping

import pytest

from kubeproxy.config.flags import FLAGS
from kubeproxy.tools.names import TOOLS
from kubeproxy.tools.shell import candidates as module
from kubeproxy.tools.shell.candidates import CommandLine, candidates
from kubeproxy.tools.shell.completion import command_line

SERVICES = ("shop/cart", "shop/storefront", "kube-system/dns")


def names(given: Mapping[str, str], text: str) -> Iterable[str]:
    if given.get("socket") == "/none":
        return ()
    return [name for name in SERVICES if text in name]


def completed(line: str) -> list[str]:
    return [word.text for word in candidates(command_line(line.split(" ")), names)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("", [*TOOLS, "help"], id="commands"),
        pytest.param("to", ["top"], id="one-command"),
        pytest.param("nonsense x", [], id="no-command"),
        pytest.param("-v=2 x", [], id="a-daemon-has-no-arguments"),
        pytest.param("--write", ["--write-config-to"], id="a-flag-of-the-daemon"),
        pytest.param("--cleanup-ip", [], id="flags-that-are-refused-are-not-told"),
        pytest.param("--healthz-p", [], id="nor-those-that-are-deprecated"),
        pytest.param("help re", ["render"], id="help-of-a-command"),
        pytest.param("completion f", ["fish"], id="a-shell"),
        pytest.param("services --sort ", ["name", "connections", "rate"], id="values"),
        pytest.param("services --sort=r", ["--sort=rate"], id="a-value-behind-an-equals-sign"),
        pytest.param("services -o j", ["json"], id="a-value-of-a-short-flag"),
        pytest.param("services --none=r", [], id="a-value-of-an-unknown-flag"),
        pytest.param("services --none x", [], id="behind-an-unknown-flag"),
        pytest.param("--masquerade-all=t", ["--masquerade-all=true"], id="a-boolean"),
        pytest.param("--masquerade-all --dry", ["--dry-run"], id="a-boolean-takes-no-word"),
        pytest.param("--cluster-cidr ", [], id="values-that-nobody-knows"),
        pytest.param("--config ", [":files"], id="a-file"),
        pytest.param("--config=/et", [":files"], id="a-file-behind-an-equals-sign"),
        pytest.param("--config x --dry", ["--dry-run"], id="a-flag-behind-a-value"),
        pytest.param("--config=x --dry", ["--dry-run"], id="a-flag-behind-a-flag-with-its-value"),
        pytest.param("services -- --s", [], id="no-flags-behind-two-dashes"),
        pytest.param("services shop/", ["shop/cart", "shop/storefront"], id="of-a-namespace"),
        pytest.param("services ", sorted(SERVICES), id="all-services"),
        pytest.param("services ca", ["cart"], id="a-name-alone"),
        pytest.param("services -n shop ", ["cart", "storefront"], id="the-namespace-is-given"),
        pytest.param("services -n k", ["kube-system"], id="a-namespace"),
        pytest.param("services --socket /none ", [], id="the-daemon-that-is-named"),
        pytest.param("explain --to shop/c", ["shop/cart"], id="a-destination"),
        pytest.param("status x", [], id="a-command-without-arguments"),
    ],
)
def test_what_a_word_may_become(line: str, expected: list[str]) -> None:
    assert expected == completed(line)


def test_flags_are_told_in_a_sentence() -> None:
    (word,) = candidates(CommandLine(FLAGS, ["--bind-address-h"]), names)
    assert word.about == "End the process when the health or the metrics address cannot be bound."


def test_words_are_those_of_flags_that_exist() -> None:
    known = {flag.name for flag in FLAGS}
    for name in TOOLS:
        known |= {flag.name for flag in command_line([name, ""]).flags}
    listed = {*module._WORDS, *module._PATHS, *module._SERVICES, *module._NAMESPACES}
    assert listed - known == set()
