"""The mappings of a function, as its enqueuer asks for them."""

from collections.abc import Mapping
from pathlib import Path

from kiqbridge.aws.requests import Mapped
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.features.mappings.document import find, load


def mapped(environ: Mapping[str, str], folder: Path) -> Mapped | None:
    """What the mappings of a function make and restrict; None = it has none.

    Raises:
        ConfigError: the file has faults.
    """
    path = find(folder, read(ForFunctions.mappings, environ))
    if path is None or (found := load(path)) is None:
        return None
    # Loaded only where there are mappings: a cold start waits for each module.
    from kiqbridge.features.mappings import declared  # noqa: PLC0415
    from kiqbridge.features.mappings.document import JobSchemas  # noqa: PLC0415
    from kiqbridge.features.mappings.mapper import Mapper  # noqa: PLC0415

    content = declared.read(found)
    schemas = JobSchemas(found, content.schemas) if content.schemas else None
    return Mapped(Mapper(found, content), schemas, content.rules)
