#!/usr/bin/env bash
# A job of one to three nodes: starts on the only one that is free, grows when others are given
# back, though its controller is killed meanwhile, continues without a rank that is killed and
# without a node that is drained. Nobody who stays is restarted, and it trains what one
# process does alone.
. "$(dirname "$0")/harness.sh"
: "${MUSTER_TRAIN:?the muster-train executable}"
command -v python3 >/dev/null || skip "needs python3"

# As long as everything below takes, with room for a slow machine; then nothing is left to change.
readonly steps=600 pause_ms=45

train_file() {  # train_file NAME STEP_PAUSE_MS NODES
  job_file "$1.yml" <<YAML
compute: azureml:local-cluster
command: >-
  echo \$RANK >outputs/rank-\$RANK; echo \$RANK >outputs/same;
  exec $MUSTER_TRAIN --data $source/tests/e2e --layers 1 --width 32 --heads 2 --context 32
  --batch 12 --steps $steps --deterministic --log-every 1 --step-delay-ms $2 --out $work/$1
environment_variables: {OMP_NUM_THREADS: "1"}
resources: {instance_count: 1}
distribution: {type: pytorch, process_count_per_instance: 1}
muster: {placement: {include: "local-[0-3]"}, $3}
YAML
}
job_file other.yml <<YAML
compute: azureml:local-cluster
command: until [ -e $work/given_back ]; do sleep 0.05; done
resources: {instance_count: 3}
muster: {placement: {include: "local-[1-3]"}}
YAML

# The pid of a rank of the elastic job; empty when it does not run.
pid_of() {
  local pid
  for pid in $(job_pids elastic); do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = muster-train ] || continue
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qxF "RANK=$1" && echo "$pid"
  done | head -n 1
}
recorded() { python3 -c "
import sqlite3, sys
store = sqlite3.connect('file:$MUSTER_HOME/muster.db?mode=ro', uri=True)
query = 'select count(*) from record where kind = ? and job = \"elastic\" and node like ?'
sys.exit(store.execute(query, ('$1', '${2:-%}')).fetchone()[0] == 0)"; }
# The ranks that train together now, as the leading rank's node was told.
members() { python3 -c "
import json, sys
try: print(*[one['rank'] for one in json.load(open(sys.argv[1]))['members']])
except FileNotFoundError: pass" "$MUSTER_HOME"/nodes/run/*/local-0/attempts/elastic/0/members; }
# Where a process of the job runs, by its token <controller>.<node>.<job>.<attempt>.
node_of() {
  tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^MUSTER_TOKEN=[^.]*\.\([^.]*\)\..*/\1/p'
}
has_members() { [ "$(members)" = "$1" ]; }
says() { grep -q "$1" "$MUSTER_HOME"/jobs/elastic/attempt-0/rank-*.log 2>/dev/null; }
is_state() { "$MUSTER" status "$1" -o json | grep -q "\"$2\""; }
still_runs() { is_state elastic Running || fail "it does not run any more: make it longer"; }
same_pid() { [ "$(pid_of "$1")" = "$2" ] || fail "rank $1 was restarted"; }

restart_controller() {
  kill -9 $(controller_pids); until_true 10 no_controller
  expect 0 "$MUSTER" nodes
}

expect 0 "$MUSTER" submit "$work/other.yml" --name other
until_true 60 is_state other Running
train_file elastic $pause_ms "nodes: {min: 1, max: 3}"
expect 0 "$MUSTER" submit "$work/elastic.yml" --name elastic
until_true 60 says "epoch 1: 1 ranks from step 0"
first=$(pid_of 0)

# Two nodes are given back. The controller dies as they are taken.
touch "$work/given_back"
until_true 30 recorded node_taken
restart_controller
until_true 40 has_members "0 1 2"
until_true 20 says ": 3 ranks from step"
same_pid 0 "$first"
second=$(pid_of 2)
still_runs

# A rank dies. Its node goes, another one comes.
node=$(node_of "$(pid_of 1)")
kill -9 "$(pid_of 1)"
until_true 30 has_members "0 2 3"
same_pid 0 "$first"; same_pid 2 "$second"
until_true 30 recorded node_released "$node"
restart_controller
still_runs

# A node is drained: its rank leaves by itself after a step.
drained=$(node_of "$second")
expect 0 "$MUSTER" drain "$drained" --reason fan --move-after 0
until_true 30 has_members "0 3"
until_true 30 recorded node_released "$drained"
same_pid 0 "$first"
still_runs
"$MUSTER" exec elastic --rank 2 -- true >"$work/out" 2>"$work/err" &&
  fail "exec at a rank that left"
has err "it left with node $drained"

until_true 120 is_state elastic Completed
[ ! -e "$MUSTER_HOME/jobs/elastic/attempt-1" ] || fail "there was a second attempt"
expect 0 "$MUSTER" explain elastic
has out "wants 1 to 3 nodes"
has out "with 2 ranks after step"
has out "without $node"
has out "$drained leaves attempt 0 (drained)"

# What came of a node when it left is not replaced by what came later.
outputs=$MUSTER_HOME/jobs/elastic/outputs
for rank in 0 1 2 3; do
  [ "$(cat "$outputs/rank-$rank")" = $rank ] || fail "the output of rank $rank is not there"
done
[ "$(cat "$outputs/same")" = 1 ] || fail "what the first node to leave wrote was replaced"
[ "$(cat "$outputs"/same* | sort | tr -d '\n')" = 0123 ] || fail "an output is not there"

train_file fixed 0 "nodes: {min: 1, max: 1}"
expect 0 "$MUSTER" run "$work/fixed.yml" --name fixed
cmp "$work/fixed/model.safetensors" "$work/elastic/model.safetensors" || fail "other weights"
losses() { python3 -c "
import json, sys
lines = map(json.loads, open(sys.argv[1]))
for step, line in sorted({line['step']: line for line in lines}.items()):
    print(step, line['loss'], line['grad_norm'])" "$work/$1/metrics.jsonl" >"$work/$1.losses"; }
losses fixed; losses elastic
[ "$(wc -l <"$work/fixed.losses")" -eq $steps ] || fail "not every step is told"
cmp "$work/fixed.losses" "$work/elastic.losses" || fail "other losses"
