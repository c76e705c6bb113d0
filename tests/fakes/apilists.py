"""Which page of a list a request gets, and its JSON."""

import msgspec

from fakes.apierrors import ApiError, expired, too_large
from fakes.apioptions import Match, Options, Token, encode_token
from fakes.apiresources import Resource
from fakes.apistore import Body, Page, Store


def page_of(store: Store, resource: Resource, options: Options, *, cached: bool) -> Page:
    """The page that the options ask for; `cached`: version 0 is answered whole, from a cache."""
    if options.token is not None:
        return _next_page(store, resource, options, options.token)
    version = options.version
    if version is None:
        return store.list(resource, options.selection, limit=options.limit)
    if version > store.version:
        raise too_large(version, store.version)
    if version == 0:
        return store.list(resource, options.selection, limit=0 if cached else options.limit)
    # A limit has always meant "at exactly this version" when nothing else is said.
    exact = options.match is Match.EXACT or (options.match is Match.UNSET and options.limit > 0)
    if exact and version < store.compacted:
        raise expired(version, store.compacted)
    at = version if exact else None
    return store.list(resource, options.selection, version=at, limit=options.limit)


def _next_page(store: Store, resource: Resource, options: Options, token: Token) -> Page:
    if token.version < store.compacted:
        raise ApiError(
            410,
            "The provided continue parameter is too old to display a consistent list result."
            " You can start a new list without the continue parameter.",
        )
    return store.list(
        resource,
        options.selection,
        version=token.version,
        after=token.after,
        limit=options.limit,
    )


def encode_list(resource: Resource, page: Page) -> bytes:
    """The JSON of a list, joined from what each object was encoded to."""
    metadata: Body = {"resourceVersion": str(page.version)}
    if page.next_key is not None:
        metadata["continue"] = encode_token(Token(page.version, page.next_key))
        metadata["remainingItemCount"] = page.remaining
    head = {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
    }
    items = b",".join([stored.encoded for stored in page.items])
    return msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}"
