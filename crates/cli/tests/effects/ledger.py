"""A tool server over standard input and output that dies in the middle of its first payment.

Usage: ledger.py FOLDER before|after. A payment is a line of FOLDER/ledger with the call's idempotency key. With
`before` the first process dies before it writes the line, with `after` once it has, in both cases without an answer.
"""

import json
import os
import sys

folder, when = sys.argv[1], sys.argv[2]
ledger, died = os.path.join(folder, "ledger"), os.path.join(folder, "died")


def entries():
    if not os.path.exists(ledger):
        return []
    with open(ledger) as lines:
        return lines.read().split()


def die_once(moment):
    if moment == when and not os.path.exists(died):
        open(died, "w").close()
        os._exit(1)


def pay(key, once):
    die_once("before")
    if not (once and key in entries()):
        with open(ledger, "a") as lines:
            lines.write(key + "\n")
            lines.flush()
            os.fsync(lines.fileno())
    die_once("after")
    return {"receipt": key}


def tool(name, properties, **annotations):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": name, "inputSchema": schema, "annotations": annotations}


tools = [
    tool("pay", {}, readOnlyHint=False, idempotentHint=False),
    tool("pay_again", {}, readOnlyHint=False, idempotentHint=True),
    tool("pay_once", {}, readOnlyHint=False, idempotentHint=False),
    tool("find", {"key": {"type": "string"}}, readOnlyHint=True),
]


def call(params):
    name = params["name"]
    if name == "find":
        key = params["arguments"]["key"]
        return {"found": key in entries(), "payment": {"receipt": key}}
    return pay(params["_meta"]["idempotencyKey"], once=name == "pay_once")


for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "ledger", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        content = call(request["params"])
        text = json.dumps(content)
        result = {"content": [{"type": "text", "text": text}], "structuredContent": content}
    elif "id" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": method}}
        print(json.dumps(answer), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
