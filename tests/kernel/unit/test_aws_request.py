"""Signed requests to AWS: what leaves with them, and to whom."""

import pytest
from support.http_endpoint import body_of, http_endpoint, reply

from kiqbridge.config.credentials.aws_request import call
from kiqbridge.config.credentials.sigv4 import Keys
from kiqbridge.errors import RedisMisconfigured

KEYS = Keys(access_key="AKIDEXAMPLE", secret_key="secret", session_token="SESSIONTOKEN")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_signed_request_follows_no_redirect(status):
    elsewhere = []

    def take(request):
        elsewhere.append(dict(request.headers))
        reply(request, 200, b"{}")

    with http_endpoint(take) as other:

        def lead_away(request):
            body_of(request)
            reply(request, status, location=f"http://localhost:{other}/")

        with (
            http_endpoint(lead_away) as port,
            pytest.raises(RedisMisconfigured, match=rf"redirect \({status}\).*AWS_ENDPOINT_URL"),
        ):
            call(
                "secretsmanager",
                "secretsmanager.GetSecretValue",
                {"SecretId": "x"},
                region="eu-west-1",
                keys=KEYS,
                aws={"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"},
                timeout_s=10,
            )
    assert elsewhere == []
