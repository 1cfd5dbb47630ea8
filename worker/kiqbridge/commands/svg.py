"""SVG pictures without a library: a canvas that collects shapes, and the colours that they share.

A picture has a white ground of its own, so that it reads the same on light and on dark pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape, quoteattr

INK: Final = "#1f2933"
FAINT: Final = "#66727f"
LINE: Final = "#d5dbe1"
PAPER: Final = "#ffffff"
_FONT: Final = (
    "-apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', Helvetica, Arial, sans-serif"
)
_MARGIN: Final = 12


@dataclass(slots=True, kw_only=True)
class Canvas:
    """A picture under construction; lengths are pixels, y grows downwards.

    Attributes:
        width, height: of the whole.
        title: what it is, for readers that see no picture.
        description: the same in a few sentences.
    """

    width: int
    height: int
    title: str
    description: str = ""
    _shapes: list[str] = field(default_factory=list)

    def text(
        self,
        place: tuple[float, float],
        content: str,
        *,
        size: float = 12,
        colour: str = INK,
        anchor: str = "start",
        weight: int = 400,
    ) -> None:
        """A line of text; `place` is the end of its base line that `anchor` names."""
        bold = f' font-weight="{weight}"' if weight != 400 else ""  # noqa: PLR2004 - CSS' normal
        aligned = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._shapes.append(
            f'<text x="{_number(place[0])}" y="{_number(place[1])}" font-size="{_number(size)}"'
            f' fill="{colour}"{aligned}{bold}>{escape(content)}</text>'
        )

    def box(
        self,
        place: tuple[float, float],
        size: tuple[float, float],
        *,
        fill: str,
        edge: str = "",
        label: str = "",
        radius: float = 0,
    ) -> None:
        """A rectangle; a label is shown when the mouse rests on it."""
        stroke = f' stroke="{edge}"' if edge else ""
        round_ = f' rx="{_number(radius)}"' if radius else ""
        shape = (
            f'<rect x="{_number(place[0])}" y="{_number(place[1])}" width="{_number(size[0])}"'
            f' height="{_number(size[1])}" fill="{fill}"{stroke}{round_}'
        )
        self._shapes.append(
            f"{shape}><title>{escape(label)}</title></rect>" if label else f"{shape}/>"
        )

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        *,
        colour: str = LINE,
        width: float = 1,
        dashed: bool = False,
    ) -> None:
        """A straight line."""
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self._shapes.append(
            f'<line x1="{_number(start[0])}" y1="{_number(start[1])}" x2="{_number(end[0])}"'
            f' y2="{_number(end[1])}" stroke="{colour}" stroke-width="{_number(width)}"{dashes}/>'
        )

    def trace(
        self, points: Sequence[tuple[float, float]], *, colour: str, width: float = 1.6
    ) -> None:
        """A line through points."""
        self._shapes.append(
            f'<polyline points="{_points(points)}" fill="none" stroke="{colour}"'
            f' stroke-width="{_number(width)}" stroke-linejoin="round"/>'
        )

    def area(self, points: Sequence[tuple[float, float]], *, fill: str, label: str = "") -> None:
        """A filled shape with corners; a label is shown when the mouse rests on it."""
        shape = f'<polygon points="{_points(points)}" fill="{fill}"'
        self._shapes.append(
            f"{shape}><title>{escape(label)}</title></polygon>" if label else f"{shape}/>"
        )

    def dot(
        self,
        place: tuple[float, float],
        radius: float,
        *,
        fill: str,
        edge: str = "",
        label: str = "",
    ) -> None:
        """A circle; a label is shown when the mouse rests on it."""
        stroke = f' stroke="{edge}" stroke-width="1.6"' if edge else ""
        shape = (
            f'<circle cx="{_number(place[0])}" cy="{_number(place[1])}" r="{_number(radius)}"'
            f' fill="{fill}"{stroke}'
        )
        self._shapes.append(
            f"{shape}><title>{escape(label)}</title></circle>" if label else f"{shape}/>"
        )

    def to_text(self) -> str:
        """The picture as the text of a file."""
        size = f'width="{self.width}" height="{self.height}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {self.width} {self.height}"'
            f' role="img" aria-label={quoteattr(self.title)} font-family="{_FONT}">'
        )
        ground = (
            f'<rect {size} rx="{_MARGIN / 2:g}" fill="{PAPER}"/>'  # else a dark page shows through
        )
        described = f"<desc>{escape(self.description)}</desc>" if self.description else ""
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title + described, ground, *self._shapes, "</svg>"]) + "\n"


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
