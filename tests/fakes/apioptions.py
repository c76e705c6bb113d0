"""The query of a list or a watch -> options, refused by the rules that the API server applies."""

import base64
import binascii
from collections.abc import Mapping
from enum import Enum

import msgspec

from fakes.apierrors import ApiError
from fakes.apiresources import Resource, Target
from fakes.apiselectors import parse_fields, parse_labels
from fakes.apistore import Key, Selection


class Match(Enum):
    """`resourceVersionMatch`."""

    UNSET = ""
    NOT_OLDER_THAN = "NotOlderThan"
    EXACT = "Exact"


class Token(msgspec.Struct, frozen=True):
    """What a `continue` token remembers."""

    version: int
    after: Key


class Options(msgspec.Struct, frozen=True):
    """What a list or a watch asks for."""

    selection: Selection
    watch: bool = False
    version: int | None = None
    """None: not given, which means the most recent."""
    match: Match = Match.UNSET
    limit: int = 0
    token: Token | None = None
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: float | None = None


def encode_token(token: Token) -> str:
    """The opaque text of a continue token."""
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _decode_token(text: str) -> Token | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=Token)
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        raise ApiError(400, "continue key is not valid: illegal base64 data") from error


def parse_options(target: Target, query: Mapping[str, str]) -> Options:
    """The options in a query; refused with 400 or 422 as the API server does."""
    options = Options(
        selection=Selection(
            target.namespace,
            parse_labels(query.get("labelSelector", "")),
            parse_fields(query.get("fieldSelector", ""), _selectable(target.resource)),
        ),
        watch=_flag(query.get("watch", "")) or False,
        version=_version(query.get("resourceVersion", "")),
        match=_match(query.get("resourceVersionMatch", "")),
        limit=int(_number(query, "limit") or 0),
        token=_decode_token(query.get("continue", "")),
        bookmarks=_flag(query.get("allowWatchBookmarks", "")) or False,
        initial_events=_flag(query.get("sendInitialEvents", "")),
        timeout=_number(query, "timeoutSeconds"),
    )
    for broken, message in _watch_rules(options) if options.watch else _list_rules(options):
        if broken:
            raise ApiError(422, f"{target.resource.kind}List is invalid: {message}")
    if options.token is not None and options.version:
        raise ApiError(400, "specifying resource version is not allowed when using continue")
    return options


def _list_rules(options: Options) -> list[tuple[bool, str]]:
    matched = options.match is not Match.UNSET
    forbidden = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden"
    return [
        (
            options.initial_events is not None,
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        (
            matched and options.version is None,
            f"{forbidden} unless resourceVersion is provided",
        ),
        (matched and options.token is not None, f"{forbidden} when continue is provided"),
        (
            options.match is Match.EXACT and options.version == 0,
            f'{forbidden} to be "Exact" for resourceVersion "0"',
        ),
    ]


def _watch_rules(options: Options) -> list[tuple[bool, str]]:
    asked = options.initial_events is not None
    forbidden = "resourceVersionMatch: Forbidden: resourceVersionMatch is"
    return [
        (
            asked and options.match is not Match.NOT_OLDER_THAN,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            not asked and options.match is not Match.UNSET,
            f"{forbidden} forbidden for watch unless sendInitialEvents is provided",
        ),
    ]


def _selectable(resource: Resource) -> tuple[str, ...]:
    scope = ("metadata.namespace",) if resource.namespaced else ()
    return ("metadata.name", *scope, *resource.fields)


def _flag(text: str) -> bool | None:
    if not text:
        return None
    return text in ("1", "t", "T", "true", "TRUE", "True")


def _match(text: str) -> Match:
    try:
        return Match(text)
    except ValueError as error:
        raise ApiError(
            422,
            f'resourceVersionMatch: Unsupported value: "{text}": supported values:'
            ' "Exact", "NotOlderThan"',
        ) from error


def _version(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ApiError(400, f'invalid resource version: Invalid value: "{text}"')
    return int(text)


def _number(query: Mapping[str, str], name: str) -> float | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return float(int(text))
    except ValueError as error:
        raise ApiError(400, f'{name}: invalid value "{text}"') from error
