"""Which endpoint a client gets."""

from kubeproxy.dataplane.userspace.choosing import Choices

A, B, C = ("10.64.3.11", 8080), ("10.64.3.12", 8080), ("10.65.7.21", 8080)
ONE, OTHER = "192.0.2.50", "192.0.2.200"


def sticky(seconds: int = 10) -> Choices:
    choices = Choices()
    choices.affinity_seconds = seconds
    return choices


def test_each_list_has_its_turn() -> None:
    choices = Choices()
    assert [choices.choose(1, (A, B, C), ONE, 0) for _ in range(4)] == [A, B, C, A]
    assert choices.choose(2, (A, B), ONE, 0) == A
    assert choices.choose(1, (A, B), ONE, 0) == A
    assert choices.pins == 0


def test_a_client_keeps_its_endpoint_in_all_lists() -> None:
    choices = sticky()
    assert choices.choose(1, (A, B), ONE, 0) == A
    assert choices.choose(1, (A, B), OTHER, 0) == B
    assert [choices.choose(2, (C, A), ONE, 10 * n) for n in range(4)] == [A] * 4


def test_an_endpoint_that_is_gone_fails_or_was_not_used_is_left() -> None:
    choices = sticky()
    assert choices.choose(1, (A, B), ONE, 0) == A
    assert choices.choose(1, (B,), ONE, 1) == B
    assert choices.choose(1, (A, B), ONE, 11) == B
    choices.failed(ONE, A)  # not the one it has
    assert choices.pins == 1
    choices.failed(ONE, B)
    assert choices.pins == 0
    assert choices.choose(1, (A, B), ONE, 12) == A
    assert choices.choose(1, (A, B), ONE, 22.5) == B


def test_clients_are_forgotten() -> None:
    choices = sticky()
    choices.choose(1, (A, B), ONE, 0)
    choices.choose(1, (A, B), OTHER, 5)
    choices.forget_idle(9)
    assert choices.pins == 2
    choices.forget_idle(11)
    assert choices.pins == 1
    choices.affinity_seconds = 0
    choices.forget_idle(11)
    assert choices.pins == 0
