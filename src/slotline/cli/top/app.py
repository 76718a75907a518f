"""The terminal application of `slotline top`. Needs Textual, so that only the command imports it, when it is to run.

What is shown is made in `slotline.cli.top.view`; this knows keys, a cursor and a screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from slotline.cli.printable import one_line
from slotline.cli.top.feed import Away, Feed, Trouble
from slotline.cli.top.table import Row, Tone
from slotline.cli.top.view import Speeds, detail, rows, totals
from slotline.core.report import Request, State
from slotline.core.why import spoken

_STYLES: Final = {
    Tone.PLAIN: "",
    Tone.DIM: "dim",
    Tone.STRONG: "bold",
    Tone.GOOD: "green",
    Tone.BUSY: "yellow",
    Tone.BAD: "bold red",
}
_MARK: Final = "› "


class Top(App[None]):
    """Shows what `feed` tells until the person leaves."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; }
    #rows { text-wrap: nowrap; }
    #board { height: 1fr; scrollbar-size-vertical: 1; }
    Ask, Detail { align: center middle; }
    .box { width: 90%; max-width: 110; height: auto; max-height: 90%; border: round $foreground; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("up", "move(-1)", "choose", key_display="↑↓", priority=True),
        Binding("down", "move(1)", "choose", show=False, priority=True),
        Binding("home", "move(-100000)", show=False, priority=True),
        Binding("end", "move(100000)", show=False, priority=True),
        Binding("enter", "detail", "why?"),
        Binding("k,delete", "end", "end it", key_display="k"),
    ]

    def __init__(self, feed: Feed, url: str) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.speeds = Speeds()
        self.state: State | None = None
        self.away: Away | None = None
        self._feed = feed
        self._url = url
        self._rows: Sequence[Row] = ()
        self._chosen: str | None = None  # a request
        self._head = Static(id="head")
        self._text = Static(id="rows")
        self._board = VerticalScroll(self._text, id="board", can_focus=False)

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._board
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._follow()
        self.set_interval(1, self._show_head)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    @work
    async def _follow(self) -> None:
        async for news in self._feed.follow():
            if isinstance(news, Away):
                self.away = news
            else:
                self.away, self.state = None, news
                self.speeds.note(news)
            self._show()

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def _show(self) -> None:
        self._show_head()
        width = self._board.size.width - len(_MARK) - 1
        if self.state is not None and width > 0:
            self._rows = rows(self.state, self.speeds, width)
            self._choose()
            self._show_rows()
        if isinstance(self.screen, Detail):
            self.screen.tell(self.state, self.speeds)
        elif isinstance(self.screen, Ask) and self.state is not None:
            self.screen.check(self.state)

    def _show_head(self) -> None:
        title = f"slotline top · {self._url}"
        if self.state is not None:
            title += f" · {self.state.gateway.version}"
        said = totals(self.state, self.speeds) if self.state is not None else "connecting …"
        second = Text(said, "dim" if self.away else "", no_wrap=True, overflow="ellipsis")
        lines = [Text(title, "bold", no_wrap=True, overflow="ellipsis"), second]
        if self.away is not None:
            why = one_line(self.away.why)
            if not self.away.there:
                gone = asyncio.get_running_loop().time() - self.away.since
                why = f"gateway not reachable for {spoken(round(gone))}: {why}"
            lines[1:] = [Text(why, "bold red"), *([second] if self.state is not None else [])]
        self._head.update(Group(*lines, Text("")))

    def _show_rows(self) -> None:
        text = Text(no_wrap=True, overflow="crop")
        for row in self._rows:
            chosen = row.request is not None and row.request == self._chosen
            line = Text(_MARK if chosen else " " * len(_MARK))
            for span in row.spans:
                line.append(span.text, "dim" if self.away else _STYLES[span.tone])
            if chosen:
                line.stylize("reverse")
            text.append_text(line).append("\n")
        self._text.update(text)

    # ---- the cursor --------------------------------------------------------------------------------------------------

    def _requests(self) -> list[str]:
        return [row.request for row in self._rows if row.request is not None]

    def _choose(self) -> None:
        """Stays with its request, while that is there; else nothing is chosen, so that no key meets another one."""
        if self._chosen not in self._requests():
            self._chosen = None

    def action_move(self, by: int) -> None:
        """The next or the previous request."""
        requests = self._requests()
        if not requests or self.screen.is_modal:
            return
        before = -1 if by > 0 else len(requests)  # the end that one comes from who has chosen nothing
        place = before if self._chosen is None else requests.index(self._chosen)
        self._chosen = requests[max(0, min(len(requests) - 1, place + by))]
        self._show_rows()
        line = next(number for number, row in enumerate(self._rows) if row.request == self._chosen)
        self._board.scroll_to_region(Region(0, max(0, line - 2), 1, 4), animate=False, force=True)

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        if event.widget is self._text:
            row = self._rows[event.y] if event.y < len(self._rows) else None
            if row is not None and row.request is not None:
                self._chosen = row.request
                self._show_rows()

    def _request(self) -> Request | None:
        """The one that is chosen."""
        requests = self.state.requests if self.state is not None else ()
        return next((each for each in requests if each.id == self._chosen), None)

    # ---- what is done ------------------------------------------------------------------------------------------------

    def action_detail(self) -> None:
        """All about the request, and why."""
        request = self._request()
        if request is None:
            self.notify("choose a request with ↑ and ↓")
        else:
            self.push_screen(Detail(request, self._feed, self.speeds))

    @work
    async def action_end(self) -> None:
        """Ends the request, if the person is sure."""
        request = self._request()
        if request is None:
            self.notify("choose a request with ↑ and ↓")
        elif await self.push_screen_wait(Ask(request)):
            try:
                await self._feed.end(request.id)
            except Trouble as trouble:
                self.notify(one_line(str(trouble)), severity="error", markup=False)
            else:
                self.notify(f"{request.id} was ended")


class Detail(ModalScreen[None]):
    """One request, as it goes on; once it has gone, how it ended."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "back", key_display="esc")]

    def __init__(self, request: Request, feed: Feed, speeds: Speeds) -> None:
        super().__init__()
        self._request = request
        self._feed = feed
        self._speeds = speeds
        self._told = Static(id="told")

    def compose(self) -> ComposeResult:
        yield VerticalScroll(self._told, classes="box")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._show()

    def tell(self, state: State | None, speeds: Speeds) -> None:
        """The next state is there."""
        if self._request.outcome is not None or state is None:
            return
        now = next((each for each in state.requests if each.id == self._request.id), None)
        if now is None:
            self._ask()
        else:
            self._request = now
            self._show()

    @work(exclusive=True)
    async def _ask(self) -> None:
        try:
            self._request = await self._feed.request(self._request.id)
        except Trouble:  # it ended too long ago, or the gateway is not there: what was known stays
            return
        self._show()

    def _show(self) -> None:
        table = Table.grid(padding=(0, 2))
        for name, value in detail(self._request, self._speeds):
            table.add_row(Text(name, "dim"), Text(value))
        self._told.update(Group(Text(f"It {one_line(self._request.why)}."), Text(""), table))


class Ask(ModalScreen[bool]):
    """Whether a request is to be ended."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "end it"),
        Binding("n,escape,q", "dismiss(False)", "leave it", key_display="n"),
    ]

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    def check(self, state: State) -> None:
        """The next state is there. One that has ended meanwhile is nothing to ask about."""
        if all(each.id != self._request.id for each in state.requests):
            self.notify(f"{self._request.id} has ended meanwhile")
            self.dismiss(False)

    def compose(self) -> ComposeResult:
        request = self._request
        whose = f" of {one_line(request.key)}" if request.key else ""
        with Vertical(classes="box"):
            yield Static(
                Text(f"End {request.id}{whose}, for {one_line(request.model)}?\nIt {one_line(request.why)}.\n\ny / n")
            )
        yield Footer(show_command_palette=False)
