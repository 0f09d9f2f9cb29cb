#!/usr/bin/env bash
# A preemptible job gives its nodes to one of higher priority, saves first, longer than its grace
# while its checkpoint grows, and goes on afterwards at nobody's charge.
. "$(dirname "$0")/harness.sh"

job_file cheap.yml <<'YAML'
command: |
  echo "attempt $MUSTER_ATTEMPT"
  test "$MUSTER_ATTEMPT" -ge 1 && exit 0
  mkdir -p "$MUSTER_CHECKPOINT_DIR"
  cd "$MUSTER_CHECKPOINT_DIR"
  trap 'for i in 1 2 3 4 5 6 7 8 9; do echo $i >>part; sleep 0.2; done; echo saved; exit 3' TERM
  while :; do sleep 0.1; done
compute: azureml:local-cluster
queue_settings: {job_tier: spot, priority: low}
muster:
  placement: {include: local-0}
  restart: {attempts: 0}
  reschedule: {attempts: 0}
  stop: {grace: 1s}
YAML
job_file dear.yml <<'YAML'
command: echo mine
compute: azureml:local-cluster
queue_settings: {priority: high}
muster: {placement: {include: local-0}}
YAML

"$MUSTER" run "$work/cheap.yml" --name cheap >"$work/cheap.out" 2>"$work/cheap.err" &
cheap=$!
until_true 60 grep -qs "attempt 0" "$MUSTER_HOME/jobs/cheap/attempt-0/rank-0.log"
expect 0 "$MUSTER" run "$work/dear.yml" --name dear
has out "mine"
wait $cheap || { cat "$work/cheap.err"; fail "the preempted job did not complete"; }
grep -q "saved" "$work/cheap.out" || fail "it could not save"
grep -q "attempt 1" "$work/cheap.out" || fail "it did not go on"
expect 0 "$MUSTER" explain cheap
has out "gives its nodes to job dear, whose priority is 100 and not -100"
has out "class preempted: retry"

# A training run whose host goes away saves its last step and says so.
train="$(dirname "$MUSTER")/muster-train"
[ -x "$train" ] || skip "muster-train is not built"
mkdir "$work/code" && cat "$source"/scheduler/*/*.cpp >"$work/code/text"
job_file train.yml <<YAML
command: >-
  $train --data text --steps 100000 --layers 1 --width 32 --heads 2 --context 32 --batch 8
  --checkpoint-every 50000 --step-delay-ms 5
code: code
compute: azureml:local-cluster
distribution: {type: mpi, process_count_per_instance: 2}
muster: {classes: {preempted: {action: stop}}}
YAML
"$MUSTER" run "$work/train.yml" --name train >"$work/train.out" 2>"$work/train.err" &
train=$!
until_true 60 grep -qs "step 20/" "$work/train.out"
kill -TERM $(agent_pids)
wait $train; [ $? -eq 96 ] || { cat "$work/train.err"; fail "no 96"; }
grep -q "checkpoint s" "$work/train.out" || fail "the last step was not saved"
grep -q "mpirun said" "$work/train.err" && fail "mpirun is heard though muster stopped it"
true
