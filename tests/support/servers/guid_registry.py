"""The stack's registry with GUIDs, as Confluent's has them from 8.0 on: Apicurio's knows none."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class GuidRegistry:
    """A small server before the stack's registry: a schema that is registered here gets a GUID besides its id.

    It answers /schemas/guids/GUID/ids as Confluent's registry does: with the id in each context, and an empty list for
    a GUID that it does not have.

    Attributes:
        ids: GUID → id.
        asked: the paths of what was asked.
    """

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self.ids: dict[str, int] = {}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.asked: list[str] = []

    def answer(self, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        self.asked.append(path)
        if path.startswith("/schemas/guids/"):
            number = self.ids.get(path.split("/")[3])
            contexts = [{"context": ".other", "id": 1}, {"context": ".", "id": number}] if number else []
            return 200, json.dumps(contexts).encode()
        question = urllib.request.Request(self._behind + path, body, headers)
        try:
            with self._opener.open(question) as answer:
                return answer.status, self._with_guid(answer.read()) if body else answer.read()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read()

    def _with_guid(self, answer: bytes) -> bytes:
        tree = json.loads(answer)
        tree["guid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._behind}/{tree['id']}"))
        self.ids[tree["guid"]] = tree["id"]
        return json.dumps(tree).encode()


@contextmanager
def guid_registry(behind: str) -> Iterator[tuple[str, GuidRegistry]]:
    """Its URL and itself, while it serves."""
    registry = GuidRegistry(behind)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers["Content-Length"] or 0)
            body = self.rfile.read(size) or None
            headers = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
            status, answer = registry.answer(self.path, body, headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
