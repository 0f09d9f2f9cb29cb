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
