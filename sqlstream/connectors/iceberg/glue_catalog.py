"""A catalog in AWS Glue whose requests are made once and answer within bounds."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)
from pyiceberg.catalog import glue

#: The properties of a catalog that say where it is, as Iceberg calls them.
REGION, ACCOUNT, ENDPOINT = "client.region", "glue.id", "glue.endpoint"
#: Seconds until a connection is made, and until an answer comes.
_TIMEOUTS_S = (10.0, 60.0)
#: What AWS's tools raise. What is wrong with a name or a key is wrong the next time, too.
FAILURES: tuple[type[Exception], ...] = (BotoCoreError, ClientError)
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ProfileNotFound)
_REFUSED = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidInputException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)


class BoundedGlueCatalog(glue.GlueCatalog):
    """PyIceberg's, with credentials as AWS's tools find them, which are in no property.

    A request is made once: of a commit whose answer was lost the second request would be refused, and what is refused is
    taken for not made. Who calls it asks the table first.
    """

    def __init__(self, name: str, **properties: str) -> None:
        client: Any = boto3.Session().client(
            "glue",
            region_name=properties[REGION],
            endpoint_url=properties.get(ENDPOINT),
            config=Config(
                connect_timeout=_TIMEOUTS_S[0],
                read_timeout=_TIMEOUTS_S[1],
                retries={"total_max_attempts": 1, "mode": "standard"},
            ),
        )
        if properties.get(ACCOUNT):
            glue._register_glue_catalog_id_with_glue_client(client, properties[ACCOUNT])
        super().__init__(name, client, **properties)


def is_final(error: Exception) -> bool:
    """Whether the same request would fail again."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code")) in _REFUSED
    return isinstance(error, _NO_CREDENTIALS)


def explained(error: Exception) -> str | None:
    """What an error of AWS's tools means, where they say it in words of their own; None: it is said well."""
    if isinstance(error, _NO_CREDENTIALS):
        return (
            f"{str(error).rstrip('.')}; credentials are found as AWS's tools find them: AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's role"
        )
    return None
