#!/usr/bin/env bash
# A debugger at a rank: gdb through muster exec, and a Python program that waits for one at its
# start, with a client and without.
. "$(dirname "$0")/harness.sh"
command -v gdbserver >/dev/null && command -v gdb >/dev/null || skip "no gdbserver"
has_debugpy() { /usr/bin/python3 -c 'import debugpy' 2>/dev/null; }

# --- gdb, from the line that is printed
job_file native.yml <<'YAML'
command: sleep 600; true
compute: azureml:local-cluster
YAML
expect 0 "$MUSTER" submit "$work/native.yml" --name native
runs() { "$MUSTER" debug native >"$work/line" 2>/dev/null && grep -q '/sleep)' "$work/line"; }
until_true 60 runs
line=$(grep '^gdb ' "$work/line")
grep -q '"type": "cppdbg"' "$work/line" || fail "no entry for launch.json"
# Which muster that is, the line leaves to the PATH.
mkdir "$work/bin"; ln -s "$MUSTER" "$work/bin/muster"
PATH=$work/bin:$PATH bash -c "$line -nx -batch -ex bt -ex detach" >"$work/out" 2>&1 </dev/null \
  || { cat "$work/out"; fail "gdb"; }
grep -q '^#[0-9]* .*nanosleep' "$work/out" || { cat "$work/out"; fail "no stack"; }
expect 1 "$MUSTER" debug native --rank 1
expect 2 "$MUSTER" debug native --with pdb
expect 0 "$MUSTER" cancel native --grace 1s

# --- what a rank runs beside its program is not it
job_file busy.yml <<'YAML'
command: (while sleep 50; do :; done) & dd if=/dev/zero of=/dev/null; true
compute: azureml:local-cluster
YAML
expect 0 "$MUSTER" submit "$work/busy.yml" --name busy
is_found() { "$MUSTER" debug busy >"$work/line" 2>/dev/null && grep -q '/dd)' "$work/line"; }
until_true 60 is_found
grep -qE '^beside it run: [0-9]+ $' "$work/line" || { cat "$work/line"; fail "the others"; }
expect 0 "$MUSTER" cancel busy --grace 1s

# --- paused start
has_debugpy || skip "no debugpy"
cat >"$work/program.py" <<'PYTHON'
import os, subprocess, sys
print("rank", os.environ.get("RANK"), "variable", os.environ.get("MUSTER_DEBUG_WAIT"), flush=True)
subprocess.run([sys.executable, "-c", "print('child ran')"], check=True)
PYTHON
paused() {  # paused NAME WAIT
  job_file "$1.yml" <<YAML
command: exec /usr/bin/python3 $work/program.py
compute: azureml:local-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
muster: {debug: {rank: 1, wait: $2}}
YAML
  expect 0 "$MUSTER" submit "$work/$1.yml" --name "$1"
  log="$MUSTER_HOME/jobs/$1/attempt-0/rank-1.log"
  until_true 60 grep -qs "muster forward $1 --rank 1" "$log"
}
expect 0 "$MUSTER" validate <(printf 'command: a\nmuster: {debug: {rank: 0}}\n')
cat "$work/out" "$work/err" | grep -q 'no password' || fail "no warning"

paused attached 10m
until_true 20 grep -qs 'rank 0 variable None' "$MUSTER_HOME/jobs/attached/attempt-0/rank-0.log"
! grep -q variable "$log" || fail "rank 1 did not wait"
port=$(sed -n 's/.*--rank 1 \([0-9]*\).*/\1/p' "$log" | head -n 1)
expect 0 "$MUSTER" debug attached --rank 1 --with debugpy
has out "muster forward attached --rank 1 $port"
"$MUSTER" forward attached --rank 1 "0:$port" >"$work/ports" 2>&1 &
forward=$!
until_true 20 grep -q '127.0.0.1:' "$work/ports"
/usr/bin/python3 "$source/tests/programs/dap_client.py" \
  "$(sed 's/.*127.0.0.1:\([0-9]*\) .*/\1/' "$work/ports")" \
  >"$work/out" 2>&1 || { cat "$work/out" "$log"; fail "the client"; }
kill $forward
expect 0 "$MUSTER" wait attached
grep -q 'rank 1 variable None' "$log" && grep -q 'child ran' "$log" || { cat "$log"; fail "free"; }
grep -q 'a debugger is attached' "$log" || { cat "$log"; fail "not attached"; }

paused alone 1s
expect 0 "$MUSTER" wait alone
grep -q 'no debugger came' "$log" && grep -q 'rank 1 variable None' "$log" || fail "alone"
