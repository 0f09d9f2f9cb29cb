#!/usr/bin/env bash
# A controller that was killed twice still notices when an agent that started its ranks dies, and
# what ended meanwhile is forgotten on the nodes.
. "$(dirname "$0")/harness.sh"

job_file pair.yml <<'YAML'
command: if [ $MUSTER_ATTEMPT -gt 0 ]; then exit 0; fi; echo up; exec sleep 600
compute: local-cluster
resources: {instance_count: 2}
muster: {restart: {attempts: 2, delay: 0}}
YAML

expect 0 "$MUSTER" submit "$work/pair.yml" --name pair
log=$MUSTER_HOME/jobs/pair/attempt-0/rank-1.log
until_true 20 grep -qs up "$log"
for round in 1 2; do
  kill -9 $(controller_pids); until_true 10 no_controller
  expect 0 "$MUSTER" nodes
  links_are_up() { [ "$("$MUSTER" nodes | grep -c ' up ')" -eq 2 ]; }
  until_true 20 links_are_up
done
agents=$(for pid in $(agent_pids); do grep -qx muster-agent "/proc/$pid/comm" && echo "$pid"; done)
kill -9 $agents
is_completed() { "$MUSTER" status pair -o json | grep -q '"Completed"'; }
until_true 30 is_completed
"$MUSTER" explain pair | grep -q "attempt 0 ended" || fail "the attempt went on without its agents"
nothing_is_held() { [ -z "$(find "$MUSTER_HOME/nodes/run" -path '*pair*' -name 'rank-*')" ]; }
until_true 20 nothing_is_held
echo ok
