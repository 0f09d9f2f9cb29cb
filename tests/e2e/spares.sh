#!/usr/bin/env bash
# A spare is held while a job runs and takes the place of a node that is lost, drained or leaves,
# with the same node rank and without a new connection. What broke a job is remembered.
. "$(dirname "$0")/harness.sh"
command -v python3 >/dev/null || skip "needs python3"

job_file job.yml <<'YAML'
command: |
  echo "attempt $MUSTER_ATTEMPT has node rank $NODE_RANK"
  test "$MUSTER_ATTEMPT" -ge 1 && exit 0
  trap 'echo "told to stop"; exit 3' TERM
  while :; do sleep 0.1; done
compute: azureml:local-cluster
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 1}
muster:
  nodes: {spares: 1}
  restart: {delay: 0}
  stop: {grace: 5s}
YAML

# The nodes of attempt N of a job, then its spares.
places() { "$MUSTER" status "$1" -o json | python3 -c "
import json, sys
attempt = json.load(sys.stdin)['attempts'][$2]
print(' '.join(attempt['nodes']), '+', ' '.join(attempt['spares']))"; }
# How often a node was connected, by the journal.
connections() { python3 -c "
import sqlite3, sys
store = sqlite3.connect('file:$MUSTER_HOME/muster.db?mode=ro', uri=True)
query = 'select count(*) from record where kind = \"link_up\" and node = ?'
print(store.execute(query, ('$1',)).fetchone()[0])"; }
recorded() { python3 -c "
import sqlite3, sys
store = sqlite3.connect('file:$MUSTER_HOME/muster.db?mode=ro', uri=True)
query = 'select count(*) from record where kind = ? and job in (\"\", ?) and node = ?'
sys.exit(store.execute(query, ('$1', '$2', '$3')).fetchone()[0] == 0)"; }
agent_of() { pgrep -f "[m]uster.* agent serve .*$MUSTER_HOME/.*--node $1( |\$)" | head -n 1; }
runs() { [ "$(job_pids "$1" | wc -l)" -ge 2 ] && recorded node_staged "$1" "$2"; }
start() {  # NAME SPARE: runs it until its ranks and its spare are ready
  "$MUSTER" run "$work/job.yml" --name "$1" "${@:3}" >"$work/$1.out" 2>"$work/$1.err" &
  until_true 60 runs "$1" "$2"
}
ends() {  # NAME CODE
  wait $!
  local got=$?
  [ "$got" -eq "$2" ] || { cat "$work/$1.err"; fail "$1 ended with $got, not $2"; }
}
is() { [ "$1" = "$2" ] || fail "'$1' is not '$2'"; }

# A node is lost: its agent dies and takes the rank with it.
start lost local-2
is "$(places lost 0)" "local-0 local-1 + local-2"
kill -9 "$(agent_of local-1)"
ends lost 0
is "$(places lost 1)" "local-0 local-2 + local-3"
is "$(connections local-0) $(connections local-2)" "1 1"
grep -q "attempt 1 has node rank 1" "$work/lost.out" || fail "nobody has the lost node's rank"
expect 0 "$MUSTER" explain lost
has out "attempt 0 allocated local-0, local-1, spares local-2"
has out "attempt 1 allocated local-0, local-2, spares local-3: spare local-2 instead of local-1"

# The node that broke it is used last. What is drained is moved at once.
start drained local-3
is "$(places drained 0)" "local-0 local-2 + local-3"
expect 0 "$MUSTER" drain local-2 --reason fan --move-after 0
ends drained 0
is "$(places drained 1)" "local-0 local-3 + local-4"
expect 0 "$MUSTER" explain drained
has out "local-2 was drained: fan"

# The host of node rank 0 shuts down.
start leaves local-4
is "$(places leaves 0)" "local-0 local-3 + local-4"
kill -TERM "$(agent_of local-0)"
ends leaves 0
is "$(places leaves 1)" "local-4 local-3 + local-5"
grep -q "told to stop" "$work/leaves.out" || fail "the ranks were not told"
expect 0 "$MUSTER" explain leaves
has out "local-0 leaves in"
has out "class preempted: retry"
expect 0 "$MUSTER" nodes
has out "(notice by SIGTERM to its agent)"

# Without a requeue it ends, here without a checkpoint.
start ends local-5 --set muster.classes.preempted.action=stop
kill -TERM "$(agent_of local-3)"
ends ends 97

# What broke a job is known to the next controller too.
kill -9 $(controller_pids)
expect 0 "$MUSTER" nodes
has out "no; broke 1 job, lost at"
expect 0 "$MUSTER" undrain local-1
expect 0 "$MUSTER" nodes
grep -q "broke 1 job" "$work/out" && fail "undrain did not clear the node"
true
