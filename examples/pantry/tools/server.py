"""A tool server: JSON-RPC over standard input and output, one message a line. Usage: server.py DATABASE"""
import json, sqlite3, sys

db = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, user_id TEXT, name TEXT)")
db.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, result TEXT)")

def list_items(user_id):
    rows = db.execute("SELECT id, name FROM items WHERE user_id = ? ORDER BY id", [user_id])
    return {"items": [{"id": id, "name": name} for id, name in rows]}

def add_item(user_id, name):
    if name in [item["name"] for item in list_items(user_id)["items"]]:
        raise ValueError(f"There is {name} already.")
    return {"id": db.execute("INSERT INTO items (user_id, name) VALUES (?, ?)", [user_id, name]).lastrowid}

def tool(function, description, arguments, **annotations):
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in arguments}, "required": arguments}
    return {"name": function.__name__, "description": description, "inputSchema": schema, "annotations": annotations}

tools = [tool(list_items, "What is in the pantry", ["user_id"], readOnlyHint=True),
         tool(add_item, "Put something into the pantry", ["user_id", "name"], readOnlyHint=False, idempotentHint=False)]

def call(name, arguments, _meta={}, **_):
    if name == "list_items":
        return list_items(**arguments)
    with db:  # The effect and its answer become durable together, or neither does.
        db.execute("BEGIN IMMEDIATE")
        known = db.execute("SELECT result FROM answers WHERE key = ?", [_meta.get("idempotencyKey")]).fetchone()
        result = json.loads(known[0]) if known else add_item(**arguments)
        db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", [_meta.get("idempotencyKey"), json.dumps(result)])
    return result

for message in map(json.loads, sys.stdin):
    method, params, reply = message["method"], message.get("params", {}), {"error": {"code": -32601, "message": "unknown"}}
    if method == "initialize":
        reply = {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                            "serverInfo": {"name": "pantry", "version": "1"}}}
    elif method == "tools/list":
        reply = {"result": {"tools": tools}}
    elif method == "tools/call":
        try:
            result = call(**params)
            reply = {"result": {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}}
        except Exception as error:  # The call changed nothing; the text is for the user.
            reply = {"result": {"content": [{"type": "text", "text": str(error)}], "isError": True}}
    if "id" in message:  # A message without an id is a notification, which has no answer.
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
