"""A shop as a tool server over standard input and output: people and orders, numbered from 1 each.

Calls that change something are appended to the file that the first argument names. Standard library only.
"""

import json
import sys

ORDERS = [{"id": 1, "what": "boots"}, {"id": 2, "what": "a hat"}, {"id": 3, "what": "Ann"}]
PEOPLE = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.answer = {"code": code, "message": message}


def find_person(name):
    for person in PEOPLE:
        if person["name"].lower() == name.lower():
            return person
    raise Refused("shop.nobody", "Nobody is called that.")


def change(what, value):
    with open(sys.argv[1], "a", encoding="utf-8") as log:
        log.write(json.dumps([what, value]) + "\n")


def cancel_order(id):
    change("cancel", id)
    return ORDERS[id - 1]


def add_note(text):
    change("note", text)
    return {"text": text}


def refuse(code):
    raise Refused(code, "It cannot be done.")


TOOLS = {
    "find_person": (find_person, {"name": "string"}, True),
    "list_people": (lambda: {"people": PEOPLE}, {}, True),
    "list_orders": (lambda: {"orders": ORDERS}, {}, True),
    "cancel_order": (cancel_order, {"id": "integer"}, False),
    "add_note": (add_note, {"text": "string"}, False),
    "refuse": (refuse, {"code": "string"}, True),
}


def described(name):
    _, parameters, read_only = TOOLS[name]
    properties = {parameter: {"type": kind} for parameter, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"name": name, "inputSchema": schema, "annotations": {"readOnlyHint": read_only}}


def called(name, arguments):
    try:
        value, failed = TOOLS[name][0](**arguments), False
    except Refused as refused:
        value, failed = refused.answer, True
    text = {"type": "text", "text": json.dumps(value)}
    return {"content": [text], "structuredContent": value, "isError": failed}


def result(method, params):
    if method == "initialize":
        version = params["protocolVersion"]
        server = {"name": "shop", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [described(name) for name in TOOLS]}
    if method == "tools/call":
        return called(params["name"], params.get("arguments", {}))
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        value = result(message["method"], message.get("params", {}))
        error = {"code": -32601, "message": "there is no such method"}
        answer = {"error": error} if value is None else {"result": value}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
