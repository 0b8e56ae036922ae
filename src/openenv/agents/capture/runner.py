"""Serves captured calls from a thread of this process, whose other threads read the sessions."""

from typing import Any

from openenv.agents.capture.server import create_app
from openenv.agents.capture.sessions import SessionRegistry
from openenv.agents.capture.upstream import InferenceClient
from openenv.agents.endpoint.server_thread import ServerThread


class CaptureServer:
    """Agents' programs call it in place of their model's service, each with the id of its session as the key.

    Example:
        server = CaptureServer(llm_url="http://localhost:8000", model="Qwen/Qwen3-0.6B", port=0)
        server.start()
        session = server.registry.create(sampling={"temperature": 1.0})
        run_my_agent(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=session.session_id)
        trace = to_training_trace(session.graph, export_session(session))
    """

    def __init__(
        self,
        *,
        llm_url: str,
        model: str,
        port: int = 8100,
        max_output_tokens: int = 8192,
        api_key: str | None = None,
        auth_header: str = "Authorization",
        capture_level: str = "tokens",
        provider: str = "openai",
        admin_key: str | None = None,
        max_model_calls: int = 0,
    ) -> None:
        """See `create_app`. port: 0 for a free one, which `port` is then."""
        self.app: Any = create_app(
            llm_url=llm_url, model=model, max_output_tokens=max_output_tokens, api_key=api_key, auth_header=auth_header,
            capture_level=capture_level, provider=provider, admin_key=admin_key, max_model_calls=max_model_calls,
        )  # fmt: skip
        self.capture_level = capture_level
        self.admin_key = admin_key
        self.port = port
        self._server = ServerThread("captured calls of models")

    @property
    def registry(self) -> SessionRegistry:
        """The sessions."""
        found: SessionRegistry = self.app.state.registry
        return found

    @property
    def inference(self) -> InferenceClient:
        """The engine's client."""
        found: InferenceClient = self.app.state.inference
        return found

    def start(self, timeout_s: float = 30.0) -> None:
        """Listen: on all addresses if there is an `admin_key`, else on the loopback interface alone.

        Raises OSError for a port that is taken, and TimeoutError.
        """
        host = "127.0.0.1" if self.admin_key is None else "0.0.0.0"  # sandboxes and containers call from elsewhere
        self.port = self._server.start(self.app, host, self.port, timeout_s)

    def stop(self) -> None:
        """Stop serving. The sessions can still be read."""
        self._server.stop()
