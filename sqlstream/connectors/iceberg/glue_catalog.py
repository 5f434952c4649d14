"""A catalog in AWS Glue that answers within bounds, and what its failures say: PyIceberg's own tries for minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)
from pyiceberg.catalog.glue import GlueCatalog

from sqlstream.connectors.iceberg.rest_catalog import TIMEOUTS_S

if TYPE_CHECKING:
    from mypy_boto3_glue.client import GlueClient

REGION, ACCOUNT, ENDPOINT = "sqlstream.region", "sqlstream.account", "sqlstream.endpoint"
#: What is raised if Glue can't be asked, or refuses.
FAILURES: tuple[type[Exception], ...] = (BotoCoreError, ClientError)
#: Of a request; who asks for an epoch tries again, too.
_TRIES = 2
_SLOWED_DOWN = frozenset(
    {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "SlowDown"}
)
_FORBIDDEN = 400


class BoundedGlueCatalog(GlueCatalog):
    """PyIceberg's, with a client that gives up, and that finds who asks as AWS's tools do."""

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, client=_client(properties), **properties)


def _client(properties: dict[str, Any]) -> GlueClient:
    """Raises BotoCoreError without a region."""
    session = boto3.Session(region_name=properties.get(REGION))
    client: GlueClient = session.client(
        "glue",
        endpoint_url=properties.get(ENDPOINT),
        config=Config(
            connect_timeout=TIMEOUTS_S[0],
            read_timeout=TIMEOUTS_S[1],
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
        ),
    )
    account = properties.get(ACCOUNT)
    if account:

        def named(params: dict[str, Any], **_: Any) -> None:
            params.setdefault("CatalogId", account)

        client.meta.events.register("provide-client-params.glue", named)
    return client


def is_final(error: Exception) -> bool:
    """Whether the same request would fail again: it was refused, or could not be made."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return bool(status // 100 * 100 == _FORBIDDEN) and _code(error) not in _SLOWED_DOWN
    return isinstance(error, BotoCoreError) and not isinstance(error, HTTPClientError)


def said(error: Exception) -> str | None:
    """What an error of AWS's library means for who wrote the options; None: it is no such error, or says it itself."""
    if isinstance(error, NoRegionError):
        return "no region is given: set 'client.region', AWS_DEFAULT_REGION, or `region` in ~/.aws/config"
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return (
            "AWS's tools find no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "
            "or run `aws configure`"
        )
    if isinstance(error, ClientError):
        return f"{_code(error)}: {error.response.get('Error', {}).get('Message') or 'no reason is given'}"
    return None


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "an error"))
