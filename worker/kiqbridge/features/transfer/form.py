"""The file of an export: JSON lines, each with a checksum; docs/reference/command_line.md has the form.

The first line is the header, the last one the end; a line between them is a chunk of a queue or set, or has what
jobs of the next chunk need besides their text.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple

from kiqbridge.errors import PayloadError
from kiqbridge.runtime.digests import sha256
from kiqbridge.wire import json_text
from kiqbridge.wire.names import bytes_of, text_of

VERSION: Final = 2
"""Of what is written; files of version 1, without what jobs need besides their text, are read as well."""
_SUM: Final = re.compile(rb'\{"sum":"([0-9a-f]{64})",')

Kind = Literal["queue", "suspects", "set"]
_LISTS: Final[Sequence[Kind]] = ("queue", "suspects")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A queue, the suspects of a queue, or one of the sets in `reading.SETS`."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line.

    Attributes:
        id: of the export; under it a restore keeps how far it is.
        at: when it began, epoch seconds.
        source: the address of its Redis, without a password.
        namespace: prefix of its keys.
    """

    id: str
    at: float
    source: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Members of one place, in the order in which they leave it.

    Attributes:
        number: from 1 on.
        place: where they were.
        members: as they lay there.
        scores: of a set, as Redis writes them; of a queue empty.
    """

    number: int
    place: Place
    members: Sequence[bytes]
    scores: Sequence[bytes] = field(default=())


class Record(NamedTuple):
    """Something that jobs need besides their text.

    Attributes:
        kind: see state.py.
        name: of what.
        until: epoch seconds at which it is over; 0 = never.
        fields: its value, or fields and values, one after the other.
    """

    kind: str
    name: str
    until: float
    fields: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class State:
    """Records that are to be there before the next chunk is."""

    records: Sequence[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The last line: how many chunks and members stand before it."""

    chunks: int
    members: int


Line = Header | Chunk | State | End


def write_line(line: Line) -> bytes:
    """A line with its checksum, the SHA-256 of what follows it, and its end."""
    text = json_text.dumps(_fields(line))
    return b'{"sum":"' + sha256(text).hexdigest().encode() + b'",' + text[1:] + b"\n"


def read_line(text: bytes, number: int) -> Line:
    """The counterpart of `write_line`; `number` is for messages.

    Raises:
        PayloadError: the line is cut off, damaged, or of a later version.
    """
    found = _SUM.match(text)
    if found is None or not text.endswith(b"\n"):
        raise PayloadError(f"line {number}: this is no whole line of an export of Kiqbridge")
    rest = b"{" + text[found.end() : -1]
    if sha256(rest).hexdigest().encode() != found[1]:
        raise PayloadError(
            f"line {number}: its checksum does not fit, so that it was damaged or edited"
        )
    try:
        return _read(json_text.loads(rest))
    except (KeyError, TypeError, ValueError, json_text.MalformedJSON) as error:
        raise PayloadError(
            f"line {number}: {error}; a later version of Kiqbridge may have written it"
        ) from error


def _fields(line: Line) -> dict[str, Any]:
    if isinstance(line, Header):
        return {"kiqbridge_export": VERSION, **asdict(line)}
    if isinstance(line, End):
        return {"end": True, **asdict(line)}
    if isinstance(line, State):
        return {
            "state": [
                [kind, _packed(bytes_of(name)), until, *map(_packed, fields)]
                for kind, name, until, fields in line.records
            ]
        }
    scores = {"scores": [score.decode() for score in line.scores]} if line.scores else {}
    return {
        "n": line.number,
        line.place.kind: _packed(bytes_of(line.place.name)),
        "members": [_packed(member) for member in line.members],
        **scores,
    }


def _read(fields: dict[str, Any]) -> Line:
    if "kiqbridge_export" in fields:
        if fields["kiqbridge_export"] not in (1, VERSION):
            raise ValueError(f"version {fields['kiqbridge_export']} is unknown here")
        return Header(**{name: fields[name] for name in ("id", "at", "source", "namespace")})
    if "end" in fields:
        return End(chunks=fields["chunks"], members=fields["members"])
    if "state" in fields:
        return State(
            [
                Record(kind, text_of(_unpacked(name)), float(until), [*map(_unpacked, rest)])
                for kind, name, until, *rest in fields["state"]
            ]
        )
    kind: Kind = next((each for each in _LISTS if each in fields), "set")
    name = text_of(_unpacked(fields[kind]))
    members = [_unpacked(member) for member in fields["members"]]
    scores = [score.encode() for score in fields.get("scores", ())]
    if len(scores) != (len(members) if kind == "set" else 0):
        raise ValueError("as many scores as members are needed")
    return Chunk(
        number=fields["n"], place=Place(kind=kind, name=name), members=members, scores=scores
    )


def _packed(raw: bytes) -> str | dict[str, str]:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _unpacked(value: str | dict[str, str]) -> bytes:
    if isinstance(value, str):
        return value.encode()
    try:
        return base64.b64decode(value["base64"], validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
