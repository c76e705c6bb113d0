"""What a POST, PUT or PATCH makes of an object: bodies in, the body to store out.

More lenient than the real server in two ways: fields are not checked against the schema (but for
Events, whose rules a publisher must know), and a write to an object may change its status too.
"""

from collections.abc import Mapping

from fakes.apierrors import ApiError
from fakes.apiresources import Resource, Target
from fakes.apistore import Body, Store, Stored, decode_body, key_of

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_EVENT_LIMITS = {
    "action": 128,
    "reason": 128,
    "reportingInstance": 128,
    "reportingController": 253,
    "eventTime": 64,
}


def body_to_store(store: Store, target: Target, given: Body, how: tuple[str, str]) -> Body:
    """What a write of a method and content type makes of an object."""
    method, content_type = how
    if method == "POST" and target.name is None:
        return body_to_create(store, target, given)
    if method == "PUT" and target.name is not None:
        return body_to_replace(store, target, given)
    if method == "PATCH" and target.name is not None:
        return body_to_patch(store, target, content_type, given)
    raise ApiError(405, "the server does not allow this method on the requested resource")


def same(store: Store, resource: Resource, body: Body) -> bool:
    """Whether storing the body would change nothing, not counting the version."""
    stored = store.get(resource, key_of(resource, body))
    if stored is None:
        return False
    current = decode_body(resource, stored)
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    version = {"resourceVersion": str(stored.version)}
    return current == head | body | {"metadata": _metadata(body) | version}


def body_to_create(store: Store, target: Target, body: Body) -> Body:
    """The body of a new object, which must not exist yet."""
    _check_kind(target, body)
    metadata = _metadata(body)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{store.version:05x}"
    _check_namespace(target, metadata)
    complete = body | {"metadata": metadata}
    if target.resource.kind == "Event":
        _check_event(complete)
    key = key_of(target.resource, complete)
    if store.get(target.resource, key) is not None:
        raise ApiError(
            409, f'{target.resource.plural} "{key[1]}" already exists', reason="AlreadyExists"
        )
    return complete


def body_to_replace(store: Store, target: Target, body: Body) -> Body:
    """The body of an object after a PUT, which may ask for the version that it replaces."""
    _check_kind(target, body)
    stored = existing(store, target)
    metadata = _metadata(body)
    _check_namespace(target, metadata)
    if metadata.get("name") != target.name:
        raise ApiError(400, "the name of the object does not match the name on the URL")
    if metadata.get("resourceVersion") not in (None, "", str(stored.version)):
        raise ApiError(
            409,
            f'Operation cannot be fulfilled on {target.resource.plural} "{target.name}": the'
            " object has been modified; please apply your changes to the latest version",
        )
    if target.subresource == "status":
        return decode_body(target.resource, stored) | {"status": body.get("status")}
    return body | {"metadata": metadata}


def body_to_patch(store: Store, target: Target, content_type: str, patch: Body) -> Body:
    """The body of an object after a PATCH."""
    current = decode_body(target.resource, existing(store, target))
    if content_type == MERGE_PATCH:
        patched = merge(current, patch)
    elif content_type == STRATEGIC_PATCH:
        patched = merge_strategic(current, patch)
    else:
        raise ApiError(
            415,
            f"the body of the request was in an unknown format: {content_type!r};"
            f" accepted media types include: {MERGE_PATCH}, {STRATEGIC_PATCH}",
        )
    return body_to_replace(store, target, patched)


def existing(store: Store, target: Target) -> Stored:
    """The object that the target names; refused with 404 when there is none."""
    stored = store.get(target.resource, (target.namespace or "", target.name or ""))
    if stored is None:
        raise ApiError(404, f'{target.resource.plural} "{target.name}" not found')
    return stored


def merge(current: Body, patch: Mapping[str, object]) -> Body:
    """A merge patch (RFC 7386): null removes, objects merge, everything else replaces."""
    merged = dict(current)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            before = merged.get(name)
            merged[name] = merge(before if isinstance(before, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def merge_strategic(current: Body, patch: Mapping[str, object]) -> Body:
    """A strategic merge patch without a schema.

    Lists replace, unless the patch orders their elements (`$setElementOrder/ports`), as kubectl
    does for lists that merge; the keys of that order are then the merge keys.
    """
    merged = dict(current)
    for name, value in patch.items():
        before = merged.get(name)
        order = patch.get(f"$setElementOrder/{name}")
        if name.startswith("$"):
            continue
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = merge_strategic(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, list) and isinstance(order, list):
            merged[name] = _merge_list(before if isinstance(before, list) else [], value, order)
        else:
            merged[name] = value
    return merged


def _merge_list(current: list[object], patch: list[object], order: list[object]) -> list[object]:
    return [_merge_element(key, current, patch) for key in order]


def _merge_element(key: object, current: list[object], patch: list[object]) -> object:
    if not isinstance(key, Mapping):
        return key

    def named(elements: list[object]) -> Body:
        wanted = key.items()
        found = (e for e in elements if isinstance(e, dict) and wanted <= e.items())
        return next(found, {})

    return merge_strategic(named(current), named(patch))


def _metadata(body: Body) -> Body:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        raise ApiError(422, "metadata: Required value")
    return dict(metadata)


def _check_kind(target: Target, body: Body) -> None:
    expected = (target.resource.api_version, target.resource.kind)
    given = (body.get("apiVersion", expected[0]), body.get("kind", expected[1]))
    if given != expected:
        raise ApiError(400, f"the object is a {given[0]} {given[1]}, not a {' '.join(expected)}")


def _check_namespace(target: Target, metadata: Body) -> None:
    if not target.resource.namespaced:
        return
    if metadata.setdefault("namespace", target.namespace) != target.namespace:
        raise ApiError(
            400,
            "the namespace of the object does not match the namespace on the request",
        )


def _check_event(body: Body) -> None:
    for name, limit in _EVENT_LIMITS.items():
        if not body.get(name):
            raise ApiError(422, f"Event is invalid: {name}: Required value")
        if len(str(body[name]).encode()) > limit:
            raise ApiError(422, f"Event is invalid: {name}: can have at most {limit} characters")
    if len(str(body.get("note", "")).encode()) > 1024:
        raise ApiError(422, "Event is invalid: note: can have at most 1024 characters")
