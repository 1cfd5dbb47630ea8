"""The ERB that stands in files of Sidekiq's settings: environment variables with defaults.

`<%= ENV["X"] %>`, `<%= ENV.fetch("X") %>`, `<%= ENV.fetch("X", 5) %>`, `<%= ENV.fetch("X") { 5 } %>` and `ENV["X"] || 5`,
in parentheses or in `Integer(…)`, with `.to_i`, and comments. Nothing is evaluated: what has another form is refused.
As in Ruby the value is put into the text before the text is read as YAML.
"""

import re
from collections.abc import Mapping
from typing import Final

from kiqbridge.errors import ConfigError
from kiqbridge.runtime.redaction import shorten

_TAG: Final = re.compile(r"<%(?P<kind>[=#]?)(?P<code>.*?)-?%>", re.DOTALL)
_LITERAL: Final = r"""(?:\d+|'[^'\\]*'|"[^"\\#]*")"""
_FORM: Final = re.compile(
    rf"""
    (?P<open>Integer\(|\()?\s*
    ENV(?:
        \[\s*(?P<quote>["'])(?P<name>\w+)(?P=quote)\s*\]
        | \.fetch\(\s*(?P<fetch_quote>["'])(?P<fetched>\w+)(?P=fetch_quote)\s*
            (?:,\s*(?P<default>{_LITERAL})\s*)?\)
            (?:\s*\{{\s*(?P<block>{_LITERAL})\s*\}})?
    )\s*
    (?:\|\|\s*(?P<other>{_LITERAL})\s*)?
    (?P<close>\))?
    (?P<to_i>\.to_i)?
    """,
    re.VERBOSE,
)
_UNDERSTOOD: Final = '<%= ENV["X"] %>, <%= ENV.fetch("X", 5) %> and <%= ENV["X"] || 5 %>, also with .to_i or in Integer(…)'


def render(text: str, name: str, environ: Mapping[str, str]) -> str:
    """The text with the value of each tag in the tag's place; `name` is how messages call the file.

    Raises:
        ConfigError: a tag of another form, a variable that must be set, or a value that is no number; with its line.
    """

    def value(tag: re.Match[str]) -> str:
        where = f"{name}: line {text.count(chr(10), 0, tag.start()) + 1}"
        return "" if tag["kind"] == "#" else _value(tag, where, environ)

    if "<%" in _TAG.sub("", text):
        raise ConfigError(f"{name}: a <% has no %>; close it, or write the value")
    return _TAG.sub(value, text)


def _value(tag: re.Match[str], where: str, environ: Mapping[str, str]) -> str:
    form = _FORM.fullmatch(tag["code"].strip())
    if form is None or not tag["kind"] or bool(form["open"]) != bool(form["close"]):
        raise ConfigError(
            f"{where}: {shorten(tag[0])} is Ruby that is not evaluated here; understood are {_UNDERSTOOD}. Write the "
            "value, or set it by the environment (docs/reference/settings.md)"
        )
    variable = form["name"] or form["fetched"]
    given = environ.get(variable)
    if given is None:
        default = form["default"] or form["block"] or form["other"]
        if default is None and form["fetched"]:
            raise ConfigError(
                f"{where}: {tag[0]} needs the environment variable {variable}, which is not set; set it, or give a "
                f'default: ENV.fetch("{variable}", …)'
            )
        given = (default or "").strip("'\"")
    if form["open"] == "Integer(" and not re.fullmatch(r"\s*[+-]?\d+\s*", given):
        raise ConfigError(
            f"{where}: the environment variable {variable} is no whole number, which {tag[0]} asks for"
        )
    if form["to_i"]:
        number = re.match(r"\s*[+-]?\d+", given)
        return str(int(number[0])) if number else "0"
    return given
