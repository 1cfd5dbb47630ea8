"""What lies over the screen for a moment: a question, a line to write, a text to read."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class Question(ModalScreen[bool]):
    """Whether something is to be done: `y` does it, anything else that ends it does not.

    Args:
        question: what would happen, to how many.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q,enter", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        """The question, and the keys that answer it."""
        keys = Text.assemble(("y", "bold yellow"), " yes    ", ("n", "bold yellow"), " no")
        with Vertical(classes="box"):
            yield Static(Text(self.question), id="question")
            yield Static(keys, classes="keys")

    def action_answer(self, answer: bool) -> None:  # noqa: FBT001 - as a binding gives it
        """Close it."""
        self.dismiss(answer)


class Line(ModalScreen[str | None]):
    """A line to write; None if it was left by Escape.

    Args:
        title: what it is for.
        value: what stands there at first.
        hint: an example.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    def __init__(self, title: str, value: str, hint: str) -> None:
        super().__init__()
        self._title_text, self._value, self._hint = title, value, hint

    def compose(self) -> ComposeResult:
        """Title, line and example."""
        with Vertical(classes="box"):
            yield Static(Text(self._title_text))
            yield Input(self._value, id="line")
            yield Static(Text(self._hint, style="dim"), classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Escape."""
        self.dismiss(None)


class Reading(ModalScreen[None]):
    """A text to read and to scroll.

    Args:
        title: what it is about.
        text: shown as it is.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "leave", "Leave"),
        Binding("down,j", "scroll('down')", show=False),
        Binding("up,k", "scroll('up')", show=False),
        Binding("pagedown,space", "scroll('page_down')", show=False),
        Binding("pageup", "scroll('page_up')", show=False),
        Binding("home,g", "scroll('home')", show=False),
        Binding("end,G", "scroll('end')", show=False),
    ]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title_text, self._text = title, text

    def compose(self) -> ComposeResult:
        """Title, text, and the keys that close it."""
        with Vertical(classes="page"):
            yield Static(Text(self._title_text, style="bold"), classes="head")
            with VerticalScroll(id="text", can_focus=False):
                yield Static(self._text)
            yield Static(Text("↑ ↓ scroll    Esc back", style="dim"), classes="keys")

    def action_scroll(self, where: str) -> None:
        """Move the text."""
        getattr(self.query_one("#text", VerticalScroll), f"scroll_{where}")(animate=False)

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss(None)
