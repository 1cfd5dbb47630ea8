"""Mappings written in a test, and the records and events that they are tried on."""

import textwrap
from pathlib import Path

from kiqbridge.aws.record import Record
from kiqbridge.features.mappings import declared, document
from kiqbridge.features.mappings.mapper import Mapper


def write(folder: Path, text: str, name: str = "mappings.yml") -> Path:
    """A file of mappings."""
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def document_of(folder: Path, text: str) -> document.Document:
    """The document of a text."""
    found = document.load(write(folder, text))
    assert found is not None
    return found


def mapper_of(folder: Path, text: str) -> Mapper:
    """The mapper of a text."""
    found = document_of(folder, text)
    return Mapper(found, declared.read(found))


def record_of(event: object = None, source: str = "s3", **attributes: object) -> Record:
    """A record of an S3 object, unless said otherwise."""
    return Record(
        source=source,
        event={"bucket": "uploads", "key": "images/a.jpg", "size": 5} if event is None else event,
        **{"origin": "s3:uploads", "facets": {"bucket": "uploads", "key": "images/a.jpg"}}
        | attributes,
    )
