"""An application that stands between agents' programs and an engine, and captures the calls.

The programs' side is the endpoint's: Chat Completions, Responses and Anthropic's Messages. The id of a session is the
key. `POST /sessions` begins one, `GET /sessions/ID/rollout` reads it, and `DELETE /sessions/ID` ends it.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from openenv.agents.capture.contract import BUDGET_STOP_MESSAGE
from openenv.agents.capture.contract import to_trace_entries as to_trace_entries
from openenv.agents.capture.export import export_session
from openenv.agents.capture.graph import TurnNode
from openenv.agents.capture.sessions import (
    Session,
    SessionRegistry,
    Upstream,
    extract_api_key,
    rollout_type_for,
)
from openenv.agents.capture.sessions import evaluation_sampling as evaluation_sampling
from openenv.agents.capture.upstream import (
    NON_POLICY_SAMPLING,
    InferenceClient,
    UpstreamError,
    UpstreamHTTPError,
    UpstreamRequestError,
    truncating_params,
)
from openenv.agents.capture.upstream import training_sampling as training_sampling
from openenv.agents.capture.validate import WARN, Finding, check_turn, check_turn_eval, check_upstream_response
from openenv.agents.endpoint.application import Application, Episode
from openenv.agents.endpoint.requests import ModelAnswer, ModelReply, ModelRequest, RequestRefused
from openenv.agents.endpoint.upstream import answer_of, chat_body, without_logprobs
from openenv.agents.llm.http import LLMError

SAMPLING_KEYS = ("temperature", *NON_POLICY_SAMPLING)
_MAX_BODY_BYTES = 64_000_000
_KEEP_ALIVE_S = 5.0
_ANSWER_TIMEOUT_S = 3600.0


class UpstreamPool:
    """One client for each engine that sessions name, with what the engine returns."""

    def __init__(self, *, default_client: InferenceClient | None, default_level: str) -> None:
        self._default = default_client, default_level
        self._clients: dict[tuple[str, ...], InferenceClient] = {}

    @property
    def default(self) -> tuple[InferenceClient | None, str]:
        """The server's own engine."""
        return self._default

    async def aclose(self) -> None:
        """Close the connections to all engines."""
        for client in (self._default[0], *self._clients.values()):
            if client is not None:
                await client.aclose()

    def known(self) -> list[dict[str, Any]]:
        """The engines that sessions have named, without their keys."""
        return [
            {"llm_url": key[0], "model": client.served_model or "", "capture_level": client.capture_level}
            for key, client in self._clients.items()
        ]

    def forget(self, upstream: Upstream) -> None:
        """Drop an engine's client, and the key that it has."""
        self._clients.pop(upstream.cache_key, None)

    async def resolve(self, upstream: Upstream) -> tuple[InferenceClient, str]:
        """The client of an engine, and what it returns, for which it is called once. Raises UpstreamError."""
        client = self._clients.get(upstream.cache_key)
        if client is None:
            client = InferenceClient(
                upstream.llm_url, served_model=upstream.model or None, api_key=upstream.api_key,
                auth_header=upstream.auth_header, provider=upstream.provider,
            )  # fmt: skip
            if client.served_model is None:
                client.served_model = (await client.list_models())["data"][0]["id"]
            client.capture_level = await _level_of(client)
            client = self._clients.setdefault(upstream.cache_key, client)
        return client, client.capture_level

    async def engine_of(self, session: Session) -> tuple[InferenceClient, str]:
        """The same for a session's engine. Raises UpstreamRequestError where there is none."""
        if session.upstream is not None:
            client, session.capture_level = await self.resolve(session.upstream)
            return client, session.capture_level
        default, session.capture_level = self._default
        if default is None:
            raise UpstreamRequestError("the session has no engine: create it with llm_url")
        return default, session.capture_level


async def _level_of(client: InferenceClient) -> str:
    """What an engine returns. Raises UpstreamError where it cannot be called."""
    message = {"role": "user", "content": "Say hello."}
    try:
        response = await client.completion({"messages": [message], "max_tokens": 1})
    except UpstreamHTTPError as error:
        if error.status_code == 400:  # it refuses to be asked for them
            return "text"
        raise
    missing = {finding.code for finding in check_upstream_response(response).fatal}
    return "text" if "no_logprobs" in missing else "logprobs" if missing else "tokens"


class _CapturedCalls:
    """Answers the calls of one session by its engine. As `agents.endpoint.requests.AnswersRequests`."""

    def __init__(self, session: Session, pool: UpstreamPool, max_output_tokens: int | None) -> None:
        self._session = session
        self._pool = pool
        self._max_tokens = max_output_tokens

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """The engine's answer. Raises RequestRefused."""
        session = self._session
        if session.over_budget:
            session.budget_stop_count += 1
            return ModelAnswer((ModelReply(BUDGET_STOP_MESSAGE),) * request.num_replies)
        asked = {name: request.sampling[name] for name in SAMPLING_KEYS if name in request.sampling}
        try:
            client, level = await self._pool.engine_of(session)
            body = self._body(request, client.served_model or "", level)
            session.model_calls += 1
            response = await client.completion(dict(body))
            answer = answer_of(response, client.base_url, client.api_key)
        except (UpstreamError, LLMError, asyncio.CancelledError) as error:
            session.upstream_errors += 1
            reason = str(error) or "the program has left before the answer"
            session.findings.append(str(Finding(WARN, "call_lost", f"call {session.model_calls}: {reason}")))
            if isinstance(error, asyncio.CancelledError):
                raise
            status = error.status_code if isinstance(error, UpstreamHTTPError) else 502
            raise RequestRefused(str(error), status=status if status in (400, 413, 422, 429) else 502) from error
        self._record(body, response, level, asked)
        return answer if request.wants_logprobs else without_logprobs(answer)

    def _body(self, request: ModelRequest, model: str, level: str) -> dict[str, Any]:
        """What the engine is sent. Raises RequestRefused for what cannot be captured, or trained."""
        session = self._session
        if request.num_replies > 1 and level == "tokens":
            raise RequestRefused("n: one reply to a call is captured. Call several times", field_name="n")
        body = chat_body(request, model)
        if session.sampling or session.purpose == "train":
            is_limited = request.reply_schema is not None or request.tool_choice == "required"
            if is_limited or level != "tokens":
                reason = "response_format and a required tool limit the replies" if is_limited else "it needs tokens"
                raise RequestRefused(f"the session is one of training: {reason}", field_name="response_format")
            body |= session.sampling
        body |= session.eval_sampling
        limits = (request.max_tokens, session.metadata.get("max_output_tokens"), self._max_tokens)
        name = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
        if given := [limit for limit in limits if limit]:
            body[name] = min(given)
        return body

    def _record(self, body: dict[str, Any], response: dict[str, Any], level: str, asked: dict[str, Any]) -> None:
        session, choice = self._session, response["choices"][0]
        end, message = choice.get("finish_reason"), choice.get("message") or {}
        content = (choice.get("logprobs") or {}).get("content") or []
        prompt, sampled = response.get("prompt_token_ids") or [], choice.get("token_ids") or []
        logprobs = [entry.get("logprob") for entry in content] or None
        number = len(session.graph.nodes())
        if level == "tokens":
            report = check_turn(prompt, sampled, logprobs, finish_reason=end, index=number)
        else:
            report = check_turn_eval(message, finish_reason=end, index=number)
        changed = truncating_params(asked) if level == "tokens" else {}
        if changed and "sampling_overridden" not in session.metadata:
            session.metadata["sampling_overridden"] = changed
            report.add(WARN, "sampling_neutralised", f"the program asked for {changed}: replies were drawn from all")
        session.findings += map(str, report.findings)
        sent = {**body, **{name: NON_POLICY_SAMPLING[name] for name in changed}}
        session.graph.add_turn(
            TurnNode(
                secrets.token_hex(8), list(prompt), list(sampled), logprobs if report.ok else None,
                model=body["model"], finish_reason=end, n_tools=len(body.get("tools") or ()),
                request_messages=body["messages"], request_tools=body.get("tools"),
                sampling_params={name: sent[name] for name in SAMPLING_KEYS if sent.get(name) is not None},
                requested_sampling_params=asked, response_message=message,
            )
        )  # fmt: skip
        session.has_answered()


class _Episodes(Mapping[bytes, Episode]):
    """The sessions as the endpoint's application looks them up."""

    def __init__(self, registry: SessionRegistry, pool: UpstreamPool, max_tokens: int | None, max_calls: int) -> None:
        self._registry, self._pool = registry, pool
        self._max_tokens, self._max_calls = max_tokens, max_calls

    def __getitem__(self, key_hash: bytes) -> Episode:
        session = self._registry.with_hash(key_hash)
        if session is None:
            raise KeyError(key_hash)
        if session.episode is None:
            model = _CapturedCalls(session, self._pool, self._max_tokens)
            session.max_model_calls = session.max_model_calls or self._max_calls
            session.episode = Episode(model, asyncio.get_running_loop())
        return session.episode

    def __iter__(self) -> Iterator[bytes]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._registry.list_ids())


class _NewSession(BaseModel):
    """The body of a request for a session."""

    model_config = ConfigDict(extra="forbid")

    session_id: str | None = None
    llm_url: str = ""
    model: str = ""
    api_key: str | None = None
    auth_header: str = "Authorization"
    provider: str = "openai"
    purpose: str = "auto"
    sampling: dict[str, Any] | None = None
    eval_sampling: dict[str, Any] | None = None
    max_model_calls: int = 0
    metadata: dict[str, Any] = {}


def create_app(
    *,
    llm_url: str = "",
    model: str | None = None,
    engine: str = "",
    require_registered: bool = True,
    max_output_tokens: int | None = 8192,
    api_key: str | None = None,
    auth_header: str = "Authorization",
    provider: str = "openai",
    capture_level: str = "tokens",
    admin_key: str | None = None,
    max_model_calls: int = 0,
) -> FastAPI:
    """The application. Its `state` has the `registry` of sessions, `inference`, and the pool `upstreams`.

    Args:
        llm_url: the engine, for sessions that name none; empty: each has to.
        model: the engine's name of its model, whatever programs name; None: what they name.
        engine: its name, which nothing depends on.
        require_registered: whether a key that is none of a session is refused.
        max_output_tokens: of a reply; None or 0: the engine's limit.
        api_key: the engine's. Programs never see it.
        capture_level: what the engine returns: tokens, logprobs, or text.
        admin_key: the bearer token for /sessions; None: all that reach the port may use it.
        max_model_calls: of a session that has no other limit; 0: no limit.
    """
    client = None
    if llm_url:
        client = InferenceClient(
            llm_url, served_model=model, api_key=api_key, auth_header=auth_header, capture_level=capture_level,
            provider=provider,
        )  # fmt: skip
    registry = SessionRegistry(require_registered=require_registered)
    pool = UpstreamPool(default_client=client, default_level=capture_level)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await pool.aclose()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.registry, app.state.upstreams, app.state.inference = registry, pool, client

    def check_admin(request: Request) -> None:
        given = extract_api_key(request.headers) or ""
        if admin_key and not secrets.compare_digest(given.encode(), admin_key.encode()):
            raise HTTPException(401, "send the admin key as the bearer token")

    admin = APIRouter(prefix="/sessions", dependencies=[Depends(check_admin)])

    @admin.post("")
    async def create(given: _NewSession) -> dict[str, Any]:
        upstream, level = None, capture_level
        try:
            if given.llm_url:
                upstream = Upstream(given.llm_url, given.model, given.api_key, given.auth_header, given.provider)
                _, level = await pool.resolve(upstream)
            rollout_type = rollout_type_for(given.purpose, level)
            session = registry.create(
                given.session_id, upstream=upstream, capture_level=level, purpose=given.purpose,
                eval_sampling=given.eval_sampling, sampling=given.sampling, max_model_calls=given.max_model_calls,
            )  # fmt: skip
        except (ValueError, UpstreamError) as error:
            raise HTTPException(400, str(error)) from error
        session.metadata |= given.metadata
        return {"session_id": session.session_id, "capture_level": level, "rollout_type": rollout_type}

    @admin.get("/{session_id}/rollout")
    async def rollout(session_id: str, include_discarded: bool = False, include_messages: bool = False) -> Any:
        session = registry.get(session_id)
        if session is None:
            raise HTTPException(404, f"there is no session {session_id}")
        return export_session(
            session, include_discarded=include_discarded, include_messages=include_messages,
            capture_level=session.capture_level or capture_level,
        )  # fmt: skip

    @admin.delete("/{session_id}")
    async def delete(session_id: str) -> dict[str, bool]:
        return {"deleted": registry.delete(session_id)}

    app.include_router(admin)
    application = Application(
        _Episodes(registry, pool, max_output_tokens, max_model_calls),
        max_body_bytes=_MAX_BODY_BYTES, keep_alive_s=_KEEP_ALIVE_S, answer_timeout_s=_ANSWER_TIMEOUT_S,
    )  # fmt: skip

    async def calls(scope: Scope, receive: Receive, send: Send) -> None:
        if not require_registered:
            registry.resolve(Headers(scope=scope), {})
        await application(scope, receive, send)

    app.mount("/", calls)
    return app
