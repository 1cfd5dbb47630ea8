"""JSON schemas of the arguments of jobs, checked before the push; compiled when a class first needs it.

A schema comes from the file of mappings, never from an event. It describes the list of arguments in
JSON Schema draft 4, 6 or 7. fastjsonschema compiles it to Python once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.features.mappings.document import Document
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import active_job

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
