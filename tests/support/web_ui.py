"""Sidekiq's own Web UI, served by Ruby over HTTP, and a browser just good enough for its buttons."""

import html
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Self

from support.processes import ChildProcess
from support.ruby import HERE, UTF_8, Ruby

APP = Path(__file__).with_name("web_ui.rb")


@dataclass(slots=True, kw_only=True)
class Form:
    """A form of a page: where it posts, its fields, and its submit buttons by name."""

    action: str
    fields: list[tuple[str, str]]
    """Hidden fields and checkboxes; the CSRF token is among them."""
    buttons: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the browser shows after redirects."""

    status: int
    path: str
    source: str = field(repr=False)
    forms: list[Form]

    @property
    def text(self) -> str:
        """What a reader sees: no tags, entities resolved, blanks folded."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.source)).split())

    def form(self, button: str, *, mentions: str = "") -> Form:
        """The one form that has this button, and in whose action or fields `mentions` occurs."""
        found = [
            form
            for form in self.forms
            if button in form.buttons and any(mentions in text for text in _texts(form))
        ]
        assert len(found) == 1, f"{len(found)} forms with {button!r} and {mentions!r} on {self}"
        return found[0]


def _texts(form: Form) -> Iterator[str]:
    yield form.action
    yield from (value for _, value in form.fields)


class WebUI(ChildProcess):
    """The Web UI on the server at `redis_url`; requests share one session, as in one browser."""

    def __init__(self, redis_url: str, setup: str = "", *, ruby: Ruby = HERE) -> None:
        command = [*ruby, "ruby", "-r", "sidekiq/web", "-e", f"{setup}\nload {str(APP)!r}"]
        super().__init__(command, env={**UTF_8, "REDIS_URL": redis_url})
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        direct = urllib.request.ProxyHandler({})
        self._browser = urllib.request.build_opener(direct, cookies)
        self._address = ""

    def wait_ready(self) -> Self:
        self.wait_for(self._port, 20, "the Web UI listening")
        self._address = f"http://127.0.0.1:{self._port()}"
        return self

    def get(self, path: str) -> Page:
        return self._open(path, None)

    def press(self, form: Form, button: str, *, only: str | None = None) -> Page:
        """Submit a form by one of its buttons; `only` ticks the checkboxes whose value has it."""
        fields = [
            (name, value)
            for name, value in form.fields
            if only is None or not name.endswith("[]") or only in value
        ]
        shown = self.post(form.action, [*fields, (button, form.buttons[button])])
        assert shown.status == 200, f"{button!r} of {form} led to {shown}"
        return shown

    def post(self, path: str, fields: list[tuple[str, str]]) -> Page:
        return self._open(path, urllib.parse.urlencode(fields).encode())

    def _open(self, path: str, body: bytes | None) -> Page:
        url = self._address + urllib.parse.quote(path, safe="/?=&%:.-_~")
        try:
            answer = self._browser.open(url, body, timeout=10)
        except urllib.error.HTTPError as error:
            answer = error  # a page as well
        with answer:
            source = answer.read().decode()
            shown = urllib.parse.urlsplit(answer.url).path
            return Page(
                status=answer.status, path=shown, source=source, forms=_forms(source, shown)
            )

    def _port(self) -> str:
        found = re.search(r"^listening on (\d+)$", self.output, re.MULTILINE)
        return found[1] if found else ""


def _forms(source: str, path: str) -> list[Form]:
    reader = _FormReader(path)
    reader.feed(source)
    return reader.forms


class _FormReader(HTMLParser):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self.forms: list[Form] = []
        self._is_open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = known.get("action") or self._path
            self.forms.append(Form(action=action, fields=[], buttons={}))
            self._is_open = True
        elif not self._is_open:
            return
        elif tag == "button" or known.get("type") in ("submit", "button"):
            self.forms[-1].buttons[known.get("name", "")] = known.get("value", "")
        elif tag == "input" and known.get("name"):
            self.forms[-1].fields.append((known["name"], known.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_open = False
