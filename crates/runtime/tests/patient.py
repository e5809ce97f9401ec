"""A tool server over standard input and output that waits where a test wants it to.

Usage: patient.py FOLDER NAME. It writes its process id to FOLDER/NAME.pid. Its tool `work` says nothing of what it does to
the world, writes the idempotency key of the call as a line of FOLDER/NAME.begun, waits until FOLDER/NAME.go exists, writes
the key to FOLDER/NAME.done, and answers NAME.
"""

import json
import os
import sys
import time

folder, name = sys.argv[1], sys.argv[2]
parent = os.getppid()


def write(kind, words):
    with open(os.path.join(folder, f"{name}.{kind}"), "a") as file:
        file.write(words + "\n")


def work(key):
    write("begun", key)
    while not os.path.exists(os.path.join(folder, f"{name}.go")):
        if os.getppid() != parent:
            # Whoever called is gone, and nobody else would end this.
            os._exit(1)
        time.sleep(0.005)
    write("done", key)
    return {"content": [{"type": "text", "text": name}], "structuredContent": {"name": name}}


write("pid", str(os.getpid()))
for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        }
    elif method == "tools/list":
        schema = {"type": "object", "properties": {}}
        result = {"tools": [{"name": "work", "description": "Works.", "inputSchema": schema}]}
    elif method == "tools/call":
        result = work(request["params"]["_meta"]["idempotencyKey"])
    elif "id" in request:
        error = {"code": -32601, "message": method}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
