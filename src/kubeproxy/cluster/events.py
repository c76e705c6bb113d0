"""The events that a source delivers.

For each kind a source delivers `Reset` when it begins to list all objects, then `Upsert` and
`Delete` in the order of the changes, and `Synced` when the list is complete: objects that were in
no event between the two are gone. A consumer keeps what it had until `Synced`, so a list that
has to start again removes nothing.
"""

import msgspec

from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.objects.types import KubeObject


class Upsert(msgspec.Struct, frozen=True):
    """The object was added or changed."""

    kind: Kind
    object: KubeObject


class Delete(msgspec.Struct, frozen=True):
    """The object is gone. Deleting an unknown object is not an error."""

    kind: Kind
    key: ObjectKey


class Keep(msgspec.Struct, frozen=True):
    """The object exists, but could not be decoded: the last valid version of it stays in use."""

    kind: Kind
    key: ObjectKey


class Reset(msgspec.Struct, frozen=True):
    """A list of all objects of this kind begins."""

    kind: Kind


class Synced(msgspec.Struct, frozen=True):
    """The list that began with the last Reset is complete."""

    kind: Kind


Event = Upsert | Delete | Keep | Reset | Synced
