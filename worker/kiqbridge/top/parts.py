"""What the program is made of besides its tables: the names of the screens, and what threads send to it."""

from rich.text import Text
from textual.message import Message
from textual.widgets import Static

from kiqbridge.top.model import SCREENS, Frame, View


class Tab(Static):
    """The name of a screen, which a click opens."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(
            Text.assemble((f" {number} ", "dim"), f"{SCREENS[name]} "), id=f"tab-{name}"
        )
        self._screen_name = name

    async def on_click(self) -> None:
        """As its number key."""
        await self.run_action(f"app.go('{self._screen_name}')")


class Seen(Message):
    """A frame was read."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame


class Unseen(Message):
    """Redis could not be read."""

    def __init__(self, view: View, error: Exception) -> None:
        super().__init__()
        self.view, self.error = view, error


class Said(Message):
    """An action goes on, has ended, or failed."""

    def __init__(self, text: str, *, is_end: bool, is_error: bool = False) -> None:
        super().__init__()
        self.text, self.is_end, self.is_error = text, is_end, is_error
