"""Requests of HTTP that reach their address, and no other to which it leads."""

import ssl
import urllib.request
from collections.abc import Mapping
from typing import Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: the status that asks for it is an error then."""


def direct_opener(aws: Mapping[str, str] | None = None) -> urllib.request.OpenerDirector:
    """What sends a request to its address and to no other.

    urllib follows a redirect with all headers, to any host: `Authorization` and the session's token included.

    Args:
        aws: variables of the environment; their AWS_CA_BUNDLE says which authorities are trusted. None = those of
            the machine.
    """
    context = ssl.create_default_context(cafile=(aws or {}).get("AWS_CA_BUNDLE") or None)
    return urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))
