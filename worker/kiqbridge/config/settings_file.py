"""Reading a file of settings: YAML as Sidekiq writes it, symbols and aliases included.

A plain `:name` is a symbol in Ruby's YAML, as key or value and at any depth; here it becomes the
text `name`. In quotes it stays as it is, as in Ruby. ERB that reads environment variables is understood (erb.py).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from kiqbridge.config import erb
from kiqbridge.errors import ConfigError


def read_file(path: Path, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Parse a file of settings; its ERB may read `environ`.

    Raises:
        ConfigError: not readable, or as `parse`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path), environ)


def queues_in(settings: Mapping[str, Any], name: str) -> dict[str, str]:
    """The queues that a worker with these settings serves → as `-q` takes each; `name` is how messages call the file.

    Raises:
        ConfigError: `queues` is no list.
    """
    queues = settings.get("queues", ["default"])
    if not isinstance(queues, list):
        raise ConfigError(f"{name}: queues is no list: write the names of the queues")
    words = [",".join(map(str, each)) if isinstance(each, list) else str(each) for each in queues]
    return {word.partition(",")[0]: word for word in words}


def parse(text: str, name: str, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Settings out of YAML text; `name` is how messages call it, `environ` what its ERB may read.

    Raises:
        ConfigError: no YAML, no mapping, or ERB that is not understood.
    """
    try:
        import yaml  # noqa: PLC0415 - only where there is a file
    except ImportError as error:
        raise ConfigError(
            f"{name}: reading YAML needs PyYAML; pip install 'kiqbridge[worker]'"
        ) from error
    from kiqbridge.wire.bounded_yaml import BoundError  # noqa: PLC0415 - loads PyYAML

    if "<%" in text:
        text = erb.render(text, name, environ)
    try:
        content = yaml.load(text, Loader=_loader())  # noqa: S506 - made from SafeLoader
    except BoundError as error:
        raise ConfigError(f"{name}: line {error.line}: {error.text}") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        # From None: what PyYAML says of an error quotes the line, which may hold a secret.
        raise ConfigError(f"{name}: is no YAML: {_reason(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{name}: holds {type(content).__name__}, not settings; write key: value lines"
        )
    return {str(key): value for key, value in content.items()}


def _reason(error: Exception) -> str:
    """What is wrong, and where, without the text of the line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error)
    problem = getattr(error, "problem", None) or getattr(error, "context", None)
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"


def _loader() -> Any:
    """A safe loader that also knows Ruby's symbols; constructs nothing but plain values."""
    import yaml  # noqa: PLC0415 - as in `parse`, which has found it

    from kiqbridge.wire.bounded_yaml import BoundedLoader  # noqa: PLC0415 - loads PyYAML

    class Loader(BoundedLoader):
        # Libraries put constructors for any tag into SafeLoader itself; ours knows plain values only.
        yaml_constructors = yaml.constructor.SafeConstructor.yaml_constructors.copy()
        yaml_multi_constructors: ClassVar[dict[str | None, Any]] = {}

    def symbol(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        text = str(loader.construct_scalar(node))
        return text.removeprefix(":").strip("'\"") if node.tag == _SYMBOL else text

    Loader.add_implicit_resolver(_SYMBOL, re.compile(r"^:[^:\s]"), [":"])
    for tag in (_SYMBOL, "!ruby/symbol", "!ruby/sym"):
        Loader.add_constructor(tag, symbol)
    return Loader


_SYMBOL = "tag:kiqbridge,2026:symbol"
