#!/usr/bin/env bash
# `cancel` leaves no process of the job behind, whatever it did to stay; others are not touched.
. "$(dirname "$0")/harness.sh"

job_file stubborn.yml <<'YAML'
command: |
  trap '' TERM
  (setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &) &
  setsid env -i sh -c 'trap "" TERM; while :; do sleep 1; done' &
  echo ready
  while :; do sleep 1; done
compute: azureml:local-cluster
resources: {instance_count: 2}
muster: {stop: {grace: 1}}
YAML
sleep 1000 &
decoy=$!
expect 0 "$MUSTER" submit "$work/stubborn.yml" --name stubborn
until_true 20 grep -q ready "$MUSTER_HOME/jobs/stubborn/attempt-0/rank-0.log"
until_true 20 grep -q ready "$MUSTER_HOME/jobs/stubborn/attempt-0/rank-1.log"
[ -n "$(job_pids stubborn)" ] || fail "the job has no processes"
expect 0 "$MUSTER" cancel stubborn
no_process_of stubborn || fail "left behind: $(job_pids stubborn)"
kill -0 "$decoy" || fail "the decoy was killed"
kill "$decoy"
"$MUSTER" status stubborn -o json | grep -q '"Canceled"' || fail "not canceled"
expect 1 "$MUSTER" cancel stubborn
expect 1 "$MUSTER" cancel no-such-job
