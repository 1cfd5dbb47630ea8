"""Elements of SVG and HTML, escaped.

Horizontal places are percentages and vertical ones pixels: a plot is as wide as its place, and its text keeps the
size of the page's text, on a phone as well.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from markupsafe import Markup, escape


def tag(name: str, *content: str | Markup, **attributes: object) -> Markup:
    """An element; `class_` is the attribute `class`, `aria_label` is `aria-label`; what is None is left out."""
    # A page has a thousand of these: each value is escaped once, and all is joined once.
    given = "".join(
        [
            f' {_attribute(key)}="{_value(value)}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    inner = join(content)
    closed = f"<{name}{given}>{inner}</{name}>" if inner else f"<{name}{given}/>"
    return Markup(closed)  # noqa: S704 - names are ours, values and content are escaped


def join(parts: Iterable[str | Markup]) -> Markup:
    """One after the other, escaped where that was not done."""
    return Markup("".join([escape(part) for part in parts]))  # noqa: S704 - escaped right here


@lru_cache(maxsize=200)
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def percent(share: float) -> str:
    """A share of 1 as SVG writes a percentage: `37.5%`."""
    return f"{number(100 * share)}%"


def number(value: float) -> str:
    """With two decimals at most."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str | Markup]]) -> Markup:
    """The numbers of a plot for those who do not see it, or want to copy them, folded."""
    head = tag("tr", *(tag("th", heading, scope="col") for heading in headings))
    body = [
        tag(
            "tr",
            tag("th", first, scope="row"),
            *(tag("td", cell, class_="number") for cell in cells),
        )
        for first, *cells in rows
    ]
    found = tag(
        "table",
        tag("caption", caption, class_="hidden"),
        tag("thead", head),
        tag("tbody", *body),
    )
    scrolled = tag("div", found, class_="table-wrap", tabindex=0, role="region", aria_label=caption)
    return tag("details", tag("summary", "As a table"), scrolled, class_="plot-table")


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else escape(value)
