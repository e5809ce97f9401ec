"""A tool server over standard input and output that fails in every way the tests ask for.

Usage: scripted.py LOG [MODE]. Every start, call and cancellation is a line of LOG. It uses nothing
but the standard library and knows the protocol of 2025-11-25 only.
"""

import json
import os
import subprocess
import sys
import time

log_path = sys.argv[1]
mode = sys.argv[2] if len(sys.argv) > 2 else "sound"


def log(*words):
    with open(log_path, "a") as log_file:
        log_file.write(" ".join(str(word) for word in words) + "\n")


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request, content, is_error=False):
    text = content if isinstance(content, str) else json.dumps(content)
    result = {"content": [{"type": "text", "text": text}], "isError": is_error}
    send({"id": request["id"], "result": result})


def tool(name, properties=None, required=(), **more):
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return {"name": name, "description": name, "inputSchema": schema, **more}


text = {"type": "string"}
tools = [
    tool("echo", {"text": text}, ["text"], annotations={"readOnlyHint": True}),
    tool("pid"),
    tool("die"),
    tool("hang"),
    tool("stick"),
    tool("gather", {"count": {"type": "integer"}, "text": text}, ["count", "text"]),
    tool("meta"),
    tool("whoami", {"user_id": text}, ["user_id"]),
    tool("grow"),
    tool("fail", {"code": {"type": "integer"}}, ["code"]),
    tool("refuse"),
]
gathered = []


def call(request):
    name = request["params"]["name"]
    arguments = request["params"].get("arguments", {})
    log("call", name)
    if name == "echo":
        answer(request, arguments["text"])
    elif name == "pid":
        answer(request, {"pid": os.getpid()})
    elif name == "die":
        os._exit(1)
    elif name == "stick":
        # Stuck forever: reads nothing more, not even the end of the input.
        time.sleep(1_000_000)
    elif name == "gather":
        # Answers only after all calls have arrived, the last one first.
        gathered.append((request, arguments["text"]))
        if len(gathered) == arguments["count"]:
            for waiting, words in reversed(gathered):
                answer(waiting, words)
            gathered.clear()
    elif name == "meta":
        answer(request, request["params"].get("_meta", {}))
    elif name == "whoami":
        answer(request, arguments)
    elif name == "grow":
        tools.append(tool("grown"))
        send({"method": "notifications/tools/list_changed"})
        answer(request, "grown")
    elif name == "fail":
        send({"id": request["id"], "error": {"code": arguments["code"], "message": "as asked"}})
    elif name == "refuse":
        answer(request, "no", is_error=True)


def listed(request):
    if mode == "endless":
        send({"id": request["id"], "result": {"tools": tools[:1], "nextCursor": "more"}})
        return
    start = int((request.get("params") or {}).get("cursor") or 0)
    result = {"tools": tools[start : start + 3]}
    if start + 3 < len(tools):
        result["nextCursor"] = str(start + 3)
    send({"id": request["id"], "result": result})


starts_before = os.path.exists(log_path)
log("start", os.getpid())
if mode == "crash" or (mode == "crash_later" and starts_before):
    sys.exit("crashing, as asked")
if mode == "stubborn":
    # Keeps running after its input is closed, and so does the process it starts.
    child = subprocess.Popen(["sleep", "1000"])
    log("child", child.pid)
if mode == "flood":
    while True:
        print("this line is no message, nor is any other")
print("this line is no message and must be skipped")
sys.stdout.flush()
print("this line goes to the log", file=sys.stderr)

for line in sys.stdin:
    if mode == "mute":
        continue
    message = json.loads(line)
    method = message.get("method")
    if method == "server/discover":
        if mode != "silent":
            send({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
    elif method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "scripted", "version": "1"},
        }
        send({"id": message["id"], "result": result})
    elif method == "tools/list":
        listed(message)
    elif method == "tools/call":
        call(message)
    elif method == "notifications/cancelled":
        log("cancelled", message["params"]["requestId"])

if mode == "stubborn":
    child.wait()
