"""An upstream's error is passed on without our key and its address."""

from gateway.wire.http_client.failures import redact_secrets
from gateway.wire.http_client.upstream import Endpoint


def test_key_and_address_are_blotted_out() -> None:
    endpoint = Endpoint(
        "up", "http://models.internal:8000/v1/x", ((b"authorization", b"Bearer sk-canary-1"),)
    )
    body = (
        b'{"error":{"message":"key sk-canary-1 refused by models.internal:8000 (models.internal)"}}'
    )
    assert redact_secrets(body, endpoint) == b'{"error":{"message":"key *** refused by *** (***)"}}'


def test_parameters_of_the_url_are_blotted_out() -> None:
    endpoint = Endpoint("up", "http://a.b/v1?key=sk-canary%2F2&v=1")
    assert redact_secrets(b"who is sk-canary/2, v=1?", endpoint) == b"who is ***, v=1?"


def test_other_words_stay() -> None:
    endpoint = Endpoint("up", "http://a.b/v1", ((b"x-mode", b"on"),))
    assert redact_secrets(b"turn it on at a.b", endpoint) == b"turn it on at a.b"
