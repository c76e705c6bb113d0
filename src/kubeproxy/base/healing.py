"""Healing: what is done for connections to endpoints that fail.

The flag, the config file and the annotation have the same words for it.
"""

from enum import Flag
from typing import Final


class Healing(Flag):
    """The parts, which can be had one by one."""

    NONE = 0
    RETRY_REFUSED = 1
    RETRY_UNANSWERED = 2
    RESET_GONE = 4
    EJECT = 8
    ALL = 15


WORDS: Final = {
    "none": Healing.NONE,
    "all": Healing.ALL,
    "retryRefused": Healing.RETRY_REFUSED,
    "retryUnanswered": Healing.RETRY_UNANSWERED,
    "resetGone": Healing.RESET_GONE,
    "eject": Healing.EJECT,
}
_RETRIES: Final = Healing.RETRY_REFUSED | Healing.RETRY_UNANSWERED


def parse_healing(text: str) -> Healing:
    """The parts that a text names: all, none, or a list such as "retryRefused,eject".

    ValueError says what is wrong with it.
    """
    found = Healing.NONE
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in WORDS:
            raise ValueError(f'"{word}" is none of {", ".join(WORDS)}')
        found |= WORDS[word]
    if len(words) > 1 and not {"all", "none"}.isdisjoint(words):
        raise ValueError('"all" and "none" stand alone')
    if found & Healing.EJECT and not found & _RETRIES:
        raise ValueError(
            "eject needs retryRefused or retryUnanswered, which notice that an endpoint fails"
        )
    return found


def healing_text(healing: Healing) -> str:
    """The parts in words, as `parse_healing` reads them."""
    if healing in (Healing.NONE, Healing.ALL):
        return "all" if healing else "none"
    return ",".join(word for word, part in WORDS.items() if part and healing & part == part)
