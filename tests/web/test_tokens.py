"""Tokens of proxies and identity providers, signed with real keys."""

import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from support.servers import find_free_port
from support.waiting import wait_until
from support.web_users import SECRET

from kiqbridge.errors import ConfigError
from kiqbridge.web import tokens
from kiqbridge.web.tokens import TokenReader, TokenRefused, TokenRules, name_of

ALB = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:loadbalancer/app/ops/0a1b"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key):
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def jwks(**keys):
    entries = [
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        | {"kid": name, "alg": "RS256", "use": "sig"}
        for name, key in keys.items()
    ]
    return json.dumps({"keys": entries})


def token(key=RSA_KEY, algorithm="RS256", headers=None, **claims):
    body = {"sub": "1", "email": "ann@example.com", "exp": time.time() + 600, **claims}
    body = {name: value for name, value in body.items() if value is not None}
    return jwt.encode(body, key, algorithm, headers=headers)


def reader(**rules):
    return TokenReader(TokenRules(**{"key": pem(RSA_KEY), **rules}))


def test_a_token_of_the_key_is_read():
    claims = reader().read(token(role="operator"))

    assert name_of(claims) == "ann@example.com"
    assert reader().roles(claims) == ["operator"]


@pytest.mark.parametrize(
    "made",
    [
        lambda: token(exp=time.time() - 120),
        lambda: token(exp=None),
        lambda: token(nbf=time.time() + 600),
        lambda: token(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        lambda: token(EC_KEY, "ES256"),
        lambda: token(aud="somebody else"),
        lambda: token()[:-4] + "AAAA",
        lambda: "a.b.c",
        lambda: "é",
        lambda: "",
        lambda: "x" * 20_000,
        lambda: token(None, "none"),
    ],
)
def test_any_other_token_is_refused(made):
    with pytest.raises(TokenRefused):
        reader().read(made())


def test_a_token_signed_with_the_public_key_as_a_secret_is_refused():
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "HS256"}, {"sub": "1", "exp": time.time() + 60})
    )
    import hashlib
    import hmac

    mac = hmac.digest(pem(RSA_KEY).encode(), f"{head}.{body}".encode(), hashlib.sha256)
    forged = f"{head}.{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    with pytest.raises(TokenRefused):
        reader().read(forged)


def test_issuer_and_audience_must_be_those_of_the_settings():
    rules = {"issuer": "https://id.example.com", "audience": "kiqbridge"}
    right = {"iss": "https://id.example.com", "aud": ["kiqbridge", "other"]}

    assert reader(**rules).read(token(**right))["sub"] == "1"
    for wrong in ({"iss": "https://evil.example"}, {"aud": "other"}, {"aud": None}, {"iss": None}):
        with pytest.raises(TokenRefused):
            reader(**rules).read(token(**(right | wrong)))


def test_the_token_of_a_load_balancer_is_accepted_with_its_signer_and_its_padding(monkeypatch):
    asked = []

    def download(address):
        asked.append(address)
        return pem(EC_KEY)

    monkeypatch.setattr(tokens, "_download", download)
    alb = reader(
        key="https://public-keys.example/{kid}",
        header="x-amzn-oidc-data",
        algorithms=("ES256",),
        signer=ALB,
    )
    made = token(EC_KEY, "ES256", {"kid": "1f-2e", "signer": ALB})
    padded = ".".join(part + "=" * (-len(part) % 4) for part in made.split("."))

    assert alb.find(made) == made
    assert name_of(alb.read(made)) == "ann@example.com"
    if padded != made:  # a load balancer signs what it sends, padding included
        with pytest.raises(TokenRefused):
            alb.read(padded)
    assert asked == ["https://public-keys.example/1f-2e"]
    for headers in ({"kid": "1f-2e", "signer": f"{ALB}2"}, {"kid": "1f-2e"}):
        with pytest.raises(TokenRefused, match="another load balancer"):
            alb.read(token(EC_KEY, "ES256", headers))
    with pytest.raises(TokenRefused, match="names no key"):
        alb.read(token(EC_KEY, "ES256", {"kid": "../../evil", "signer": ALB}))


def test_a_token_with_padding_in_what_was_signed_is_read():
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode()
        for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": "ann", "exp": time.time() + 60.5})
    )
    import hmac

    mac = hmac.digest(SECRET, f"{head}.{body}".encode(), "sha256")
    made = f"{head}.{body}.{base64.urlsafe_b64encode(mac).decode()}"
    assert "=" in made

    claims = reader(key=SECRET.decode(), algorithms=("HS256",)).read(made)

    assert claims["sub"] == "ann"


def test_of_a_set_the_key_counts_that_the_token_names(tmp_path):
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path / "jwks.json"
    path.write_text(jwks(one=RSA_KEY, two=other))
    of_set = reader(key=str(path))

    assert of_set.read(token(other, headers={"kid": "two"}))["sub"] == "1"
    for key, headers in ((other, {"kid": "one"}), (RSA_KEY, {"kid": "three"}), (RSA_KEY, None)):
        with pytest.raises(TokenRefused):
            of_set.read(token(key, headers=headers))


def test_keys_of_an_address_are_kept_and_fetched_again_for_a_new_one(monkeypatch):
    answers = [jwks(one=RSA_KEY), jwks(one=RSA_KEY, two=RSA_KEY)]
    monkeypatch.setattr(tokens, "_download", lambda _: answers.pop(0))
    of_address = reader(key="https://id.example.com/jwks.json")
    assert of_address.fetches_keys

    for _ in range(2):
        of_address.read(token(headers={"kid": "one"}))
    with pytest.raises(
        TokenRefused
    ):  # fetched a moment ago: unknown names must not make us ask each time
        of_address.read(token(headers={"kid": "two"}))
    monkeypatch.setattr(tokens, "REFETCH_AFTER_S", 0.0)
    of_address.read(token(headers={"kid": "two"}))

    assert answers == []


def test_forged_key_ids_delay_no_check_and_are_fetched_a_few_times(monkeypatch):
    asked, released = [], threading.Event()

    def download(address):
        asked.append(address)
        if address.endswith("/good"):
            return pem(EC_KEY)
        released.wait(120)
        raise TokenRefused("there is none")

    monkeypatch.setattr(tokens, "_download", download)
    of_address = reader(key="https://keys.example/{kid}", algorithms=("ES256",))
    good = token(EC_KEY, "ES256", {"kid": "good"})
    of_address.read(good)

    def forge(number, caller):
        with pytest.raises(TokenRefused):
            of_address.read(token(EC_KEY, "ES256", {"kid": f"forged-{number}"}), caller)

    with ThreadPoolExecutor(30) as threads:
        try:
            forged = [threads.submit(forge, number, str(number)) for number in range(20)]
            wait_until(lambda: len(asked) > 1)
            threads.submit(of_address.read, good).result(20)
        finally:
            released.set()
        [each.result(60) for each in forged]
    count = len(asked)
    for number in [*range(count - 1), *range(100, 200)]:
        forge(number, "one address")

    assert len(asked) == count + tokens.FETCHES, "what is known to be missing is not fetched again"
    assert of_address.read(good), "the others have not displaced it"
    assert asked.count("https://keys.example/good") == 1


def test_a_key_that_is_known_serves_on_while_its_address_does_not_answer(monkeypatch):
    answers = [jwks(one=RSA_KEY)]

    def download(_):
        if answers:
            return answers.pop()
        raise TokenRefused("away")

    monkeypatch.setattr(tokens, "_download", download)
    of_address = reader(key="https://id.example.com/jwks.json")
    of_address.read(token(headers={"kid": "one"}))
    monkeypatch.setattr(tokens, "KEYS_FRESH_S", 0.0)

    assert of_address.read(token(headers={"kid": "one"}))


@pytest.mark.parametrize(
    ("value", "found"),
    [("Bearer abc", "abc"), ("bearer abc", "abc"), ("Basic abc", None), ("", None)],
)
def test_in_authorization_it_stands_after_bearer(value, found):
    assert reader().find(value) == found


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"algorithms": ("none",)}, "web_jwt_algorithms: none"),
        ({"algorithms": ()}, "web_jwt_algorithms"),
        ({"algorithms": ("RS256", "HS256")}, "do not go together"),
        ({"key": "short", "algorithms": ("HS256",)}, "can be guessed"),
        ({"key": "text"}, "no public key"),
        ({"key": "/nowhere/key.pem"}, "cannot be read: FileNotFoundError"),
        ({"key": "{broken"}, "JWKS cannot be read"),
    ],
)
def test_rules_that_cannot_work_are_refused(rules, message):
    with pytest.raises(ConfigError, match=message):
        reader(**rules)


def test_the_key_is_not_shown():
    assert "BEGIN" not in repr(TokenRules(key=pem(RSA_KEY)))


class Keys(BaseHTTPRequestHandler):
    """An identity provider that hands out keys, and one address that leads elsewhere."""

    def do_GET(self):
        found = {"/jwks.json": jwks(one=RSA_KEY), "/key.pem": pem(RSA_KEY), "/moved": ""}
        text = found.get(self.path)
        self.send_response(404 if text is None else 302 if self.path == "/moved" else 200)
        self.send_header("Location", "/key.pem")
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def provider():
    with ThreadingHTTPServer(("127.0.0.1", 0), Keys) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield "http://{}:{}".format(*server.server_address)
        server.shutdown()
        thread.join()


def test_keys_are_fetched_from_their_address_and_from_nowhere_else(provider):
    assert tokens._download(f"{provider}/key.pem") == pem(RSA_KEY)
    assert json.loads(tokens._download(f"{provider}/jwks.json"))["keys"][0]["kid"] == "one"
    for address in (
        f"{provider}/moved",
        f"{provider}/none",
        f"http://127.0.0.1:{find_free_port()}/",
    ):
        with pytest.raises(TokenRefused, match="cannot be fetched"):
            tokens._download(address)
