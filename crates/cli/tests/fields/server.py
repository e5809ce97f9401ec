"""The tool server of the field table's app, over standard input and output, or over SSE with `--sse`.

With `--sse` it prints its port and serves until it is killed. It uses nothing but the standard library.
"""

import json
import os
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROPERTIES = {
    "look_up": {"query": {"type": "string"}},
    "sleep": {"query": {"type": "string"}},
    "break": {"query": {"type": "string"}},
    "change": {"what": {"type": "string"}},
    "greeting": {},
}
RESULT = {
    "type": "object",
    # What `greeting` gives under `arguments` is a list.
    "properties": {"answer": {"type": "string"}, "greeting": {"type": "string"}, "arguments": {"type": "string"}},
}


def tool(name):
    properties = PROPERTIES[name]
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    annotations = {"readOnlyHint": name != "change"}
    return {
        "name": name,
        "description": f"The tool that can {name}.",
        "inputSchema": schema,
        "outputSchema": RESULT,
        "annotations": annotations,
    }


def call(name, arguments):
    if name == "sleep":
        threading.Event().wait()
    if name == "break":
        raise ValueError("the machine is out of order")
    if name == "greeting":
        return {"greeting": os.environ.get("GREETING", "none"), "arguments": sys.argv[1:]}
    what = arguments.get("query") or arguments.get("what")
    return {"answer": f"{name}: {what}"}


def reply(request):
    method, params = request.get("method"), request.get("params") or {}
    if "id" not in request:
        return None
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "box", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [tool(name) for name in PROPERTIES]}
    elif method == "tools/call":
        try:
            content = call(params["name"], params.get("arguments") or {})
            result = {"content": [{"type": "text", "text": json.dumps(content)}], "structuredContent": content}
        except ValueError as error:
            result = {"content": [{"type": "text", "text": str(error)}], "isError": True}
    else:
        error = {"code": -32601, "message": str(method)}
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


class Sse(BaseHTTPRequestHandler):
    """One stream for all answers, and a place to post requests to."""

    protocol_version = "HTTP/1.1"
    answers = queue.Queue()

    def log_message(self, *_):
        pass

    def send(self, event, data):
        self.wfile.write(f"event: {event}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.send("endpoint", "/messages")
        try:
            while True:
                self.send("message", json.dumps(self.answers.get()))
        except OSError:
            pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        answer = reply(request)
        if answer is not None:
            self.answers.put(answer)


if "--sse" in sys.argv:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sse)
    print(server.server_port, flush=True)
    server.serve_forever()
else:
    # A tool that sleeps holds up no other.
    printing = threading.Lock()

    def serve(request):
        answer = reply(request)
        if answer is not None:
            with printing:
                print(json.dumps(answer), flush=True)

    for line in sys.stdin:
        threading.Thread(target=serve, args=[json.loads(line)], daemon=True).start()
