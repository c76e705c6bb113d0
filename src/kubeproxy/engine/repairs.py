"""What was repaired of late because others had changed it: a value."""

import msgspec

from kubeproxy.base.writer import Writer


class OfLate(msgspec.Struct, frozen=True):
    """The changes of the last minute: how many in how many seconds, and who made the last one.

    `total` counts those since the start. `ago` is for how many seconds there has been none; None
    before the first.
    """

    total: int = 0
    count: int = 0
    seconds: float = 0.0
    ago: float | None = None
    writer: Writer | None = None
