"""Encrypted arguments: unreadable in Redis, plain again for the job alone (docs/how_to/encryption.md).

1. `@job(encrypted=True)` encrypts the last parameter, `encrypted=["card"]` those that it names (declared.py).
2. When the job is prepared, after client middleware, each of these arguments becomes a text:
   `"kb1:2:BASE64"`: our form, the number of the key, then nonce and ciphertext. The payload says which, and
   whatever keeps it (queue, schedule, retry, dead) has it in this form: `"kb_encrypted":[0]`.
3. They are decrypted when the job is called, within server middleware, from the payload as it was fetched.

What such a job returns is encrypted as well, where it is kept or handed on (engine/settle/ending.py).

AES-256-GCM, by the package `cryptography`. The class, the jid and the place among the arguments are authenticated
with it, so a ciphertext cannot be moved to another job. This is no form that Sidekiq Enterprise reads.
"""

import base64
import binascii
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.client.registry import JobDefinition
from kiqbridge.config.client_settings import ForClients
from kiqbridge.config.setting import read
from kiqbridge.errors import ArgumentMismatch, ConfigError, DecryptionFailed, PayloadError
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import ENCRYPTED, check_arguments

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORM: Final = "kb1"
"""Begins each encrypted argument; another form would begin otherwise."""

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
_HOW: Final = "write NUMBER:BASE64 of 32 bytes, several with commas between them"


def encrypt(payload: dict[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """The payload with its arguments at these places encrypted; one that has been already stays as it is.

    Raises:
        ConfigError: there is no key, or `cryptography` is not installed.
        PayloadError: an argument has no JSON text; the message does not show it.
    """
    args = payload.get("args")
    if ENCRYPTED in payload or not isinstance(args, list):
        return payload
    number, cipher = _newest()
    args, used = list(args), [place for place in places if place < len(args)]
    for place in used:
        try:
            check_arguments([args[place]])
            text = json_text.dumps(args[place])
        except (TypeError, ValueError):
            raise PayloadError(
                f"args: the encrypted argument at place {place} of {payload['class']} has no JSON text; it is not "
                "shown here"
            ) from None
        args[place] = _sealed(number, cipher, text, _bound_to(payload, place))
    return {**payload, "args": args, ENCRYPTED: used}


def encrypt_value(jid: str, text: str) -> str:
    """The JSON text of what a job returned as one of the encrypted value; who opens it needs the jid.

    Raises:
        ConfigError: as `encrypt`.
    """
    number, cipher = _newest()
    return json.dumps(_sealed(number, cipher, text.encode(), _bound_to_end(jid)))


def decrypt_value(jid: str, value: object) -> str:
    """The counterpart of `encrypt_value`, from the value that its text stands for.

    Raises:
        DecryptionFailed: as `decrypt`.
    """
    return _opened(value, _bound_to_end(jid), f"the value of job {jid}").decode()


def decrypt(payload: Mapping[str, Any]) -> list[Any]:
    """The arguments of a job in plain; the payload stays as it is.

    Raises:
        DecryptionFailed: an argument cannot be decrypted here: without its key, in another job than the one it was
            encrypted for, or changed. The job is retried.
    """
    args, places = payload.get("args"), payload.get(ENCRYPTED)
    if not isinstance(args, list) or not isinstance(places, list):
        raise DecryptionFailed(f"{ENCRYPTED} of this job is no list of places in its arguments")
    plain = list(args)
    for place in places:
        if type(place) is not int or not 0 <= place < len(args):
            raise DecryptionFailed(f"{ENCRYPTED} of this job names a place that its arguments lack")
        where = f"the argument at place {place}"
        plain[place] = json_text.loads(_opened(args[place], _bound_to(payload, place), where))
    return plain


def plain_arguments(payload: Mapping[str, Any], definition: JobDefinition) -> list[Any]:
    """The arguments of a job in plain, and converted by the annotations of its parameters.

    Raises:
        DecryptionFailed: as `decrypt`.
        ArgumentMismatch: one does not fit its annotation; the message shows none, since it is kept with the job.
    """
    args = decrypt(payload)
    if definition.arguments is None:
        return args
    try:
        return definition.arguments.from_wire(args)
    except ArgumentMismatch:
        raise ArgumentMismatch(
            f"an argument of {definition.name} does not fit the annotation of its parameter, and is not shown, since "
            "arguments of this job are encrypted; correct it where the job is enqueued, or the annotation"
        ) from None


def _sealed(number: str, cipher: "AESGCM", text: bytes, bound: bytes) -> str:
    nonce = os.urandom(NONCE_BYTES)
    sealed = cipher.encrypt(nonce, text, bound)
    return f"{FORM}:{number}:{base64.b64encode(nonce + sealed).decode()}"


def _opened(value: object, bound: bytes, where: str) -> bytes:
    form, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    number, _, body = rest.partition(":")
    if form != FORM:
        raise DecryptionFailed(f"{where} is not in the form {FORM}, in which kiqbridge encrypts")
    cipher = _cipher(number)
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as in _load

    try:
        raw = base64.b64decode(body, validate=True)
        return cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], bound)
    except (binascii.Error, ValueError, InvalidTag):
        raise DecryptionFailed(
            f"{where} cannot be decrypted with key {number}: the key is another one than at the push, or class, jid or "
            "text of this job were changed; correct KIQBRIDGE_ENCRYPTION_KEYS, and the job succeeds when it is retried"
        ) from None


def _bound_to(payload: Mapping[str, Any], place: int) -> bytes:
    return json.dumps([FORM, payload.get("class"), payload.get("jid"), place]).encode()


def _bound_to_end(jid: str) -> bytes:
    return json.dumps([FORM, jid, "value"]).encode()


_loaded: "tuple[str, dict[str, AESGCM]] | None" = None
"""The keys as they stand in the configuration, and what was made of them."""


def _newest() -> "tuple[str, AESGCM]":
    keys = _load()
    if not keys:
        raise ConfigError(
            f"KIQBRIDGE_ENCRYPTION_KEYS: there is no key, but this job has encrypted arguments; {_HOW}. Nothing was "
            "enqueued"
        )
    number = max(keys, key=int)
    return number, keys[number]


def _cipher(number: str) -> "AESGCM":
    try:
        found = _load().get(number)
    except ConfigError as error:
        raise DecryptionFailed(f"the keys cannot be read: {error}") from error
    if found is None:
        raise DecryptionFailed(
            f"key {number[:20]!r} is not among KIQBRIDGE_ENCRYPTION_KEYS of this process; add it: a job succeeds then "
            "when it is retried"
        )
    return found


def _load() -> "dict[str, AESGCM]":
    """The keys by their numbers; read again when the setting or the file has changed."""
    global _loaded  # noqa: PLW0603 - parsed once, not for each job
    text, source = read(ForClients.encryption_keys, os.environ), "KIQBRIDGE_ENCRYPTION_KEYS"
    path = read(ForClients.encryption_keys_file, os.environ)
    if path and not text:
        source = f"the file {path}"
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"KIQBRIDGE_ENCRYPTION_KEYS_FILE: {path} cannot be read: {error}"
            ) from None
    loaded = _loaded
    if loaded is None or loaded[0] != text:
        loaded = _loaded = (text, _parse(text, source))
    return loaded[1]


def _parse(text: str, source: str) -> "dict[str, AESGCM]":
    entries = [each for each in text.replace("\n", ",").split(",") if each.strip()]
    if not entries:
        return {}
    try:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - an extra, for few
            AESGCM,
        )
    except ImportError:
        raise ConfigError(
            "encrypted arguments need the package cryptography: pip install 'kiqbridge[encryption]'"
        ) from None
    keys: dict[str, AESGCM] = {}
    for place, entry in enumerate(entries, 1):
        number, _, encoded = entry.strip().partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            key = b""
        # Never the entry itself: it is a secret, or the most of one.
        if not (number.isascii() and number.isdigit()) or len(key) != KEY_BYTES or number in keys:
            raise ConfigError(f"{source}: entry {place} is no key with a number of its own; {_HOW}")
        keys[number] = AESGCM(key)
    return keys
