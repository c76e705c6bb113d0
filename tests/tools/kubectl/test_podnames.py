"""Names of pods in the place of their addresses."""

import pytest

from kubeproxy.tools.kubectl.podnames import named_values, read_names, with_names

PRINTED = (
    "shop/cart-1\t\tRunning\t10.64.3.11 fd40::b\n"
    "kube-system/kubeproxy-1\ttrue\tRunning\t192.0.2.10\n"
    "shop/job-1\t\tSucceeded\t10.64.3.12\n"
    "shop/new-1\t\tPending\t\n"
)
NAMES = {"10.64.3.11": "shop/cart-1", "fd40::b": "shop/cart-1"}


def test_pods_that_run_with_an_address_of_their_own() -> None:
    assert read_names(PRINTED) == NAMES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.64.3.11:8080", "shop/cart-1:8080"),
        ("[fd40::b]:8080", "shop/cart-1:8080"),
        ("fd40::b", "shop/cart-1"),
        ("sends to 10.64.3.11, or not", "sends to shop/cart-1, or not"),
        ("10.64.3.11.", "shop/cart-1."),
        ("10.64.3.11/32", "10.64.3.11/32"),
        ("110.64.3.11 10.64.3.110", "110.64.3.11 10.64.3.110"),
        ("10.64.3.12:80", "10.64.3.12:80"),
    ],
)
def test_in_a_text(text: str, expected: str) -> None:
    assert with_names(text, NAMES) == expected


def test_in_a_value() -> None:
    value = {"10.64.3.11": ["10.64.3.11:80", 7, None]}
    assert named_values(value, NAMES) == {"10.64.3.11": ["shop/cart-1:80", 7, None]}
