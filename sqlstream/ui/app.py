"""The dashboard as an ASGI application: static files, and JSON about pipelines. Nothing that it serves changes anything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sqlstream import __version__
from sqlstream.storage.savepoints import Savepoints
from sqlstream.ui import epochs as epoch_pages
from sqlstream.ui.access import COOKIE, Access, Guard
from sqlstream.ui.clauses import Planner, source_of
from sqlstream.ui.edits import MOST_CHARACTERS, plan_of_edit
from sqlstream.ui.figures import figures
from sqlstream.ui.letters import letters
from sqlstream.ui.pipelines import Pipeline, Pipelines, shown
from sqlstream.ui.queries import MOST_ROWS, Queries
from sqlstream.ui.relations import relations
from sqlstream_operators.large_stack import on_large_stack
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.explain.graph import Graph, graph_of
from sqlstream_planner.text.masking import without_password

STATIC = Path(__file__).parent / "static"
#: How many pipelines an answer has, and how many savepoints; how often what is live is looked at, seconds.
MOST_PIPELINES, MOST_SAVEPOINTS = 200, 200
LOOK_S, HEARTBEAT_S = 1.0, 15.0
_MOST_BYTES = 4 * MOST_CHARACTERS
_Answered = Callable[[Callable[[], Any]], Response]


class Dashboard:
    """What answers requests; each method is the answer to one address."""

    def __init__(self, pipelines: Pipelines, access: Access) -> None:
        self._pipelines = pipelines
        self._access = access
        self._planner = Planner()
        self._queries = Queries()

    def all(self, request: Request) -> Any:
        """A page of pipelines."""
        found = self._pipelines.overviews()
        at = _number(request, "offset", 0)
        return {
            "version": __version__,
            "total": len(found),
            "pipelines": found[at : at + MOST_PIPELINES],
        }

    def one(self, pipeline: Pipeline, request: Request) -> Any:
        """How a pipeline is."""
        return shown(pipeline)

    def graph(self, pipeline: Pipeline, request: Request) -> Any:
        """Its plan as a graph, with figures and the clauses of the SQL."""
        manifest = pipeline.last()
        if manifest is None:
            plan, sql = pipeline.begun()
            graph, at = Graph((), ()) if plan is None else graph_of(plan), {}
        else:
            plan, sql = pipeline.plan(manifest), pipeline.sql(manifest)
            graph = graph_of(plan)
            at = figures(graph, manifest, pipeline.overview(), pipeline.history)
        places = source_of(self._planner, sql, plan)["clauses"]
        return {
            "epoch": None if manifest is None else manifest.epoch,
            "parallelism": None if manifest is None else manifest.parallelism,
            "nodes": [
                {**node.to_json(), **at.get(node.id, {}), "clause": places.get(node.id)}
                for node in graph.nodes
            ],
            "edges": [edge.to_json() for edge in graph.edges],
        }

    def source(self, pipeline: Pipeline, request: Request) -> Any:
        """Its SQL as it ran, rendered and without secrets, with what there is to say about it."""
        manifest = pipeline.last()
        if manifest is None:
            plan, sql = pipeline.begun()
        else:
            plan, sql = pipeline.plan(manifest), pipeline.sql(manifest)
        return source_of(self._planner, sql, plan)

    def epochs(self, pipeline: Pipeline, request: Request) -> Any:
        """A page of epochs, newest first."""
        before = _number(request, "before", 0)
        return epoch_pages.page(pipeline.history, before or None)

    def series(self, pipeline: Pipeline, request: Request) -> Any:
        """The last epochs for plots."""
        return epoch_pages.series(pipeline.history, _number(request, "epochs", 500))

    def epoch(self, pipeline: Pipeline, request: Request) -> Any:
        """One epoch."""
        record = pipeline.history.find(int(request.path_params["epoch"]))
        return None if record is None else epoch_pages.detail(record)

    def relations(self, pipeline: Pipeline, request: Request) -> Any:
        """What can be selected from its state."""
        return relations(pipeline)

    def letters(self, pipeline: Pipeline, request: Request) -> Any:
        """A page of its dead letters, and how many there are of each reason."""
        return letters(pipeline, _number(request, "offset", 0))

    def savepoints(self, pipeline: Pipeline, request: Request) -> Any:
        """Its savepoints, newest first, and which one it began with."""
        found = Savepoints(pipeline.store).all()
        manifest = pipeline.last()
        return {
            "origin": "" if manifest is None else without_password(manifest.origin),
            "total": len(found),
            "savepoints": [
                {
                    "name": one.name,
                    "epoch": one.manifest.epoch,
                    "created": one.created,
                    "rows": sum(state.rows for state in one.manifest.states),
                    "bytes": sum(state.bytes for state in one.manifest.states),
                    "origin": without_password(one.manifest.origin),
                    "imported": bool(one.prefix),
                }
                for one in reversed(found[-MOST_SAVEPOINTS:])
            ],
        }

    def query(self, pipeline: Pipeline, body: Any) -> Any:
        """Rows of a SELECT over its state."""
        return self._queries.run(pipeline, str(body.get("sql", "")), MOST_ROWS)

    def plan(self, pipeline: Pipeline, body: Any) -> Any:
        """What an edited text would do."""
        text = str(body.get("text", ""))
        if len(text) > MOST_CHARACTERS:
            raise DiagnosticError(
                Diagnostic("UIS004", f"the text has more than {MOST_CHARACTERS:,} characters")
            )
        return plan_of_edit(pipeline, self._planner, text)

    def login(self, body: Any) -> Response:
        """Take a token, and keep it in a cookie that scripts can't read."""
        given = str(body.get("token", ""))
        if not self._access.token or not self._access.knows(given):
            return JSONResponse({"error": "this is not the token"}, 401)
        answer = JSONResponse({"ok": True})
        answer.set_cookie(COOKIE, given, httponly=True, samesite="strict", path="/")
        return answer

    async def events(self, request: Request) -> Response:
        """How all pipelines are, as server-sent events: each that has changed."""
        return StreamingResponse(self._changes(request), media_type="text/event-stream")

    async def _changes(self, request: Request) -> AsyncIterator[str]:
        seen: dict[str, str] = {}
        quiet = 0.0
        while not await request.is_disconnected():
            try:
                found = await anyio.to_thread.run_sync(self._pipelines.overviews)
                now = {one["id"]: json.dumps(one, ensure_ascii=False) for one in found}
            except DiagnosticError:  # a place that is away for a moment
                now = seen
            changed = [text for id_, text in now.items() if seen.get(id_) != text]
            gone = [id_ for id_ in seen if id_ not in now]
            for at in range(0, len(changed), MOST_PIPELINES):
                yield f"event: pipelines\ndata: [{', '.join(changed[at : at + MOST_PIPELINES])}]\n\n"
            if gone:
                yield f"event: gone\ndata: {json.dumps(gone)}\n\n"
            if changed or gone:
                quiet = 0.0
            elif quiet >= HEARTBEAT_S:
                yield ": nothing new\n\n"
                quiet = 0.0
            seen = now
            await anyio.sleep(LOOK_S)
            quiet += LOOK_S

    def pipeline_of(self, request: Request) -> Pipeline:
        """The pipeline of an address. Raises DiagnosticError (UIS002)."""
        found = self._pipelines.find(request.path_params["id"])
        if found is None:
            raise DiagnosticError(Diagnostic("UIS002", "there is no such pipeline any more"))
        return found


def dashboard(pipelines: Pipelines, access: Access) -> Starlette:
    """The application that shows `pipelines` to those that `access` lets in."""
    made = Dashboard(pipelines, access)

    def get(path: str, answer: Callable[[Pipeline, Request], Any], answered: _Answered = _answered) -> Route:
        def endpoint(request: Request) -> Response:
            return answered(lambda: answer(made.pipeline_of(request), request))

        return Route(f"/api/pipelines/{{id}}{path}", endpoint, methods=["GET"])

    def post(path: str, answer: Callable[[Pipeline, Any], Any], answered: _Answered = _answered) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await _body(request)
            if isinstance(body, Response):
                return body
            return await anyio.to_thread.run_sync(
                lambda: answered(lambda: answer(made.pipeline_of(request), body))
            )

        return Route(f"/api/pipelines/{{id}}{path}", endpoint, methods=["POST"])

    async def login(request: Request) -> Response:
        body = await _body(request)
        return body if isinstance(body, Response) else made.login(body)

    def index(request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    routes = [
        Route("/", index),
        Route("/api/login", login, methods=["POST"]),
        Route("/api/events", made.events),
        Route("/api/pipelines", lambda request: _answered(lambda: made.all(request))),
        get("", made.one),
        get("/graph", made.graph, _of_a_plan),
        get("/source", made.source, _of_a_plan),
        get("/epochs", made.epochs),
        get("/series", made.series),
        get("/epochs/{epoch:int}", made.epoch),
        get("/relations", made.relations, _of_a_plan),
        get("/letters", made.letters),
        get("/savepoints", made.savepoints),
        post("/query", made.query),
        post("/plan", made.plan, _of_a_plan),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    middleware = [Middleware(Guard, access), Middleware(GZipMiddleware, minimum_size=2000)]
    return Starlette(routes=routes, middleware=middleware)


@on_large_stack
def _of_a_plan(answer: Callable[[], Any]) -> Response:
    """The same of a plan, which may nest deeply. One such answer is made at a time."""
    return _answered(answer)


def _answered(answer: Callable[[], Any]) -> Response:
    """An answer as JSON; what is wrong with a request, or with a state directory, as diagnostics."""
    try:
        found = answer()
    except DiagnosticError as error:
        return JSONResponse({"diagnostics": [d.to_json() for d in error.diagnostics]}, 422)
    except OSError as error:
        problem = Diagnostic("UIS001", f"the state directory can't be read: {error.strerror or error}")
        return JSONResponse({"diagnostics": [problem.to_json()]}, 503)
    return JSONResponse({"error": "not found"}, 404) if found is None else JSONResponse(found)


async def _body(request: Request) -> Any:
    """The JSON object of a request, or the answer to one that has none."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _MOST_BYTES:
            return JSONResponse({"error": "too long"}, 413)
    try:
        found = json.loads(data)
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else JSONResponse({"error": "no JSON object"}, 400)


def _number(request: Request, name: str, default: int) -> int:
    given = request.query_params.get(name, "")
    return min(int(given), 1 << 53) if given.isascii() and given.isdigit() else default
