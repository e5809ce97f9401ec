"""A streamable HTTP tool server that answers calls with whatever HTTP has to offer.

It prints its port and serves until it is killed. The tool `answer` takes the status to answer with;
0 closes the connection without a word. The tool `trace` answers with the trace context of its call, from the header and
from `_meta`. It uses nothing but the standard library.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

calls = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, content_type="application/json", **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(405)

    do_DELETE = do_GET

    def do_POST(self):
        global calls
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method")
        params = message.get("params") or {}
        if "id" not in message:
            return self.reply(202)
        if method == "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
        elif method == "tools/list":
            schema = {"type": "object", "properties": {"status": {"type": "integer"}}}
            result = {"tools": [{"name": name, "inputSchema": schema} for name in ("answer", "calls", "trace")]}
        elif method == "tools/call" and params["name"] == "trace":
            told = [self.headers.get("traceparent"), params.get("_meta", {}).get("traceparent")]
            result = {"content": [{"type": "text", "text": json.dumps(told)}]}
        elif method == "tools/call" and params["name"] == "calls":
            result = {"content": [{"type": "text", "text": str(calls)}]}
        elif method == "tools/call":
            calls += 1
            status = params["arguments"]["status"]
            if status == 0:
                self.close_connection = True
                return None
            if status == 200:
                return self.reply(200, content_type="text/html")
            challenge = {"WWW_Authenticate": "Bearer"} if status == 401 else {}
            return self.reply(status, content_type="text/plain", **challenge)
        else:
            error = {"code": -32601, "message": "unknown method"}
            return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
