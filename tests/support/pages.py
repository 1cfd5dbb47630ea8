"""Pages of the operator's web page, called without a network and read as a viewer without JavaScript does."""

import asyncio
import re
from html.parser import HTMLParser

import httpx

ORIGIN = "http://testserver"


class Page(HTMLParser):
    """An answer as a reader sees it: its text, links and forms."""

    def __init__(self, response):
        super().__init__(convert_charrefs=True)
        self.status = response.status_code
        self.html = response.text
        self.links: list[str] = []
        self.fields: dict[str, str] = {}
        self.tags: list[tuple[str, dict]] = []
        self._words: list[str] = []
        self._silent = 0
        self.feed(response.text)
        self.text = re.sub(r"\s+", " ", "".join(self._words))

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag in {"script", "style", "title"}:
            self._silent += 1
        if tag == "br":
            self._words.append(" ")
        if tag == "a":
            self.links.append(given.get("href", ""))
        if tag == "input" and given.get("type") == "hidden":
            self.fields.setdefault(given["name"], given.get("value", ""))

    def handle_endtag(self, tag):
        if tag in {"script", "style", "title"}:
            self._silent -= 1
        if tag in {"td", "th", "li", "p", "dd", "dt", "button", "option", "h1", "h2"}:
            self._words.append(" ")

    def handle_data(self, data):
        if not self._silent:
            self._words.append(data)


class Browser:
    """What a viewer without JavaScript does: opens pages, sends the forms that stand there, keeps cookies."""

    def __init__(self, app, root_path=""):
        self.app = app
        self.root_path = root_path
        self.cookies = httpx.Cookies()
        self.headers = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}

    def request(self, method, path, **options) -> httpx.Response:
        return asyncio.run(self._request(method, path, options))

    def request_once(self, method, path, **options) -> httpx.Response:
        """Without following where the answer leads."""
        return asyncio.run(self._request(method, path, options, follows=False))

    async def _request(self, method, path, options, *, follows=True):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, root_path=self.root_path),
            base_url=ORIGIN,
            headers=self.headers,
            cookies=self.cookies,
            follow_redirects=follows,
        ) as client:
            response = await client.request(method, path, **options)
            self.cookies = client.cookies
            return response

    def open(self, path, status=200) -> Page:
        response = self.request("GET", path)
        assert response.status_code == status, response.text
        return Page(response)

    def press(self, act, status=200) -> Page:
        """Send the form of an act of a fact; follows the answer back to a page."""
        return self.send(act.path, status, "/metrics/Mail", **act.fields)

    def send(self, path, status=200, form_at=None, **fields) -> Page:
        """POST with the token of the page at this path, or at another; follows the answer back to a page."""
        token = self.open(form_at or path).fields["csrf"]
        response = self.request("POST", path, data={"csrf": token, **fields})
        assert response.status_code == status, response.text
        return Page(response)
