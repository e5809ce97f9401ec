"""The tool server of a veterinary practice: JSON-RPC over standard input and output, one message a line.

Usage: server.py DATABASE

What the practice offers stands in practice.json; appointments and orders are in the SQLite file DATABASE. Owners number
their own appointments and orders from 1, so appointment 2 and order 2 are different things with the same id.
"""
import json
import pathlib
import sqlite3
import sys

PRACTICE = json.loads((pathlib.Path(__file__).parent / "practice.json").read_text("utf-8"))
MEDICINES = {medicine["name"]: medicine for medicine in PRACTICE["medicines"]}

db = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)
db.row_factory = sqlite3.Row
db.executescript("""
CREATE TABLE IF NOT EXISTS animals (user_id TEXT, name TEXT COLLATE NOCASE, species TEXT, PRIMARY KEY (user_id, name));
CREATE TABLE IF NOT EXISTS appointments (user_id TEXT, id INTEGER, animal TEXT, service TEXT, day TEXT, time TEXT,
    canceled INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (user_id, id));
CREATE TABLE IF NOT EXISTS orders (user_id TEXT, id INTEGER, animal TEXT, medicine TEXT, packs INTEGER,
    canceled INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (user_id, id));
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, result TEXT);
""")


class Refused(Exception):
    """A call that changed nothing; its text is for the user."""


def next_id(table, user_id):
    return db.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table} WHERE user_id = ?", [user_id]).fetchone()[0]


def known_animal(user_id, name):
    row = db.execute("SELECT name FROM animals WHERE user_id = ? AND name = ?", [user_id, name]).fetchone()
    if not row:
        raise Refused(f"I do not know an animal called {name}. Register it first.")
    return row["name"]


def must_be_free(day, time):
    if time not in free_times(day)["times"]:
        raise Refused(f"{day} at {time} is taken.")


def appointment(row):
    """An appointment as people call it."""
    label = f"{row['service']} for {row['animal']} on {row['day']} at {row['time']}"
    return {"id": row["id"], "label": label, **{key: row[key] for key in ("animal", "service", "day", "time")}}


def order(row):
    packs = "1 pack" if row["packs"] == 1 else f"{row['packs']} packs"
    total = row["packs"] * MEDICINES[row["medicine"]]["price"]
    return {"id": row["id"], "label": f"{packs} of {row['medicine']} for {row['animal']}", "total": f"{total:g}",
            **{key: row[key] for key in ("animal", "medicine", "packs")}}


def one(table, user_id, id):
    row = db.execute(f"SELECT * FROM {table} WHERE user_id = ? AND id = ? AND NOT canceled", [user_id, id]).fetchone()
    if not row:
        raise Refused("There is no such thing any more.")
    return row


def list_animals(user_id):
    rows = db.execute("SELECT name, species FROM animals WHERE user_id = ? ORDER BY name", [user_id])
    return {"animals": [dict(row) for row in rows]}


def register_animal(user_id, name, species):
    try:
        db.execute("INSERT INTO animals VALUES (?, ?, ?)", [user_id, name, species])
    except sqlite3.IntegrityError:
        raise Refused(f"There is a file for {name} already.")
    return {"name": name, "species": species}


def free_times(day):
    taken = dict(db.execute("SELECT time, count(*) FROM appointments WHERE day = ? AND NOT canceled GROUP BY time", [day]).fetchall())
    return {"day": day, "times": [time for time in PRACTICE["times"] if taken.get(time, 0) < PRACTICE["rooms"]]}


def list_appointments(user_id):
    rows = db.execute("SELECT * FROM appointments WHERE user_id = ? AND NOT canceled ORDER BY id", [user_id])
    return {"appointments": [appointment(row) for row in rows]}


def book_appointment(user_id, animal, service, day, time):
    animal = known_animal(user_id, animal)
    must_be_free(day, time)
    id = next_id("appointments", user_id)
    db.execute("INSERT INTO appointments (user_id, id, animal, service, day, time) VALUES (?, ?, ?, ?, ?, ?)",
               [user_id, id, animal, service, day, time])
    return {**appointment(one("appointments", user_id, id)), "price": PRACTICE["services"][service]}


def move_appointment(user_id, id, day, time):
    one("appointments", user_id, id)
    must_be_free(day, time)
    db.execute("UPDATE appointments SET day = ?, time = ? WHERE user_id = ? AND id = ?", [day, time, user_id, id])
    return appointment(one("appointments", user_id, id))


def cancel_appointment(user_id, id):
    canceled = appointment(one("appointments", user_id, id))
    db.execute("UPDATE appointments SET canceled = 1 WHERE user_id = ? AND id = ?", [user_id, id])
    return canceled


def find_medicine(medicine):
    return MEDICINES[medicine]


def list_medicines():
    return {"medicines": PRACTICE["medicines"]}


def list_orders(user_id):
    rows = db.execute("SELECT * FROM orders WHERE user_id = ? AND NOT canceled ORDER BY id", [user_id])
    return {"orders": [order(row) for row in rows]}


def order_medicine(user_id, animal, medicine, packs):
    if packs > PRACTICE["packs"]:
        raise Refused(f"We order at most {PRACTICE['packs']} packs at once.")
    if MEDICINES[medicine]["prescription"]:
        raise Refused(f"{medicine} needs a prescription. Write “renew {medicine} for {animal}”, and a vet looks at it.")
    return new_order(user_id, animal, medicine, packs)


def prescribe_medicine(user_id, animal, medicine):
    return new_order(user_id, animal, medicine, 1)


def new_order(user_id, animal, medicine, packs):
    animal = known_animal(user_id, animal)
    id = next_id("orders", user_id)
    db.execute("INSERT INTO orders (user_id, id, animal, medicine, packs) VALUES (?, ?, ?, ?, ?)",
               [user_id, id, animal, medicine, packs])
    return order(one("orders", user_id, id))


def cancel_order(user_id, id):
    canceled = order(one("orders", user_id, id))
    db.execute("UPDATE orders SET canceled = 1 WHERE user_id = ? AND id = ?", [user_id, id])
    return canceled


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
ID = {"type": "integer", "minimum": 1}
DAY, TIME = {"enum": PRACTICE["days"]}, {"enum": PRACTICE["times"]}
SERVICE, MEDICINE = {"enum": list(PRACTICE["services"])}, {"enum": list(MEDICINES)}
PACKS = {"type": "integer", "minimum": 1}


def fields(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


def list_of(items, **properties):
    return fields(**{items: {"type": "array", "items": fields(**properties)}})


ANIMAL = {"name": TEXT, "species": TEXT}
APPOINTMENT = {"id": ID, "label": TEXT, "animal": TEXT, "service": TEXT, "day": TEXT, "time": TEXT}
ORDER = {"id": ID, "label": TEXT, "total": TEXT, "animal": TEXT, "medicine": TEXT, "packs": NUMBER}
DRUG = {"name": TEXT, "use": TEXT, "price": NUMBER, "prescription": {"type": "boolean"}}

# Function, description, arguments, result; what only looks things up is in READ_ONLY.
TOOLS = [
    (list_animals, "The owner's animals", {"user_id": TEXT}, list_of("animals", **ANIMAL)),
    (register_animal, "Open a file for an animal", {"user_id": TEXT, **ANIMAL}, fields(**ANIMAL)),
    (free_times, "The free times of a day", {"day": DAY}, fields(day=TEXT, times={"type": "array", "items": TEXT})),
    (list_appointments, "The owner's appointments", {"user_id": TEXT}, list_of("appointments", **APPOINTMENT)),
    (book_appointment, "Book an appointment", {"user_id": TEXT, "animal": TEXT, "service": SERVICE, "day": DAY, "time": TIME},
     fields(**APPOINTMENT, price=NUMBER)),
    (move_appointment, "Move an appointment", {"user_id": TEXT, "id": ID, "day": DAY, "time": TIME}, fields(**APPOINTMENT)),
    (cancel_appointment, "Cancel an appointment", {"user_id": TEXT, "id": ID}, fields(**APPOINTMENT)),
    (list_medicines, "What the pharmacy sells", {}, list_of("medicines", **DRUG)),
    (find_medicine, "One medicine", {"medicine": MEDICINE}, fields(**DRUG)),
    (list_orders, "The owner's orders", {"user_id": TEXT}, list_of("orders", **ORDER)),
    (order_medicine, "Order a medicine", {"user_id": TEXT, "animal": TEXT, "medicine": MEDICINE, "packs": PACKS}, fields(**ORDER)),
    (prescribe_medicine, "Order a medicine that a vet has agreed to", {"user_id": TEXT, "animal": TEXT, "medicine": MEDICINE},
     fields(**ORDER)),
    (cancel_order, "Cancel an order", {"user_id": TEXT, "id": ID}, fields(**ORDER)),
]
READ_ONLY = {list_animals, free_times, list_appointments, list_medicines, find_medicine, list_orders}
FUNCTIONS = {function.__name__: function for function, *_ in TOOLS}


def described():
    return [{"name": function.__name__, "description": description, "inputSchema": fields(**arguments), "outputSchema": result,
             "annotations": {"readOnlyHint": function in READ_ONLY, "idempotentHint": False}}
            for function, description, arguments, result in TOOLS]


def call(name, arguments, _meta=None, **_):
    function, key = FUNCTIONS[name], (_meta or {}).get("idempotencyKey")
    if function in READ_ONLY:
        return function(**arguments)
    db.execute("BEGIN IMMEDIATE")
    try:  # The effect and its answer become durable together, or neither does.
        known = db.execute("SELECT result FROM answers WHERE key = ?", [key]).fetchone() if key else None
        result = json.loads(known["result"]) if known else function(**arguments)
        if key and not known:
            db.execute("INSERT INTO answers VALUES (?, ?)", [key, json.dumps(result)])
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return result


def answer(method, params):
    if method == "initialize":
        return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                           "serverInfo": {"name": "practice", "version": "1"}}}
    if method == "tools/list":
        return {"result": {"tools": described()}}
    if method == "tools/call":
        if params.get("name") not in FUNCTIONS:
            return {"error": {"code": -32602, "message": f"there is no tool {params.get('name')}"}}
        try:
            result = call(**params)
        except Refused as refusal:
            return {"result": {"content": [{"type": "text", "text": str(refusal)}], "isError": True}}
        return {"result": {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}}
    return {"error": {"code": -32601, "message": f"unknown method {method}"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:  # A message without an id is a notification, which has no answer.
        reply = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
