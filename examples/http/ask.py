"""Sends a request to a Convoke service, and shows what happens until it is answered. Needs nothing but Python.

    python3 ask.py http://localhost:8080 "remind me to buy milk"
"""
import json
import os
import sys
import time
import urllib.request
import uuid

def call(url, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body).encode()
    if data:
        headers["content-type"] = "application/json"
    if token := os.environ.get("CONVOKE_TOKEN"):
        headers["authorization"] = f"Bearer {token}"
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60)

def main(service, message):
    # The same key gives the same task, however often the request is sent.
    body = {"message": message, "mode": "background"}
    task = json.load(call(f"{service}/api/v1/tasks", body, idempotency_key=str(uuid.uuid4())))
    last, over = "", False
    while not over:
        try:
            for line in call(f"{service}/api/v1/tasks/{task['id']}/events", last_event_id=last):
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    print(value, file=sys.stderr)
                    over = over or value in ("ended", "question_asked")
                elif field == "id":
                    last = value
        except OSError:
            time.sleep(1)  # Cut off: go on after the last event.
    task = json.load(call(f"{service}/api/v1/tasks/{task['id']}"))
    print(task["answer"]["text"] if task["answer"] else task["questions"] or task["error"])

main(*sys.argv[1:])
