"""Files that are likely to hold a secret, by their names alone. Pure: nothing is opened, so a guess can be wrong."""

from __future__ import annotations

from fnmatch import fnmatchcase

_PATTERNS = tuple(
    ".env .env.* *.env .envrc id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk *.pem *.key *.p12 *.pfx *.jks "
    "*.keystore *.kdbx *.ppk *.ovpn credentials credentials.json credentials.toml credentials.yml credentials.yaml "
    "client_secret*.json service-account*.json service_account*.json application_default_credentials.json .netrc _netrc "
    ".npmrc .pypirc .pgpass .my.cnf .htpasswd .git-credentials .dockercfg kubeconfig secrets.json secrets.toml secrets.yml "
    "secrets.yaml .vault-token *.tfstate *.tfstate.backup *.tfvars".split()
)
# asked first: .env.example fits a pattern, and is made to be given away
_EXAMPLES = ("*.example", "*.sample", "*.template", "*.dist", "example.env", "sample.env")
# names that are too common to say anything without their folder
_WITH_FOLDER = frozenset({".docker/config.json", ".cargo/credentials", "gcloud/credentials.db"})


def looks_secret(path: bytes) -> bool:
    """Whether the name of ``path`` (with its folder, where that says more) is one that secrets are kept under."""
    parts = path.decode("utf-8", "surrogateescape").lower().split("/")
    name = parts[-1]
    if any(fnmatchcase(name, pattern) for pattern in _EXAMPLES):
        return False
    return "/".join(parts[-2:]) in _WITH_FOLDER or any(fnmatchcase(name, pattern) for pattern in _PATTERNS)
