"""The tool server of the tables, over standard input and output, or with `--http` over HTTP on a free port, which it
prints. It uses nothing but the standard library.

Every tool answers with its arguments, and with what makes the settings of an app visible: its environment and command
line, a list of two kinds of items, and the idempotency key of the call.
"""

import json
import os
import queue
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

polls = 0
FRUIT = [
    {"id": 1, "sku": "A-1", "name": "apple", "title": "Red apple"},
    {"id": 2, "sku": "P-2", "name": "ripe pear", "title": "Green pear"},
    {"id": 3, "sku": "P-3", "name": "pear tree", "title": "Small tree"},
]


def tool(name, required=(), **annotations):
    properties = {key: {"type": ["string", "number"]} for key in ("what", "who", "amount", "question", "query", "seconds")}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, "annotations": annotations}


TOOLS = [
    tool("look", readOnlyHint=True),
    tool("stock", readOnlyHint=True),
    tool("empty", readOnlyHint=True),
    tool("wait", readOnlyHint=True),
    tool("ask", readOnlyHint=True),
    tool("poll", readOnlyHint=True),
    tool("fail", readOnlyHint=True),
    tool("break", readOnlyHint=True),
    tool("die", readOnlyHint=True),
    tool("order", readOnlyHint=False, idempotentHint=False, destructiveHint=True),
    tool("refuse", readOnlyHint=False, idempotentHint=False),
]


def call(name, arguments, meta):
    global polls
    if name in ("fail", "refuse"):
        return {"message": "out of paper", "code": "shop.paper"}
    if name == "die":
        os.kill(os.getppid(), signal.SIGKILL)
    if name == "wait":
        time.sleep(float(arguments.get("seconds", 2)))
    if name == "ask":
        polls = 0
        return {"status": "running", "state": "busy", "conversation_id": "c-7", "message_id": "m-1"}
    if name == "poll":
        polls += 1
        done = {"status": "done", "answer": f"Polled {arguments.get('who', 'it')}.", "conversation_id": "c-7"}
        return done if polls > 1 else {"status": "running", "conversation_id": "c-7", "message_id": "m-1"}
    items = [] if name == "empty" else FRUIT
    return {
        "tool": name,
        "arguments": arguments,
        "key": meta.get("idempotencyKey"),
        "env": os.environ.get("SHOP"),
        "args": sys.argv[1:],
        "folder": os.path.basename(os.getcwd()),
        "fruit": items,
        "goods": items[:1],
        "answer": f"{name} says {len(items)}.",
        "text": f"{name} in other words.",
        "conversation_id": "c-7",
        "thread": "t-9",
        "number": 41,
        "done": True,
    }


def answer(message, header=None):
    """The reply to a message, if it is a request."""
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call" and params["name"] == "break":
        error = {"code": -32603, "message": "out of order"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    elif method == "tools/call":
        told = call(params["name"], params.get("arguments", {}), params.get("_meta", {}))
        failed = params["name"] in ("fail", "refuse")
        told["header"] = header
        content = [{"type": "text", "text": told["message"] if failed else json.dumps(told)}]
        result = {"content": content, "structuredContent": told, "isError": failed}
    elif "id" in message:
        error = {"code": -32601, "message": "unknown method"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    else:
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Handler(BaseHTTPRequestHandler):
    """`/mcp` is streamable HTTP; `/sse` is the stream of the older transport, whose messages go to `/messages`."""

    protocol_version = "HTTP/1.1"
    replies = queue.Queue()

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", content_type="application/json"):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        reply = answer(message, self.headers.get("x-shop"))
        if self.path == "/messages":
            if reply:
                self.replies.put(reply)
            self.reply(202)
        elif reply:
            self.reply(200, json.dumps(reply).encode())
        else:
            self.reply(202)

    def do_GET(self):
        if self.path != "/sse":
            self.reply(405)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.event("endpoint", "/messages")
        while True:
            self.event("message", json.dumps(self.replies.get()))

    def event(self, name, data):
        self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
        self.wfile.flush()


time.sleep(float(os.environ.get("SHOP_STARTS_IN", "0")))
if sys.argv[1:] == ["--http"]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    reply = answer(json.loads(line))
    if reply:
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
