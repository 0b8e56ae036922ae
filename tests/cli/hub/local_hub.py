"""A server on this machine that answers the Hub's API, as far as the commands call it."""

import base64
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

TOKEN = "hf_of_ada"
USER = "ada"


@dataclass
class HubSpace:
    """A Space, as the Hub keeps it."""

    private: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    hardware: str | None = None
    host: str | None = None
    """URL of its server, while it runs."""
    pull_requests: list[dict[str, bytes]] = field(default_factory=list)


class LocalHub:
    """The Spaces, and the application that changes them."""

    def __init__(self, organizations: Collection[str] = ()) -> None:
        """organizations: other accounts under which the user may create Spaces."""
        self._owners = {USER, *organizations}
        self.spaces: dict[str, HubSpace] = {}
        self.requests: list[str] = []
        self.app = FastAPI()
        self.app.middleware("http")(self._guard)
        self._add_account()
        self._add_repository()
        self._add_settings()

    async def _guard(self, request: Request, call_next: Any) -> Response:
        self.requests.append(f"{request.method} {request.url.path}")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}" and not self._is_open(request):
            return _refusal(401, "Invalid username or password.")
        return await call_next(request)

    def _is_open(self, request: Request) -> bool:
        """Whether a request reads a public Space, which needs no token."""
        parts = request.url.path.removeprefix("/api").split("/")
        space = self.spaces.get("/".join(parts[2:4])) if parts[1] == "spaces" else None
        return request.method in ("GET", "HEAD") and space is not None and not space.private

    def _add_account(self) -> None:
        @self.app.get("/api/whoami-v2")
        def whoami() -> dict[str, Any]:
            return {"type": "user", "name": USER, "orgs": []}

        @self.app.post("/api/validate-yaml")
        def validate_yaml(body: dict[str, Any]) -> Response:
            if body["content"].startswith("---\n"):
                return JSONResponse({"errors": [], "warnings": []})
            return JSONResponse({"errors": [{"message": "no header"}], "warnings": []}, 400)

        @self.app.post("/api/repos/create")
        def create(body: dict[str, Any], request: Request) -> Response:
            assert (body["type"], body["sdk"]) == ("space", "docker")
            name = f"{body.get('organization') or USER}/{body['name']}"
            if name.partition("/")[0] not in self._owners:
                return _refusal(403, f"You don't have the rights to create a space under {name.partition('/')[0]}")
            url = f"{request.base_url}spaces/{name}"
            if name in self.spaces:
                return JSONResponse({"error": "You already created this space repo", "url": url}, 409)
            self.spaces[name] = HubSpace(private=body.get("visibility") == "private")
            return JSONResponse({"url": url, "name": name, "id": name})

    def _add_repository(self) -> None:
        @self.app.get("/api/spaces/{owner}/{name}")
        @self.app.get("/api/spaces/{owner}/{name}/revision/{revision}")
        def info(owner: str, name: str, revision: str = "main") -> Response:
            space = self.spaces.get(f"{owner}/{name}")
            if space is None:
                return _refusal(404, "Repository not found", code="RepoNotFound")
            siblings = [{"rfilename": path} for path in space.files]
            about = {"id": f"{owner}/{name}", "private": space.private, "sha": "0" * 40, "siblings": siblings}
            about |= {"host": space.host} if space.host else {}
            return JSONResponse(about)

        @self.app.get("/api/spaces/{owner}/{name}/tree/{revision}")
        def tree(owner: str, name: str, revision: str) -> Response:
            space = self.spaces.get(f"{owner}/{name}")
            if space is None:
                return _refusal(404, "Repository not found", code="RepoNotFound")
            sizes = {path: len(content) for path, content in space.files.items()}
            return JSONResponse(
                [{"type": "file", "path": path, "size": size, "oid": "0" * 40} for path, size in sizes.items()]
            )

        @self.app.api_route("/spaces/{owner}/{name}/resolve/{revision}/{path:path}", methods=["GET", "HEAD"])
        def resolve(owner: str, name: str, revision: str, path: str) -> Response:
            content = self.spaces[f"{owner}/{name}"].files[path]
            headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": "0" * 40}
            return Response(content, headers=headers, media_type="application/octet-stream")

        @self.app.post("/api/spaces/{owner}/{name}/preupload/{revision}")
        def preupload(owner: str, name: str, revision: str, body: dict[str, Any]) -> Response:
            if f"{owner}/{name}" not in self.spaces:
                return _refusal(404, "Repository not found", code="RepoNotFound")
            files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in body["files"]]
            return JSONResponse({"files": files})

        @self.app.post("/api/spaces/{owner}/{name}/commit/{revision}")
        async def commit(owner: str, name: str, revision: str, request: Request) -> dict[str, Any]:
            space, url = self.spaces[f"{owner}/{name}"], f"{request.base_url}spaces/{owner}/{name}"
            changed = dict(space.files)
            entries = [json.loads(line) for line in (await request.body()).splitlines()]
            paths = [entry["value"]["path"] for entry in entries if entry["key"] != "header"]
            assert len(paths) == len({*paths}), "a commit changes a file once"
            for entry in entries:
                if entry["key"] == "file":
                    changed[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
                elif entry["key"] == "deletedFile":
                    del changed[entry["value"]["path"]]
            made = {"commitUrl": f"{url}/commit/{'1' * 40}", "commitOid": "1" * 40}
            if request.query_params.get("create_pr") != "1":
                space.files = changed
                return made
            space.pull_requests.append(changed)
            return {**made, "pullRequestUrl": f"{url}/discussions/{len(space.pull_requests)}"}

    def _add_settings(self) -> None:
        @self.app.post("/api/spaces/{owner}/{name}/{kind}")
        def change(owner: str, name: str, kind: str, body: dict[str, Any], request: Request) -> Response:
            space = self.spaces.get(f"{owner}/{name}")
            if space is None:
                return _refusal(404, "Repository not found", code="RepoNotFound")
            if kind == "duplicate":
                return self._duplicate(space, body, request)
            if kind == "hardware":
                space.hardware = body["flavor"]
                return JSONResponse({"stage": "BUILDING", "hardware": {"requested": body["flavor"]}})
            getattr(space, kind)[body["key"]] = body["value"]
            return JSONResponse({body["key"]: {"value": body["value"]}} if kind == "variables" else {})

    def _duplicate(self, space: HubSpace, body: dict[str, Any], request: Request) -> Response:
        name = body["repository"]
        if name in self.spaces:
            return _refusal(409, f"{name} exists already")
        self.spaces[name] = HubSpace(
            private=body.get("visibility") == "private" or (space.private and "visibility" not in body),
            files=dict(space.files), hardware=body.get("hardware"),
            variables={pair["key"]: pair["value"] for pair in body.get("variables", [])},
            secrets={pair["key"]: pair["value"] for pair in body.get("secrets", [])},
        )  # fmt: skip
        return JSONResponse({"url": f"{request.base_url}spaces/{name}"})


def _refusal(status: int, error: str, code: str | None = None) -> JSONResponse:
    headers = {"X-Error-Message": error, **({"X-Error-Code": code} if code else {})}
    return JSONResponse({"error": error}, status, headers=headers)
