"""A cluster's API on the loopback interface: it validates what it is sent, and its pods are echo servers.

How a pod fares follows from its image: `missing...` cannot be pulled, `big...` fits on no node, `crashing...` ends at
once, `slow...` is never ready, and `vanishing...` is deleted while it starts.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from tests.hosting import fake_tools

KINDS = {"pods": "v1", "services": "v1", "networkpolicies": "networking.k8s.io/v1"}


class FakeCluster:
    """The objects of the cluster, by kind and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.namespaces: set[str] = set()
        self.refuses: str | None = None
        """Why it refuses to create anything."""
        self.app = FastAPI()
        for prefix in ("/api/v1", "/apis/networking.k8s.io/v1"):
            path = f"{prefix}/namespaces/{{namespace}}/{{kind}}"
            self.app.post(path)(self.create)
            self.app.get(path)(self.watch)
            self.app.delete(f"{path}/{{name}}")(self.delete)
        self.app.get("/api/v1/namespaces/{namespace}/pods/{name}/log")(self.log)
        self.app.websocket("/api/v1/namespaces/{namespace}/pods/{name}/exec")(self.exec)

    async def create(self, namespace: str, kind: str, request: Request) -> JSONResponse:
        """Keep an object, and start the server of a pod."""
        if self.refuses is not None:
            return _status(403, "Forbidden", self.refuses)
        found = await request.json()
        kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)
        name = found["metadata"]["name"]
        found["metadata"] |= {"uid": f"uid-{kind}", "namespace": namespace}
        self.namespaces.add(namespace)
        self.created.append(json.loads(json.dumps(found)))
        self.objects[kind, name] = found
        if kind == "pods" and _image(found).startswith("crashing"):
            (fake_tools.FOLDER / f"{name}.log").write_text("no module named game")
        elif kind == "pods" and not _image(found).startswith(("missing", "big")):
            container = found["spec"]["containers"][0]
            env = [f"{pair['name']}={pair['value']}" for pair in container["env"] if "value" in pair]
            fake_tools.start_server(name, 0, env)
        return JSONResponse(found, 201)

    async def watch(self, namespace: str, kind: str, request: Request) -> StreamingResponse:
        """The events of one pod, of which the last is the one that matters."""
        name = request.query_params["fieldSelector"].removeprefix("metadata.name=")
        assert int(request.query_params["timeoutSeconds"]) > 0
        return StreamingResponse(self._events(self.objects["pods", name]), media_type="application/json")

    def _events(self, pod: dict[str, Any]) -> Iterator[str]:
        for status in ({"phase": "Pending"}, _fate(_image(pod))):
            kind = "DELETED" if _image(pod).startswith("vanishing") else "MODIFIED"
            yield json.dumps({"type": kind, "object": {**pod, "status": status}}) + "\n"

    async def log(self, namespace: str, name: str, request: Request) -> Any:
        """The last lines of a pod's output."""
        path = fake_tools.FOLDER / f"{name}.log"
        if not path.exists():
            return _status(400, "BadRequest", "the container is waiting to start")
        lines = path.read_text().splitlines()[-int(request.query_params["tailLines"]) :]
        return PlainTextResponse("\n".join(lines))

    async def exec(self, namespace: str, name: str, websocket: WebSocket) -> None:
        """Run the command here, and send its output and its code as a kubelet does."""
        await websocket.accept(subprotocol=websocket.scope["subprotocols"][0])
        command = websocket.query_params.getlist("command")
        if command == ["absent"]:
            broken = {"status": "Failure", "message": "no such file: absent"}
            await websocket.send_bytes(b"\x03" + json.dumps(broken).encode())
            await websocket.close()
            return
        if command == ["cut"]:
            await websocket.close()
            return
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
        await websocket.send_bytes(b"\x01" + done.stdout)
        ended: dict[str, Any] = {"status": "Success"}
        if done.returncode:
            cause = {"reason": "ExitCode", "message": str(done.returncode)}
            ended = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
        await websocket.send_bytes(b"\x03" + json.dumps(ended).encode())
        await websocket.close()

    async def delete(self, namespace: str, kind: str, name: str) -> JSONResponse:
        """Forget an object, and stop the server of a pod."""
        if self.objects.pop((kind, name), None) is None:
            return _status(404, "NotFound", f'{kind} "{name}" not found')
        if kind == "pods" and (fake_tools.FOLDER / f"{name}.json").exists():
            fake_tools.stop_server(name, forget=True, what="pod")
        return JSONResponse({"kind": "Status", "apiVersion": "v1", "status": "Success"})


def _image(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _fate(image: str) -> dict[str, Any]:
    """The status that a pod of this image comes to."""
    if image.startswith("missing"):
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
        return {"phase": "Pending", "containerStatuses": [_container(image, waiting=waiting)]}
    if image.startswith("big"):
        message = "0/3 nodes are available: 3 Insufficient memory."
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        return {"phase": "Pending", "conditions": [scheduled]}
    if image.startswith("crashing"):
        ended = {"exitCode": 1, "reason": "Error"}
        return {"phase": "Failed", "containerStatuses": [_container(image, terminated=ended)]}
    ready = "False" if image.startswith("slow") else "True"
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}


def _container(image: str, **state: dict[str, Any]) -> dict[str, Any]:
    return {"name": "server", "image": image, "imageID": "", "ready": False, "restartCount": 0, "state": state}


def _status(code: int, reason: str, message: str) -> JSONResponse:
    content = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return JSONResponse({**content, "message": message}, code)
