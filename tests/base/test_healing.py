import pytest

from kubeproxy.base.healing import WORDS, Healing, healing_text, parse_healing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", Healing.NONE),
        ("all", Healing.ALL),
        ("retryRefused", Healing.RETRY_REFUSED),
        ("retryUnanswered", Healing.RETRY_UNANSWERED),
        ("resetGone", Healing.RESET_GONE),
        ("retryRefused,eject", Healing.RETRY_REFUSED | Healing.EJECT),
        (" resetGone , retryUnanswered ", Healing.RESET_GONE | Healing.RETRY_UNANSWERED),
        ("retryRefused,retryUnanswered,resetGone,eject", Healing.ALL),
    ],
)
def test_words(text: str, expected: Healing) -> None:
    assert expected == parse_healing(text)
    assert expected == parse_healing(healing_text(expected))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", '"" is none of none, all, retryRefused, retryUnanswered, resetGone, eject'),
        ("retryrefused", '"retryrefused" is none of none, all, retryRefused'),
        ("retryRefused;eject", '"retryRefused;eject" is none of'),
        ("all,eject", '"all" and "none" stand alone'),
        ("none,retryRefused", '"all" and "none" stand alone'),
        ("eject", "eject needs retryRefused or retryUnanswered"),
        ("eject,resetGone", "eject needs retryRefused or retryUnanswered"),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        parse_healing(text)


def test_every_part_has_a_word() -> None:
    assert {*WORDS.values()} == {Healing.NONE, Healing.ALL, *Healing}
    assert healing_text(Healing.ALL) == "all"
    assert healing_text(Healing.NONE) == "none"
