# Beside a rank, in its environment: finds its program and what can debug that, lets debugpy in, and
# says what to type or to give to VS Code. Arguments: JOB, gdb or debugpy. Any sh.
fail() {
  echo "muster: rank $rank of $job: $*" >&2
  exit 1
}
word() { tr -d '\n' <"/proc/$pid/$1" 2>/dev/null; }
json() { printf '"%s"' "$(printf %s "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }

job=$1 with=$2
rank=${MUSTER_HEARTBEAT##*-}
pid=$(sed -n "s/^started $rank //p" "${MUSTER_HEARTBEAT%/vitals/*}/exits" 2>/dev/null | tail -n 1)
is_its() { grep -qszFx "MUSTER_HEARTBEAT=$MUSTER_HEARTBEAT" "/proc/$1/environ"; }
# A container has numbers of its own: there it is the first that leads a session, but for ours.
if [ -e /muster/hold ] && ! is_its "${pid:-none}"; then
  pid=
  for each in $(ls /proc | grep '^[0-9]' | sort -n); do
    session=$(sed 's/.*) //' "/proc/$each/stat" 2>/dev/null | cut -d' ' -f4)
    [ "$session" = "$each" ] && is_its "$each" && [ "$session" != "$(sed 's/.*) //' \
      "/proc/$$/stat" | cut -d' ' -f4)" ] && pid=$each && break
  done
fi
[ -d "/proc/${pid:-none}" ] || fail "it has no process"
# Its number may be another's by now.
is_its "$pid" || fail "it has ended"
# The program is meant, not the shells of its command: of what runs below them, each told as
# "CPU PID", that which has used the processor most.
programs() ( # PID
  children=
  case $(cat "/proc/$1/comm" 2>/dev/null) in sh | bash | dash | muster*)
    read -r children <"/proc/$1/task/$1/children" ;;
  esac 2>/dev/null
  for child in $children; do programs "$child"; done
  [ -n "$children" ] || sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | {
    read -r _ _ _ _ _ _ _ _ _ _ _ user system _ && echo "$((user + system)) $1"
  }
)
found=$(programs "$pid" | sort -s -n -r -k 1,1 | cut -d' ' -f2 | tr '\n' ' ')
others=${found#* } pid=${found%% *}
[ -n "$pid" ] || fail "it has ended"
# muster.debug has written where it waits (muster_debug.py): debugpy is in that process already.
port=
note=${MUSTER_HEARTBEAT%/*}/debug-$rank
if [ "$with" = debugpy ] && [ -f "$note" ]; then
  read -r held heard <"$note"
  case $held$heard in *[!0-9]*) held= ;; esac
  ! is_its "$held" || port=$heard pid=$held
fi
program=$(readlink "/proc/$pid/exe") || fail "process $pid belongs to another user"
program=$(printf %s "$program" | tr -d '\000-\037')
may_trace() {
  tracer=$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$pid/status")
  [ "${tracer:-0}" = 0 ] || fail "process $pid is debugged already, by process $tracer"
  scope=$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)
  [ "$scope" = 0 ] || { [ "$scope" != 3 ] && [ "$(id -u)" = 0 ]; } || fail \
    "$(uname -n) does not permit it: kernel.yama.ptrace_scope is $scope; an administrator can" \
    "permit it: sysctl kernel.yama.ptrace_scope=0 (from 3: at the next boot)"
}
[ -n "$port" ] || may_trace
missing() {
  [ ! -e /muster/hold ] || fail "$1 is missing in the image: it needs the package $2"
  fail "$1 is missing on $(uname -n): install the package $2 there"
}

place="$job --rank $rank"
printf '%s\n' "process $pid ($program)"
[ -z "$others" ] || echo "beside it run: $others"
if [ "$with" = gdb ]; then
  command -v gdbserver >/dev/null || missing gdbserver gdbserver
  target="target remote | muster exec $place -- gdbserver --once --attach stdio $pid"
  cat <<TEXT

gdb -ex "$target"

launch.json:
{
  "name": $(json "$place"), "type": "cppdbg", "request": "launch", "MIMode": "gdb",
  "program": $(json "$program"), "cwd": "\${workspaceFolder}",
  "customLaunchSetupCommands": [{"text": "$target"}], "launchCompleteCommand": "None"
}
TEXT
  case ${program##*/} in python*) cat <<TEXT ;; esac

For Python: muster.debug in the job file lets debugpy in at the start. --with debugpy puts it into
this process, which can end the program.
TEXT
  exit 0
fi
let_in() {
  python3 -c 'import debugpy' 2>/dev/null \
    || missing "debugpy of $(command -v python3 || echo python3)" \
      "python3-debugpy (or debugpy with pip, in the job's environment)"
  command -v gdb >/dev/null || missing "gdb, which debugpy gets into a running process with," gdb
  port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
  said=$(timeout 60 python3 -m debugpy --listen "127.0.0.1:$port" --pid "$pid" 2>&1) \
    || fail "debugpy did not get into process $pid; look whether the program still runs:" \
      "$(echo "$said" | grep . | tail -n 1 | cut -c 1-200)"
}
[ -n "$port" ] || let_in
cat <<TEXT
Every user of $(uname -n) can attach: debugpy asks for no password. A stop at a breakpoint looks
like a rank that does nothing: with muster.hang.timeout other than off it may be ended as a hang.

muster forward $place $port

launch.json, while that runs:
{
  "name": $(json "$place"), "type": "debugpy", "request": "attach", "justMyCode": false,
  "connect": {"host": "127.0.0.1", "port": $port},
  "pathMappings": [{"localRoot": "\${workspaceFolder}", "remoteRoot": $(json "$PWD")}]
}
TEXT
