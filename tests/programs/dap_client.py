"""As much of the Debug Adapter Protocol as attaches to debugpy and lets the program go on.

    dap_client.py PORT [FILE LINE SECONDS]

With FILE and LINE it stops there once, says "held", and goes on after SECONDS.
"""
import json
import socket
import sys
import time

peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
stream, number = peer.makefile("rb"), 0


def send(command, **arguments):
    global number
    number += 1
    text = json.dumps({"seq": number, "type": "request", "command": command,
                       "arguments": arguments}).encode()
    peer.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))


def until(kind, name):
    while True:
        size = 0
        while (line := stream.readline().strip()):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        assert size, "the adapter hung up"
        said = json.loads(stream.read(size))
        if said["type"] == kind and said.get("command", said.get("event")) == name:
            assert said.get("success", True), said
            return said


send("initialize", adapterID="muster")
until("response", "initialize")
send("attach", connect={"host": "127.0.0.1", "port": int(sys.argv[1])}, justMyCode=False)
until("event", "initialized")
if len(sys.argv) > 2:
    send("setBreakpoints", source={"path": sys.argv[2]}, breakpoints=[{"line": int(sys.argv[3])}])
    until("response", "setBreakpoints")
send("configurationDone")
until("response", "attach")
if len(sys.argv) > 2:
    thread = until("event", "stopped")["body"]["threadId"]
    print("held", flush=True)
    time.sleep(float(sys.argv[4]))
    send("setBreakpoints", source={"path": sys.argv[2]}, breakpoints=[])
    until("response", "setBreakpoints")
    send("continue", threadId=thread)
    until("response", "continue")
    send("disconnect", terminateDebuggee=False)
    until("response", "disconnect")
else:
    until("event", "terminated")
