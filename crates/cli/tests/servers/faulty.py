"""A tool server over standard input and output with one fault of its own.

Usage: faulty.py FAULT [WORDS]. It has two tools, `ask`, which says that it only reads, and `change`, which
says nothing of the kind; both answer with WORDS unless the fault is in the way. It uses nothing but the
standard library and knows the protocol of 2025-11-25 only. The faults:

none       answers at once
slow:MS    answers so many milliseconds after the call
hanging    takes the call and never answers it, nor reads anything more
forgetful  takes the call and never answers it, but reads on
mute       never answers anything, not even `initialize`
listless   never answers `tools/list`
dying      dies in the middle of the call
crashing   dies before it answers `initialize`
babbling   answers the call with what is no message
refusing   writes WORDS to its error output, and answers the call with an error that says WORDS
flooding   answers nothing and writes without end
"""

import json
import os
import sys
import time

fault = sys.argv[1]
words = sys.argv[2] if len(sys.argv) > 2 else "Nothing."


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def sleep_for_good():
    while True:
        time.sleep(1_000)


def write_without_end():
    while True:
        sys.stdout.write("no message, only words\n")


def call(request):
    kind, _, number = fault.partition(":")
    if kind == "hanging":
        sleep_for_good()
    elif kind == "forgetful":
        return
    elif kind == "dying":
        os._exit(1)
    elif kind == "babbling":
        sys.stdout.write('{"half a mess\n\x00\xff]]]\n')
        sys.stdout.flush()
        return
    elif kind == "refusing":
        sys.stderr.write(words + "\n")
        sys.stderr.flush()
        result = {"content": [{"type": "text", "text": words}], "isError": True}
        send({"id": request["id"], "result": result})
        return
    elif kind == "slow":
        time.sleep(int(number) / 1_000)
    result = {"content": [{"type": "text", "text": words}], "structuredContent": {"answer": words}}
    send({"id": request["id"], "result": result})


def tool(name, **more):
    schema = {"type": "object", "properties": {}}
    return {"name": name, "description": name, "inputSchema": schema, **more}


if fault == "crashing":
    sys.exit("crashing, as asked")
for line in sys.stdin:
    if fault == "mute":
        continue
    if fault == "flooding":
        write_without_end()
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
        send({"id": message["id"], "result": result})
    elif method == "tools/list" and fault != "listless":
        tools = [tool("ask", annotations={"readOnlyHint": True}), tool("change")]
        send({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        call(message)
    elif method == "server/discover":
        send({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
