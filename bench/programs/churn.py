"""JSON and buffers, as a Python program does: churn.py ROUNDS."""
import json
import sys

data = {"rows": [{"id": i, "name": f"row {i}", "values": list(range(8))} for i in range(400)]}
for i in range(int(sys.argv[1])):
    assert len(json.loads(json.dumps(data))["rows"]) == 400
    buffer = bytearray(1_000_000 + i)
    buffer[0] = 1
