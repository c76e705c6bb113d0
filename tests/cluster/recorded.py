"""What a real API server answered, as JSON and as protobuf."""

import base64
import json
from pathlib import Path

_FILE = json.loads((Path(__file__).parent / "recorded.json").read_text())

OBJECTS: list[tuple[str, bytes, bytes]] = [
    (each["kind"], json.dumps(each["json"]).encode(), base64.b64decode(each["protobuf"]))
    for each in _FILE["objects"]
]
"""Kind, JSON and protobuf of objects."""


def protobuf(name: str) -> bytes:
    """A response in protobuf."""
    return base64.b64decode(_FILE[name])


def in_json(name: str) -> bytes:
    """The same in JSON."""
    found = _FILE[f"{name}_json"]
    return found.encode() if isinstance(found, str) else json.dumps(found).encode()
