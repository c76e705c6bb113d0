"""Which objects the consumer has: keys only, because nobody here keeps objects.

It is kept for one reason. An object that cannot be read in a new telling was there before and
still is; a Synced would remove it. So the ledger knows what is really gone.
"""

from kubeproxy.cluster.objects.meta import ObjectKey


class Ledger:
    """The keys of one kind that the consumer has, and those of the telling under way."""

    def __init__(self) -> None:
        self._known: set[ObjectKey] = set()
        self._told: set[ObjectKey] = set()
        self._unreadable: set[ObjectKey] = set()
        self._complete_before = False
        self.telling = False
        """Whether a telling is under way."""

    def begin(self) -> None:
        """Everything is told anew from here on."""
        self._told, self._unreadable = set(), set()
        self.telling = True

    def abandon(self) -> None:
        """The telling broke off: what was known before stands, and so does what it told."""
        self.telling = False

    def upserted(self, key: ObjectKey) -> None:
        """The object was told."""
        self._known.add(key)
        if self.telling:
            self._told.add(key)
            self._unreadable.discard(key)

    def deleted(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._known.discard(key)
        self._told.discard(key)
        self._unreadable.discard(key)

    def unreadable(self, key: ObjectKey | None) -> None:
        """The object exists but does not decode."""
        if self.telling and key is not None:
            self._unreadable.add(key)

    def complete(self) -> list[ObjectKey] | None:
        """End the telling. None: what was not told is gone, and Synced says so.

        A list: the keys that are gone, because others were not told and yet must stay. Never for
        the first telling, whose Synced everybody waits for.
        """
        kept = self._unreadable & self._known if self._complete_before else set()
        gone = self._known - self._told - kept
        self._known = self._told | kept
        self._told, self._unreadable = set(), set()
        self._complete_before, self.telling = True, False
        return sorted(gone) if kept else None
