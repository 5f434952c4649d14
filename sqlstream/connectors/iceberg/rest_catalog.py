"""A REST catalog that answers within bounds: PyIceberg waits for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

#: Seconds until a connection is made, and between two parts of an answer.
TIMEOUTS_S = (10.0, 60.0)


class BoundedRestCatalog(RestCatalog):
    """PyIceberg's, whose requests raise OSError when a server is silent for too long."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Bounded())
        return session


class _Bounded(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or TIMEOUTS_S
        return super().send(request, *args, **options)
