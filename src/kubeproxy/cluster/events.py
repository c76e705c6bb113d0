"""All that a source can say, in four words.

For each kind a source says `Reset` when it begins to tell everything anew, then `Upsert` and
`Delete` in the order in which things happened, and `Synced` when the telling is complete: what
was not upserted between the two is gone. A consumer keeps what it had until `Synced`, so that a
source that must begin again never empties anything.
"""

import msgspec

from kubeproxy.cluster.objects.decode import KubeObject
from kubeproxy.cluster.objects.meta import Kind, ObjectKey


class Upsert(msgspec.Struct, frozen=True):
    """The object exists and looks like this."""

    kind: Kind
    object: KubeObject


class Delete(msgspec.Struct, frozen=True):
    """The object is gone; deleting what nobody knows is no error."""

    kind: Kind
    key: ObjectKey


class Reset(msgspec.Struct, frozen=True):
    """Everything of this kind is told anew from here on."""

    kind: Kind


class Synced(msgspec.Struct, frozen=True):
    """Everything of this kind has been told since the last Reset."""

    kind: Kind


Event = Upsert | Delete | Reset | Synced
