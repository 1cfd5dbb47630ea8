"""The program: its screen, the look at Redis each second, and what keys do."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Sparkline, Static

from kiqbridge.api import Operator
from kiqbridge.errors import KiqbridgeError, PayloadError
from kiqbridge.top import words
from kiqbridge.top.acts import Action, Deed, actions_for, carry_out
from kiqbridge.top.background import Background
from kiqbridge.top.details import details_of, title_of
from kiqbridge.top.dialogs import Line, Question, Reading
from kiqbridge.top.looks import Looks
from kiqbridge.top.model import (
    SCREENS,
    Frame,
    Kind,
    Listing,
    Role,
    Row,
    View,
    may,
    parse_words,
)
from kiqbridge.top.parts import Said, Seen, Tab, Unseen
from kiqbridge.top.rows import QueueItem
from kiqbridge.top.shards import rate_between
from kiqbridge.top.style import CSS
from kiqbridge.top.table import Table
from kiqbridge.top.visible import visible

_RATE_SAMPLES: Final = 240
_TABLES: Final = ("first", "second", "third")


class Top(App[None]):
    """Sidekiq's screens in a terminal.

    Args:
        operator: where to look, and in whose name to act.
        role: what is allowed.
        interval_s: between two looks.
        screen: to begin with, a name of SCREENS.
    """

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    TITLE = "kiqbridge top"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Quit"),
        Binding("left", "turn(-1)", show=False),
        Binding("right", "turn(1)", show=False),
        Binding("left_square_bracket", "page(-1)", show=False),
        Binding("right_square_bracket", "page(1)", show=False),
        Binding("slash", "filter", show=False),
        Binding("space", "mark", show=False),
        Binding("escape", "step_back", show=False),
        Binding("f5", "look", show=False),
        Binding("question_mark", "help", show=False),
        *(
            Binding(str(place), f"go('{name}')", show=False)
            for place, name in enumerate(SCREENS, 1)
        ),
    ]

    def __init__(
        self,
        operator: Operator,
        *,
        role: Role = "viewer",
        interval_s: float = 1.0,
        screen: str = "now",
    ) -> None:
        super().__init__()
        self.operator = operator
        self.role: Role = role
        self.view = View(screen=screen)
        self.frame: Frame | None = None
        self.away_since: float | None = None
        self.said = Text()
        self._interval_s = interval_s
        self._looks = Looks(operator, interval_s, self.post_message)
        self._acts = Background("top-acts")
        self._is_acting = False
        self._marked: dict[str, Row] = {}
        self._rates: list[float] = []
        self._missing_since: dict[str, float] = {}

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Static(id="top")
        yield Static(id="counts")
        with Horizontal(id="tabs"):
            for number, name in enumerate(SCREENS, start=1):
                yield Tab(name, number)
        yield Static(id="away")
        yield Static(id="verdict")
        yield Static(id="rate-title")
        yield Sparkline(id="rate", summary_function=max)
        for name in _TABLES:
            yield Static(id=f"{name}-title", classes="title")
            yield Table(name)
        yield Static(id="status")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Look at once, then each interval."""
        self._show_around()
        self.query_one("#first", Table).focus()
        self.set_interval(min(0.1, self._interval_s), self._look_when_due)
        self._look_when_due()

    def on_resize(self) -> None:
        """The columns share another width."""
        self.call_after_refresh(self._refit)

    def _refit(self) -> None:
        for name in _TABLES:
            self.query_one(f"#{name}", Table).refit()
        self._show_around()

    def _look_when_due(self) -> None:
        self._looks.look_when_due(self.view)

    def on_seen(self, event: Seen) -> None:
        """Show a frame, unless another screen is wanted by now."""
        frame = event.frame
        if len(self.query(Table)) < len(_TABLES):  # the program is ending
            return
        self._looks.ended(frame.view, self.view)
        if self.away_since is not None:
            self.away_since, self.said = None, Text()
        if frame.view != self.view:
            return
        if self.frame is not None:
            self._rates = [*self._rates, rate_between(self.frame, frame)][-_RATE_SAMPLES:]
        self.frame = frame
        since = self._missing_since
        self._missing_since = {name: since.get(name, frame.at) for name in frame.missing}
        present = {row.key for listing in frame.listings for row in listing.rows}
        if not frame.view.typed:  # a filter may reach fewer rows in one look than in another
            self._marked = {key: row for key, row in self._marked.items() if key in present}
        self._show_listings(frame.listings)
        self._show_around()

    def on_unseen(self, event: Unseen) -> None:
        """Say so; what was seen before stays on the screen."""
        self._looks.ended(event.view, self.view)
        self.away_since = self.away_since or time.time()
        known = isinstance(event.error, KiqbridgeError)
        text = str(event.error) if known else f"{type(event.error).__name__}: {event.error}"
        self._say(f"not refreshed since {words.clock(self.away_since)}: {text}", is_error=True)
        self._show_around()

    def _show_listings(self, listings: Sequence[Listing]) -> None:
        for place, name in enumerate(_TABLES):
            table, title = (
                self.query_one(f"#{name}", Table),
                self.query_one(f"#{name}-title", Static),
            )
            is_there = place < len(listings)
            table.display = title.display = is_there
            table.set_class(place + 1 < len(listings), "upper")
            table.set_class(place + 1 < len(listings) == len(_TABLES), "third")
            if is_there:
                marked = [row.key for row in listings[place].rows if row.key in self._marked]
                title.update(words.title_line(listings[place], self.view, len(marked)))
                table.show(listings[place], marked)
        if not isinstance(self.focused, Table) or not self.focused.display:
            self.query_one("#first", Table).focus()

    def _show_around(self) -> None:
        width = self.size.width
        at = self.frame.at if self.frame else None
        missing = self.frame.missing if self.frame else {}
        where = words.place(self.operator, missing)
        self.query_one("#top", Static).update(words.top_line(where, self.role, at, width))
        if self.frame is not None:
            self.query_one("#counts", Static).update(words.counts_line(self.frame.stats))
        for name in SCREENS:
            self.query_one(f"#tab-{name}").set_class(name == self.view.screen, "current")
        is_now = self.view.screen == "now"
        away = self.query_one("#away", Static)
        away.display = bool(missing) and not is_now  # there the verdict says it
        away.update(words.away_lines(missing, self._missing_since, width))
        rate, title = self.query_one("#rate", Sparkline), self.query_one("#rate-title", Static)
        verdict = self.query_one("#verdict", Static)
        rate.display = title.display = is_now
        verdict.display = is_now and self.frame is not None and self.frame.verdict is not None
        if is_now and self.frame is not None and self.frame.verdict is not None:
            verdict.update(words.verdict_lines(self.frame.verdict))
        if is_now:
            rate.data = self._rates or [0.0]
            title.update(words.rate_line(self._rates))
        self.query_one("#status", Static).update(self.said)
        keys = [(each.key, each.label) for each in self._allowed()]
        self.query_one("#keys", Static).update(words.keys_line(keys))

    def on_descendant_focus(self) -> None:
        """The keys are those of the table with the focus."""
        self._show_around()

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.said = Text(visible(text, 500), style="bold red" if is_error else "green")

    def _change(self, view: View) -> None:
        self.view, self._marked, self.said = view, {}, Text()
        self._looks.look_at_once(self.view)
        self._show_around()

    def action_go(self, screen: str) -> None:
        """Another screen, from its beginning."""
        self._change(View(screen=screen))

    def action_turn(self, step: int) -> None:
        """The screen beside."""
        names = list(SCREENS)
        self.action_go(names[(names.index(self.view.screen) + step) % len(names)])

    def action_page(self, step: int) -> None:
        """The page before or after."""
        pages = max((each.pages for each in self.frame.listings), default=1) if self.frame else 1
        page = min(max(1, self.view.page + step), pages)
        if page != self.view.page:
            self._change(replace(self.view, page=page))

    def action_look(self) -> None:
        """Look now."""
        self._looks.look_at_once(self.view)

    def action_step_back(self) -> None:
        """Select nothing, else end the filter, else leave the queue."""
        if self._marked:
            self._marked = {}
            self._reshow()
        elif self.view.typed:
            self._change(replace(self.view, typed="", page=1))
        elif self.view.queue:
            self.action_go("queues")

    def _reshow(self) -> None:
        if self.frame is not None and self.frame.view == self.view:
            self._show_listings(self.frame.listings)
        self._show_around()

    def action_filter(self) -> None:
        """Ask for a filter."""
        hint = "class=Mail* error=timeout queue=default tag=x arg=42, or any text; nothing ends it"

        def use(typed: str | None) -> None:
            if typed is None:
                return
            try:
                parse_words(typed)
            except PayloadError as error:
                self._say(str(error), is_error=True)
                self._show_around()
            else:
                self._change(replace(self.view, typed=typed, page=1))

        self.push_screen(Line("Filter", self.view.typed, hint), use)

    def action_help(self) -> None:
        """All keys."""
        actions = [
            (
                each.key,
                each.question.format(what="the selected rows" if not each.is_for_all else "all"),
                each.role,
            )
            for each in actions_for(self._kind())
        ]
        self.push_screen(Reading("Keys", words.help_text(actions, self.role)))

    def on_table_opened(self) -> None:
        """Enter: the jobs of a queue, or details."""
        row = self._table().row_at_cursor
        if row is None:
            return
        if isinstance(row.item, QueueItem):
            self._change(View(screen="queues", queue=row.item.queue.name))
            return
        text = details_of(row, self.frame.at if self.frame else time.time())
        if text is not None:
            self.push_screen(Reading(title_of(row), text))

    def action_mark(self) -> None:
        """Select the row under the cursor, or no longer; the cursor moves on."""
        table = self._table()
        row = table.row_at_cursor
        if row is None or not actions_for(self._kind()):
            return
        if row.key in self._marked:
            del self._marked[row.key]
        else:
            self._marked[row.key] = row
        self._reshow()
        table.action_cursor_down()

    def on_key(self, event: events.Key) -> None:
        """The keys of actions; they depend on the table with the focus."""
        action = next(
            (each for each in actions_for(self._kind()) if each.key == event.character), None
        )
        if action is not None and len(self.screen_stack) == 1:
            event.stop()
            self._ask(action)

    def _ask(self, action: Action) -> None:
        if not may(self.role, action.role):
            self._say(
                f"{action.label}: needs --role {action.role}; this was started with {self.role}",
                is_error=True,
            )
        elif self._is_acting:
            self._say("an action is still going on: wait for its end", is_error=True)
        elif (deed := self._deed(action)) is not None:
            question = action.question.format(what=words.what(action, deed))
            self.push_screen(Question(question), partial(self._answered, action, deed))
        self._show_around()

    def _deed(self, action: Action) -> Deed | None:
        """What the action would be done to; None: to nothing."""
        listing = self._listing()
        if listing is None or not listing.rows:
            return None
        rows = [] if action.is_for_all else self._chosen()
        if not rows and not action.is_for_all:
            return None
        return Deed(
            operator=self.operator,
            kind=listing.kind,
            items=[row.item for row in rows],
            view=self.view,
            total=listing.total,
            progress=self._progress,
        )

    def _chosen(self) -> Sequence[Row]:
        """The selected rows of the table with the focus, else the one under its cursor."""
        table = self._table()
        marked = [row for row in table.rows_shown if row.key in self._marked]
        row = table.row_at_cursor
        return marked or ([row] if row else [])

    def _answered(self, action: Action, deed: Deed, answer: bool | None) -> None:  # noqa: FBT001 - as the dialog gives it
        if answer:
            self._is_acting = True
            self._say(f"{action.label} …")
            self._acts.submit(partial(self._act, action, deed))
        self._show_around()

    def _act(self, action: Action, deed: Deed) -> None:
        """In the thread beside."""
        try:
            done = carry_out(action, deed)
        except Exception as error:  # noqa: BLE001 - it is shown; nothing else would show it
            text = f"{action.label}: {error}; look at what was done before you repeat it"
            self.post_message(Said(text, is_end=True, is_error=True))
        else:
            self.post_message(Said(done, is_end=True))

    def _progress(self, done: int, looked_at: int) -> None:
        self.post_message(Said(f"{done:,} done, {looked_at:,} looked at …", is_end=False))

    def on_said(self, event: Said) -> None:
        """An action goes on or has ended."""
        self._say(event.text, is_error=event.is_error)
        if event.is_end:
            self._is_acting = False
            self._marked = {}
            self._looks.look_at_once(self.view)
            self._reshow()
        self._show_around()

    def action_leave(self) -> None:
        """Quit, but not in the middle of an action."""
        if self._is_acting:
            self._say("an action is still going on; Ctrl+Q leaves in its middle", is_error=True)
            self._show_around()
        else:
            self.exit()

    def _allowed(self) -> Sequence[Action]:
        return [each for each in actions_for(self._kind()) if may(self.role, each.role)]

    def _table(self) -> Table:
        return self.focused if isinstance(self.focused, Table) else self.query_one("#first", Table)

    def _listing(self) -> Listing | None:
        return self._table().listing if self.frame and self.frame.view == self.view else None

    def _kind(self) -> Kind | None:
        listing = self._listing()
        return listing.kind if listing else None
