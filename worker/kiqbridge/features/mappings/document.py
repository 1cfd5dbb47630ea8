"""The file of mappings with the line of each key: YAML where people write it, JSON where Lambda reads it.

`make build` translates `mappings.yml` into `mappings.json`, so that no function needs PyYAML.

JSON schemas of the arguments of jobs, checked before the push; compiled when a class first needs it.

A schema comes from the file of mappings, never from an event. It describes the list of arguments in
JSON Schema draft 4, 6 or 7. fastjsonschema compiles it to Python once.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import active_job

if TYPE_CHECKING:
    from yaml.nodes import Node


DEFAULT_NAME: Final = "mappings.yml"
_SCHEMAS: Final = "schemas"
_LAST_PART: Final = re.compile(r"(\[\d+\]|\.[^.\[]*|^[^.\[]+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file holds.

    Attributes:
        file: its name, as messages show it.
        content: plain data; files that `schemas` name stand there with their content.
        lines: path of a value, such as `mappings[0].args[1]` → line, counted from 1.
    """

    file: str
    content: Any
    lines: Mapping[str, int] = field(default_factory=dict)

    def line(self, path: str) -> int:
        """The line of a path, or of what it lies in."""
        while path and path not in self.lines:
            shorter = _LAST_PART.sub("", path)
            path = "" if shorter == path else shorter
        return self.lines.get(path, 1)

    def place(self, path: str) -> str:
        """File, line and key, for messages."""
        return f"{self.file}:{self.line(path)} {path}".rstrip()

    def as_json(self) -> str:
        """Text of the document for the function; equal documents have the same text."""
        parts = {"file": self.file, "content": self.content, "lines": dict(self.lines)}
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, path: Path) -> Self:
        """Read what `as_json` wrote.

        Raises:
            ConfigError: it was not written by it.
        """
        try:
            parts = json.loads(text)
            return cls(file=parts["file"], content=parts["content"], lines=parts["lines"])
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{path}: this is not what `make build` writes of mappings ({error}); build again"
            ) from error


def find(folder: Path, name: str = "") -> Path | None:
    """The file of a function's mappings; None = it has none.

    Args:
        folder: the function's; a name counts from there.
        name: KIQBRIDGE_MAPPINGS; "" = mappings.yml, if it is there. What `make build` made of a file
            goes before it.

    Raises:
        ConfigError: the named one does not exist.
    """
    path = folder / (name or DEFAULT_NAME)
    for candidate in (path.with_suffix(".json"), path):
        if candidate.is_file():
            return candidate
    if name:
        raise ConfigError(
            f"KIQBRIDGE_MAPPINGS names {path}, which does not exist; put the file there, or unset it to "
            f"use {DEFAULT_NAME} beside the function"
        )
    return None


def load(path: Path) -> Document | None:
    """Read a file of mappings; None = it holds nothing but comments.

    Raises:
        ConfigError: it cannot be read; names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: the mappings cannot be read: {error}") from error
    if path.suffix == ".json":
        return Document.from_json(text, path)
    if all(line.lstrip().startswith("#") for line in text.splitlines() if line.strip()):
        return None
    return _from_yaml(text, path)


def _from_yaml(text: str, path: Path) -> Document:
    try:
        from kiqbridge.schedule import yaml_nodes  # noqa: PLC0415 - loads PyYAML
    except ImportError as error:
        raise ConfigError(
            f"{path}: PyYAML is needed to read it; deploy with `make deploy`, which translates it to JSON, "
            "or install kiqbridge[worker]"
        ) from error
    lines: dict[str, int] = {}
    try:
        node = yaml_nodes.compose(text)
        content = None if node is None else _plain(node, "", lines)
        return Document(file=path.name, content=_with_schemas(content, path, lines), lines=lines)
    except yaml_nodes.TemplateFault as fault:
        raise ConfigError(f"{path.name}:{fault.line}: {fault.text}") from fault


def _plain(node: "Node", path: str, lines: dict[str, int]) -> Any:
    """A node's value; enters the line of each value by its path."""
    from yaml.nodes import ScalarNode, SequenceNode  # noqa: PLC0415 - as above

    from kiqbridge.schedule import yaml_nodes  # noqa: PLC0415 - as above

    lines.setdefault(path, yaml_nodes.line_of(node))
    if node.tag.startswith("!"):
        raise yaml_nodes.TemplateFault(
            yaml_nodes.line_of(node),
            f"{path or 'the file'}: {node.tag} has no meaning here; write the value itself",
        )
    if isinstance(node, ScalarNode):
        return yaml_nodes.scalar(node)
    if isinstance(node, SequenceNode):
        return [_plain(child, f"{path}[{index}]", lines) for index, child in enumerate(node.value)]
    found = {}
    for key, entry in yaml_nodes.entries(node, path or "the file").items():
        inner = f"{path}.{key}" if path else key
        lines[inner] = entry.line
        found[key] = _plain(entry.node, inner, lines)
    return found


def _with_schemas(content: Any, path: Path, lines: Mapping[str, int]) -> Any:
    """The document with the content of each file in the place of the file's name under `schema`."""
    schemas = content.get(_SCHEMAS) if isinstance(content, dict) else None
    if not isinstance(schemas, dict):
        return content
    return {**content, _SCHEMAS: {k: _schema(k, v, path, lines) for k, v in schemas.items()}}


def _schema(name: str, value: Any, path: Path, lines: Mapping[str, int]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads((path.parent / value).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        where = f"{_SCHEMAS}.{name}"
        raise ConfigError(
            f"{path.name}:{lines[where]} {where}: {value!r} is not a file with JSON: {error}; write the "
            "path from the file of mappings, or the schema itself"
        ) from error


Validator = Callable[..., Any]

_DRAFTS: Final = ("draft-04", "draft-06", "draft-07")
_NEWER: Final = frozenset(
    {
        *("prefixItems", "unevaluatedItems", "unevaluatedProperties", "dependentSchemas"),
        *("dependentRequired", "minContains", "maxContains", "$dynamicRef", "$recursiveRef"),
        *("$anchor", "$dynamicAnchor", "$vocabulary"),
    }
)
"""Keywords of later drafts, which fastjsonschema would pass over."""
_LONGEST_REASON: Final = 200


class SchemaFault(Exception):  # noqa: N818 - an answer in the form of an error
    """A schema cannot be compiled; the text says why."""


@dataclass(slots=True)
class JobSchemas:
    """The schemas of a file.

    Attributes:
        document: the file, for messages.
        schemas: class → schema of its list of arguments.
        validators: class → its compiled schema.
    """

    document: Document
    schemas: Mapping[str, Any]
    validators: dict[str, Validator] = field(default_factory=dict)

    def check(self, item: Mapping[str, Any]) -> None:
        """Refuse a validated item whose arguments its class' schema does not allow.

        Raises:
            PayloadError: names the argument and the rule; no value is shown.
            ConfigError: the schema itself is wrong.
        """
        for name, path, arguments in _argument_lists(item):
            if name in self.schemas:
                import fastjsonschema  # noqa: PLC0415 - only where a job has a schema

                if (validator := self.validators.get(name)) is None:
                    try:
                        validator = self.validators[name] = compiled(self.schemas[name])
                    except SchemaFault as fault:
                        where = self.document.place(f"schemas.{name}")
                        raise ConfigError(f"{where}: {fault}") from fault
                try:
                    validator(arguments, name_prefix=path)
                except fastjsonschema.JsonSchemaValueException as error:
                    field, why = error.name, error.message.removeprefix(error.name).strip()
                    if len(why) > _LONGEST_REASON:
                        why = f"{why[:_LONGEST_REASON]}…"
                    raise PayloadError(
                        f"{field}: {why} (JSON schema of {name} in {self.document.file})"
                    ) from error
                except (RecursionError, ValueError, TypeError, ArithmeticError) as error:
                    raise PayloadError(
                        f"{path}: cannot be checked by the JSON schema of {name} in {self.document.file}: "
                        f"{type(error).__name__}"
                    ) from error


def compiled(schema: Any) -> Validator:
    """The function that validates a list of arguments.

    Raises:
        SchemaFault: it is no schema, is of a later draft, or refers to another document.
    """
    import fastjsonschema  # noqa: PLC0415 - as above

    _check_supported(schema)
    try:
        # No defaults: the arguments would be changed. No formats: only patterns that stand in the schema.
        validator: Validator = fastjsonschema.compile(
            schema,
            handlers=dict.fromkeys(("http", "https", "ftp", "file"), _refuse),
            use_default=False,
        )
    except Exception as error:  # whatever the compiler raises for a wrong schema
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SchemaFault(f"this is not a JSON schema of draft 4, 6 or 7: {reason}") from error
    return validator


def _check_supported(schema: Any) -> None:
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        if not isinstance(value, Mapping):
            continue
        pending += value.values()
        draft, reference = value.get("$schema", ""), value.get("$ref", "#")
        if isinstance(draft, str) and draft and not any(name in draft for name in _DRAFTS):
            raise SchemaFault(
                f"$schema: {shorten(draft)} is not draft 4, 6 or 7, which are supported"
            )
        if isinstance(reference, str) and not reference.startswith("#"):
            raise SchemaFault(
                f"$ref: {shorten(reference)} is in another document; write it under definitions of this "
                "schema and refer to #/definitions/NAME"
            )
        for key in value:
            if key in _NEWER:
                raise SchemaFault(
                    f"{key}: belongs to a later draft; write draft 7, where a list of schemas under items "
                    "describes one argument each"
                )


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is in another document")


def _argument_lists(item: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The class that runs, the path of its arguments, and these; as the allow-list names classes."""
    if active_job.is_active_job(item):
        keywords = [item["kwargs"]] if item.get("kwargs") else []
        yield item[active_job.KEY], "args", [*item["args"], *keywords]
        return
    if item["class"] not in active_job.WRAPPERS:
        yield item["class"], "args", item["args"]
        return
    inner = item["args"][0] if item["args"] else None
    if isinstance(inner, Mapping) and isinstance(inner.get("job_class"), str):
        yield inner["job_class"], "args[0].arguments", inner.get("arguments")
