"""A server of the older protocol, written without the package: it knows `initialize` and nothing newer.

    handshake.py stdio HABIT
    handshake.py http HABIT      (any port, which is printed)

The habit is what it does with `server/discover`, or with any other request before `initialize`:

    refuses     answers that there is no such method
    invalid     answers that the session is not initialized, without the id of the request
    ignores     answers nothing
    closes      ends: a program exits, a connection is closed
    crashes     only over HTTP: answers 500
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
VERSION = "2025-06-18"
HABITS = ("refuses", "invalid", "ignores", "closes", "crashes")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            about = {"name": "handshake", "version": "1"}
            return {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [{"name": "weather", "description": "The weather.", "inputSchema": PLACE}]}
        case "tools/call":
            return {
                "content": [{"type": "text", "text": f"rain in {request['params']['arguments']['place']}"}]
            }
    raise LookupError(request["method"])


def error(number: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}


def reply(request: dict[str, Any], habit: str) -> dict[str, Any] | None:
    """None if there is nothing to say."""
    if "id" not in request:
        return None
    try:
        return {"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}
    except LookupError:
        if habit == "refuses":
            return error(request["id"], -32601, "Method not found")
        return error(None, -32602, "not initialized") if habit == "invalid" else None


def serve_stdio(habit: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if habit == "closes" and request["method"] == "server/discover":
            sys.exit(1)
        said = reply(request, habit)
        if said is not None:
            print(json.dumps(said), flush=True)


class Handler(BaseHTTPRequestHandler):
    habit = "refuses"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if request["method"] == "server/discover" and self.habit == "closes":
            self.close_connection = True
            return
        said = reply(request, self.habit)
        status = 200 if said is not None else 202
        if request["method"] == "server/discover" and self.habit == "crashes":
            status, said = 500, None
        body = json.dumps(said).encode() if said is not None else b""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def serve_http(habit: str) -> None:
    Handler.habit = habit
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    {"stdio": serve_stdio, "http": serve_http}[sys.argv[1]](sys.argv[2])
