#!/usr/bin/env bash
# Another user of the same host tries to join a run, to read it, to stop it, to take its ports and
# to plant files for it. Every try is listed with what came of it; none may succeed.
. "$(dirname "$0")/harness.sh"
: "${MUSTER_TRAIN:?the muster-train executable}"
[ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
command -v setpriv >/dev/null && [ -x /usr/bin/python3 ] || skip "needs setpriv and python3"
readonly other=65534
readonly as_other=(setpriv --reuid=$other --regid=$other --clear-groups)
as_other() { "${as_other[@]}" "$@"; }
chmod 755 "$work"  # what protects a state directory is its own mode, not that of the folder above

tries=0 succeeded=0
# result WHAT HOW: HOW is `no` where the try came to nothing.
result() {
  tries=$((tries + 1)); [ "$2" = no ] || succeeded=$((succeeded + 1))
  printf '%-66s %s\n' "$1" "$2"
}
# try WHAT COMMAND…: as the other user; it has succeeded when the command ends with 0.
try() {
  local what=$1; shift
  if as_other "$@" >"$work/tried" 2>&1; then result "$what" "SUCCEEDED: $(head -c 80 "$work/tried")"
  else result "$what" no; fi
}
untouched() { if "$@" >/dev/null 2>&1; then echo no; else echo "HARM DONE"; fi; }

train_file() {  # train_file NAME SCRIPT: two ranks that run SCRIPT first
  job_file "$1.yml" <<YAML
compute: azureml:local-cluster
command: >-
  $2 exec $MUSTER_TRAIN --data $source/tests/e2e --layers 1 --width 32 --heads 2 --context 32
  --steps 8 --batch 8 --out $work/$1
environment_variables: {OMP_NUM_THREADS: "1"}
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 1}
muster: {restart: {attempts: 0}, reschedule: {attempts: 0}}
YAML
}
trainers() { job_pids "$1" | while read -r pid; do
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = muster-train ] && echo "$pid"; done; true; }
variable_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n "s/^$2=//p"; }
ended_well() { "$MUSTER" status "$1" -o json | grep -q '"Completed"'; }
cat >"$work/stranger.py" <<'PYTHON'
# stranger.py PORT WAY: ends with 0 where it was let in, told more than a nonce, or ended something.
import socket, struct, sys, time
port, way = int(sys.argv[1]), sys.argv[2]
def caller():
    s = socket.create_connection(("127.0.0.1", port), timeout=20); return s
def heard(s):
    got = b""
    try:
        while True:
            part = s.recv(65536)
            if not part: return got
            got += part
    except OSError:
        return got
def text(t): return struct.pack("<I", len(t)) + t
def message(version, kind, payload):
    return struct.pack("<IHHI", 0x4d54524d, version, kind, len(payload)) + payload
hello = text(b"victim") + struct.pack("<QQQ", 1, 1, 2) + text(b"") + text(b"") \
    + struct.pack("<H", 1) + text(b"") + text(b"")
opening = struct.pack("<IHH", 0x4d54524d, 2, 0) + b"n" * 32
said = {"hello": message(1, 0, hello), "sealed": message(2, 0, hello) + b"s" * 16,
        "guess": opening + b"g" * 32,
        "opened": opening + b"g" * 32 + message(2, 0, hello) + b"s" * 16,
        "abort": message(1, 7, struct.pack("<i", 1)),
        "lost": message(2, 6, struct.pack("<Q", 0) + text(b"x")),
        "endless": opening + b"x" * (1 << 22), "http": b"GET / HTTP/1.1\r\n\r\n" + b" " * 40}
if way == "flood":
    held = []
    for _ in range(600):
        try: held.append(caller())
        except OSError: break
    time.sleep(float(sys.argv[3])); sys.exit(1)
s = caller()
try: s.sendall(said[way])
except OSError: pass
answer = heard(s)
print(len(answer), "bytes", answer[:80])
sys.exit(0 if len(answer) > 40 else 1)
PYTHON
chmod 644 "$work/stranger.py"

# ---- a run that waits for its second rank
train_file victim "[ \$RANK = 0 ] || until [ -e $work/go ]; do sleep 0.05; done;"
expect 0 "$MUSTER" submit "$work/victim.yml" --name victim
rank_waits() { [ -n "$(trainers victim)" ]; }
until_true 60 rank_waits
rank=$(trainers victim | head -n 1)
port=$(variable_of "$rank" MASTER_PORT)
secret=$(variable_of "$rank" MUSTER_RENDEZVOUS_SECRET)
[ "${#secret}" -eq 64 ] || fail "the rank has no secret"
listens() { grep -qi ":$(printf %04x "$port") 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; }
until_true 30 listens
stranger() { try "$1" timeout 60 /usr/bin/python3 "$work/stranger.py" "$port" "$2"; }

stranger "join: hello of an older version" hello
stranger "join: hello without a proof" sealed
stranger "join: a guessed proof" guess
stranger "join: a guessed proof and a hello" opened
stranger "stop: end the run" abort
stranger "stop: say that a rank is lost" lost
stranger "stop: talk without end" endless
stranger "stop: speak HTTP" http
"${as_other[@]}" /usr/bin/python3 "$work/stranger.py" "$port" flood 15 & flood=$!
try "stop: a signal to a rank" kill -9 "$rank"
try "stop: a signal to the controller" kill -9 $(controller_pids)
for pid in $(agent_pids); do try "stop: a signal to an agent" kill -9 "$pid"; done

try "read: the environment of a rank" cat "/proc/$rank/environ"
try "read: the memory of a rank" head -c 1 "/proc/$rank/mem"
try "read: the secret in any command line" grep -lzF -- "$secret" /proc/[0-9]*/cmdline
readable=$(as_other find "$MUSTER_HOME" -mindepth 1 2>/dev/null | head -n 1)
result "read: names in the state directory" "${readable:-no}"
find "$MUSTER_HOME" \( -type f -o -type s \) >"$work/files" 2>/dev/null; chmod 644 "$work/files"
may() {  # may r|w: the files of the state directory that the other user may read, or write to
  as_other sh -c 'while read -r f; do [ -'"$1"' "$f" ] && echo "$f"; done <"$1"' sh "$work/files"
}
opened=$(may r)
result "read: $(wc -l <"$work/files") files of the state directory" "${opened:-no}"
written=$(may w)
result "plant: in a file of the state directory" "${written:-no}"
told=$(grep -rlF --exclude=start.frame -- "$secret" "$MUSTER_HOME" 2>/dev/null | head -n 1)
result "read: the secret in journal, logs or anything but the start request" "${told:-no}"
open_start=$(find "$MUSTER_HOME" -name start.frame -perm /077 | head -n 1)
result "read: the start request (mode)" "${open_start:-no}"
talk='import socket,sys
s=socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1].replace("@","\0",1))
s.sendall(b"x"*64); sys.exit(0 if s.recv(100) else 1)'
try "stop: talk to the controller" /usr/bin/python3 -c "$talk" "$MUSTER_HOME/controller.sock"
while read -r name; do
  try "stop: talk to ${name%%[0-9]*}… (unix)" /usr/bin/python3 -c "$talk" "$name"
done < <(grep -oE '(@muster-rank-[0-9]+|'"$MUSTER_HOME"'/[^ ]*)$' /proc/net/unix | sort -u)

touch "$work/go"
until_true 120 ended_well victim
result "join, stop: the run with all that at its ports goes on to its end" no
wait "$flood" 2>/dev/null

# ---- a stranger has the port before the run has it
train_file squatted "[ \$RANK = 1 ] || echo \$MASTER_PORT >$work/port; \
  until [ -e $work/taken ]; do sleep 0.05; done;"
expect 0 "$MUSTER" submit "$work/squatted.yml" --name squatted
until_true 60 test -s "$work/port"
"${as_other[@]}" /usr/bin/python3 -c "import socket,time
s=socket.socket(); s.bind(('', $(cat "$work/port"))); s.listen(); print('taken', flush=True)
time.sleep(600)" >"$work/squatter" & squatter=$!
until_true 20 grep -qs taken "$work/squatter"
touch "$work/taken"
until_true 120 ended_well squatted
result "squat: the port of rank 0 is taken before the run takes it" no
kill "$squatter"

# ---- planted folders
mkdir "$work/planted" && chmod 777 "$work/planted" && chown $other "$work/planted"
job_file true.yml <<'YAML'
command: "true"
YAML
planted() { ! MUSTER_HOME="$work/planted" timeout 60 "$MUSTER" run "$work/true.yml"; }
result "plant: a state directory of the other user" "$(untouched planted)"
chown 0 "$work/planted"
result "plant: a state directory that others may write to" "$(untouched planted)"

# In a /tmp of its own, as the ports of this host are those of others too.
cat >"$work/ports.sh" <<SCRIPT
set -e
mkdir -p "/run/muster-other-user.$$"; mount --bind "$work" "/run/muster-other-user.$$"
mount -t tmpfs tmpfs /tmp; chmod 1777 /tmp
other() { setpriv --reuid=$other --regid=$other --clear-groups "\$@"; }
case \$1 in
  folder) other mkdir -m 700 /tmp/muster-ports ;;
  file) other touch /tmp/muster-ports ;;
  names) mkdir -m 1777 /tmp/muster-ports; chmod 1777 /tmp/muster-ports
         other sh -c 'cd /tmp/muster-ports; seq 20000 29999 | xargs mkdir' ;;
esac
cd "/run/muster-other-user.$$"
MUSTER_HOME="\$PWD/ports-\$1" timeout 90 "\$2" run two.yml
SCRIPT
job_file two.yml <<'YAML'
command: "true"
resources: {instance_count: 1}
distribution: {type: pytorch, process_count_per_instance: 2}
YAML
home_of_test=$MUSTER_HOME
if unshare -m true 2>/dev/null && [[ $MUSTER != /tmp/* ]]; then
  for way in folder file names; do
    result "plant: /tmp/muster-ports, a $way of the other user's" \
      "$(untouched unshare -m bash "$work/ports.sh" $way "$MUSTER")"
    MUSTER_HOME="/run/muster-other-user.$$/ports-$way"
    for pid in $(agent_pids) $(controller_pids); do kill -9 "$pid" 2>/dev/null; done
  done
fi
MUSTER_HOME=$home_of_test
rmdir "/run/muster-other-user.$$" 2>/dev/null

echo "$tries tries, $succeeded succeeded"
[ "$succeeded" -eq 0 ] || fail "another user did what he may not"
