#!/usr/bin/env bash
# Into a running job: a shell in a terminal that is resized, an editor, ports and sockets of a node
# at this machine, plain ssh and scp; and what is left of those who are killed or stand still.
. "$(dirname "$0")/harness.sh"
[ -x /usr/bin/python3 ] || skip "needs python3"
readonly port=16871

cat >"$work/server.py" <<'PYTHON'
# Two servers: a port (GET /: a page; LINES n; UPPER until the end of input; FLOOD) and ./app.sock.
import os, socket, sys, threading
def serve(peer):
    with peer, peer.makefile("rwb") as f:
        word = f.readline().split()
        if word[:1] == [b"LINES"]:
            for i in range(int(word[1])): f.write(b"line %d of some output\n" % i)
        elif word[:1] == [b"UPPER"]: f.write(f.read().upper())
        elif word[:1] == [b"FLOOD"]:
            while True: f.write(b"x" * 65536)
        else: f.write(b"HTTP/1.0 200 OK\r\n\r\na page\n")
def run(listener):
    listener.listen(64)
    while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
tcp = socket.socket(); tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tcp.bind(("127.0.0.1", int(sys.argv[1])))
unix = socket.socket(socket.AF_UNIX); unix.bind("app.sock")
threading.Thread(target=run, args=(unix,), daemon=True).start()
print("begun", flush=True)
run(tcp)
PYTHON

job_file job.yml <<YAML
command: if test \$RANK = 0; then exec /usr/bin/python3 $work/server.py $port; else sleep 600; fi
compute: azureml:local-cluster
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 1}
environment_variables: {COLOUR: light blue}
YAML
expect 0 "$MUSTER" submit "$work/job.yml" --name into
until_true 60 grep -qs begun "$MUSTER_HOME/jobs/into/attempt-0/rank-0.log"

# --- which node, and what is refused
expect 0 "$MUSTER" exec into --node 1 -- sh -c 'echo rank $RANK'; has out "rank 1"
expect 1 "$MUSTER" exec into --node 2 -- true; has err "has nodes 0 to 1, not 2"
expect 2 "$MUSTER" exec into --node 0 --rank 0 -- true; has err "exclude each other"
expect 2 "$MUSTER" exec -t into -- true; has err "standard input is not a terminal"
expect 2 "$MUSTER" ssh into; has err "standard input is not a terminal"

# --- a terminal
cat >"$work/terminal.py" <<'PYTHON'
# Drives a program in a terminal of its own.
import fcntl, os, pty, re, select, signal, struct, sys, termios, time
muster, scratch = sys.argv[1], sys.argv[2]
class Program:
    def __init__(self, *words):
        # An intermediate shell keeps the terminal when the program is gone.
        self.pid, self.fd = pty.fork()
        if self.pid == 0: os.execvp(words[0], words)
        self.text = b""
        self.before = termios.tcgetattr(self.fd)
    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    def expect(self, wanted, limit=20):
        end = time.time() + limit
        while True:
            found = re.search(wanted, self.text)
            if found: self.text = self.text[found.end():]; return found
            if time.time() > end: sys.exit(f"no {wanted!r} in {self.text[-2000:]!r}")
            if select.select([self.fd], [], [], 0.2)[0]:
                try: self.text += os.read(self.fd, 65536)
                except OSError: self.text += b"<END>"; time.sleep(0.1)
    def type(self, text): os.write(self.fd, text)
    def is_as_before(self): return termios.tcgetattr(self.fd) == self.before
    def end(self): return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
def raw(p):
    end = time.time() + 20
    while p.is_as_before():
        if time.time() > end: sys.exit("never raw")
        time.sleep(0.02)

# Its size at the start, on a change, an editor, the end code, and the terminal afterwards.
p = Program("bash", "-c", f"stty rows 33 cols 101; {muster} ssh into --node 1; echo code $?; cat")
raw(p)
p.type(b"PS1='ready> '; stty size; echo $RANK-$COLOUR\r")
p.expect(rb"33 101"); p.expect(rb"1-light blue")
p.size(40, 120)
p.type(b"stty size\r"); p.expect(rb"40 120")
if os.path.exists("/usr/bin/vim"):
    p.type(b"vim -u NONE -n " + scratch.encode() + b"/edited\r"); p.expect(rb"\x1b\[")
    time.sleep(0.5); p.type(b"iwritten in vim\x1b:set columns?\r"); p.expect(rb"columns=120")
    p.type(b":wq\r"); p.expect(rb"ready> ")
    assert open(scratch + "/edited").read() == "written in vim\n"
# Resized while it writes: nothing is lost.
p.type(b"stty -echo; seq 1 200000 | tail -n 200000; echo all-$((1+1))\r")
for i in range(30): p.size(40 + i % 3, 100 + i); p.expect(rb"\n", 5)
p.expect(rb"199999\r\n200000\r\n"); p.expect(rb"all-2")
p.type(b"stty size; exit 7\r"); p.expect(rb"42 129"); p.expect(rb"code 7")
p.before[6] = termios.tcgetattr(p.fd)[6]
assert p.is_as_before(), "the terminal is not as it was"
p.type(b"\x04"); p.end()

# Ended by a signal: the terminal is as it was.
for how in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    program = f"{muster} exec -t into -- sh -c 'echo on; sleep 600'; echo code $?; cat"
    p = Program("bash", "-c", program)
    p.expect(rb"on\r\n")
    child = int(open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()[0])
    os.kill(child, how)
    p.expect(b"code %d" % (128 + how))
    assert p.is_as_before(), how
    p.type(b"\x04"); p.end()

# Killed: what ran there ends too. Standing still: it is not waited for by others.
p = Program(muster, "exec", "-t", "into", "--", "bash", "-ic", "sleep 4711 & sleep 4712")
end = time.time() + 20
while os.system("pgrep -f '^sleep 4712' >/dev/null") and time.time() < end: time.sleep(0.05)
os.kill(p.pid, signal.SIGKILL); p.end()
end = time.time() + 20
while os.system("pgrep -f '^sleep 471' >/dev/null") == 0:
    if time.time() > end: sys.exit("left behind")
    time.sleep(0.05)
p = Program(muster, "exec", "-t", "into", "--", "yes")
p.expect(b"y\r\ny")
os.kill(p.pid, signal.SIGSTOP); time.sleep(1)
start = time.time()
assert os.system(f"{muster} exec into -- true") == 0
assert time.time() - start < 10
os.kill(p.pid, signal.SIGKILL); p.end()
PYTHON
TERM=xterm /usr/bin/python3 "$work/terminal.py" "$MUSTER" "$work" 2>"$work/err" \
  || { cat "$work/err"; fail "terminal"; }

# --- ports and sockets
directory=$("$MUSTER" exec into -- pwd)
"$MUSTER" forward into 0:$port "0:$directory/app.sock" 0:16872 >"$work/ports" 2>"$work/refused" &
forward=$!
until_true 20 grep -q 16872 "$work/ports"
read -r tcp unix none <<<"$(sed 's/.*127.0.0.1:\([0-9]*\) .*/\1/' "$work/ports" | tr '\n' ' ')"
cat >"$work/clients.py" <<'PYTHON'
import os, signal, socket, sys, time
tcp, unix, none, controller = map(int, sys.argv[1:5])
def memory(): return int(open(f"/proc/{controller}/statm").read().split()[1]) * 4096
def call(port, text, read=True):
    s = socket.create_connection(("127.0.0.1", port), timeout=60); s.sendall(text)
    if not read: return s
    s.shutdown(socket.SHUT_WR)
    got = b""
    while part := s.recv(1 << 20): got += part
    return got
for port in tcp, unix:
    assert call(port, b"GET / HTTP/1.0\r\n\r\n").endswith(b"a page\n")
    assert call(port, b"UPPER\n" + b"half closed " * 300000) == b"HALF CLOSED " * 300000
assert call(none, b"") == b""
start = time.time()
lines = call(tcp, b"LINES 100000\n").count(b"\n")
took = time.time() - start
print(f"{lines} lines in {took:.2f} s")
assert lines == 100000 and took < 10
before = memory()
still = [call(tcp, b"FLOOD\n", read=False) for _ in range(8)]  # nobody reads
time.sleep(2)
assert call(tcp, b"GET /\n").endswith(b"a page\n")
grown = memory() - before
print(f"8 floods that nobody reads: controller +{grown >> 20} MiB")
assert grown < 32 << 20
PYTHON
/usr/bin/python3 "$work/clients.py" "$tcp" "$unix" "$none" "$(serving_pids | head -n 1)" \
  >"$work/out" 2>"$work/err" || { cat "$work/out" "$work/err"; fail "forward"; }
cat "$work/out"
has refused "could not connect to 127.0.0.1:16872: Connection refused"
printf 'UPPER\nby stdio' | "$MUSTER" forward --stdio into $port >"$work/out" || fail "--stdio"
has out "BY STDIO"
for agent in $(agent_pids) $(controller_pids); do
  for inode in $(find "/proc/$agent/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null \
    | tr -dc '0-9\n'); do
    ! grep -qE " 0A .* $inode " /proc/net/tcp /proc/net/tcp6 || fail "muster listens on a TCP port"
  done
done
kill -9 $forward
no_forward() { [ -z "$(processes_of_home '[f]orward into')" ]; }
until_true 20 no_forward

# --- plain ssh
nothing_left() { [ -z "$(find "$MUSTER_HOME" -name host_key)" ]; }
if command -v sshd >/dev/null || [ -x /usr/sbin/sshd ]; then
  expect 0 "$MUSTER" ssh-config into; cp "$work/out" "$work/config"
  expect 0 ssh -F "$work/config" into-node-1 'echo $RANK-$COLOUR; exit 0'; has out "1-light blue"
  ! nothing_left || fail "no host key was found on the node"
  expect 9 ssh -F "$work/config" into-node-0 'exit 9'
  head -c 3000000 /dev/urandom >"$work/file"
  expect 0 scp -q -F "$work/config" "$work/file" "into-node-0:$work/copied"
  cmp "$work/file" "$work/copied" || fail "scp"
  if command -v rsync >/dev/null; then
    expect 0 rsync -e "ssh -F $work/config" "$work/file" "into-node-1:$work/synced"
    cmp "$work/file" "$work/synced" || fail "rsync"
  fi
  expect 255 ssh -F "$work/config" -o PubkeyAuthentication=no into-node-0 true
  has err "Permission denied"
  [ "$(stat -c %a "$MUSTER_HOME/jobs/into/ssh/identity")" = 600 ] || fail "mode of the key"
fi

expect 0 "$MUSTER" cancel into --grace 1s
until_true 30 no_process_of into
until_true 30 nothing_left
expect 1 "$MUSTER" ssh-config into; has err "has ended: Canceled"
