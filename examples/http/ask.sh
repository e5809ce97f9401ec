#!/usr/bin/env bash
# Sends a request to a Convoke service and prints the answer. Needs curl and Python.
#
#   ./ask.sh http://localhost:8080 "remind me to buy milk"
set -euo pipefail
service=$1 message=$2
authorization=${CONVOKE_TOKEN:+authorization: Bearer $CONVOKE_TOKEN}

body=$(python3 -c 'import json, sys; print(json.dumps({"message": sys.argv[1]}))' "$message")
# With the same key, curl may repeat the request as often as it likes.
curl --silent --show-error --fail-with-body --retry 5 --retry-all-errors "$service/api/v1/tasks" \
  --header "content-type: application/json" --header "idempotency-key: $(date +%s)-$$" \
  --header "${authorization:-accept: application/json}" --data "$body" |
  python3 -c 'import json, sys; task = json.load(sys.stdin); print((task["answer"] or {}).get("text") or task["questions"])'
