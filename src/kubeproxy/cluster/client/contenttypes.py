"""Which encodings are asked for, by the settings `contentType` and `acceptContentTypes`.

Watches are in protobuf, which has half the bytes. What begins with all objects is in JSON, which
is decoded in a quarter of the time.
"""

import msgspec

JSON_TYPE = "application/json"
PROTOBUF_TYPE = "application/vnd.kubernetes.protobuf"


class Accepts(msgspec.Struct, frozen=True):
    """The Accept headers of lists, which are watch-lists too, and of watches."""

    list: str
    watch: str


ONLY_JSON = Accepts(JSON_TYPE, JSON_TYPE)
DEFAULT = Accepts(JSON_TYPE, f"{PROTOBUF_TYPE}, */*")


def accepts(content_type: str, accept_content_types: str) -> Accepts:
    """What to accept. An explicit header holds for all requests.

    A type that we do not know gets JSON, as upstream gets from a server that does not know it.
    """
    if accept_content_types:
        return Accepts(accept_content_types, accept_content_types)
    return DEFAULT if content_type == PROTOBUF_TYPE else ONLY_JSON


def is_protobuf(content_type: str) -> bool:
    """Whether the Content-Type of a response says protobuf."""
    return content_type.partition(";")[0].strip() == PROTOBUF_TYPE
