"""Names that secrets are kept under."""

from __future__ import annotations

import pytest

from openoxide.checkpoints.secrets import looks_secret


@pytest.mark.parametrize(
    "path",
    [
        ".env", "deploy/.env.production", "prod.env", ".ENV", "keys/id_rsa", "id_ed25519", "tls/server.pem", "server.KEY",
        "store.p12", "credentials.json", ".aws/credentials", ".npmrc", ".docker/config.json", "infra/terraform.tfstate",
        "client_secret_42.json", ".git-credentials",
    ],
)  # fmt: skip
def test_a_name_for_secrets_is_told(path):
    assert looks_secret(path.encode())


@pytest.mark.parametrize(
    "path",
    [
        ".env.example", ".env.sample", "config.json", "docker/config.json", "id_rsa.pub", "environment.py", "key.py",
        "keys/readme", ".env/readme", "monkey", "caf\udce9",
    ],
)  # fmt: skip
def test_another_name_is_not(path):
    assert not looks_secret(path.encode("utf-8", "surrogateescape"))
