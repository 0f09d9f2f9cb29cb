#!/usr/bin/env bash
# A job of type ray on three nodes, with a double in the place of Ray: who is started when, with
# which words and secrets, whose exit code counts, and that nothing of it is left.
. "$(dirname "$0")/harness.sh"
mkdir "$work/nodes" "$work/said"

double=$source/tests/programs/ray_double

ray_job() {  # ray_job NAME COMMAND DISTRIBUTION NODES [PATH]
  rm -f "$work"/nodes/* "$work"/said/* "$work/order" "$work/tokens"
  job_file "$1.yml" <<YAML
compute: azureml:local-cluster
command: >-
  $2
resources: {instance_count: $4}
distribution: $3
environment_variables: {PATH: "${5-$double:}$PATH", PYTHONPATH: "$double", RAY_DOUBLE: "$work"}
muster: {restart: {attempts: 1, delay: 0}}
YAML
}
nothing_is_left() {
  until_true 5 no_process_of "$1"
  local place
  while read -r place; do
    [ "${#place}" -le 43 ] || fail "$place is too long for Ray's sockets"
    [ ! -e "${place%/r}" ] || fail "$place is left"
  done <"$work/places"
  [ "$(sort -u "$work/modes")" = 0o700 ] || fail "others can enter Ray's directory"
}
says() { grep -qxF -- "$2" "$work/said/$1" || { cat "$work/said/$1"; fail "$1 lacks $2"; }; }

# The head first, then the workers, then the command, once.
ray_job good "echo command on \$NODE_RANK >>$work/order" "{type: ray, port: 16877,
  dashboard_port: 16878, include_dashboard: false, head_node_additional_args: \"--labels 'a b'\",
  worker_node_additional_args: --num-cpus=1}" 3
expect 0 "$MUSTER" run "$work/good.yml" --name good
[ "$(head -n 1 "$work/order")" = head ] || fail "the head is not the first"
[ "$(tail -n 1 "$work/order")" = "command on 0" ] || fail "the command is not the last"
[ "$(sort "$work/order" | tr '\n' ' ')" = "command on 0 head worker-1 worker-2 " ] \
  || fail "$(cat "$work/order")"
for words in --head --block --port=16877 --dashboard-host=127.0.0.1 --dashboard-port=16878 \
  --include-dashboard=false --labels 'a b'; do says head "$words"; done
for words in start --block --num-cpus=1; do says worker-2 "$words"; done
grep -q -- "--address=.*:16877" "$work/said/worker-1" || fail "a worker has no address"
! grep -q dashboard "$work/said/worker-1" || fail "a worker has a dashboard"
[[ $(sort -u "$work/tokens") =~ ^token\ [0-9a-f]{64}$ ]] || fail "the tokens differ"
[ "$(wc -l <"$work/tokens")" -eq 3 ] || fail "a node has no token"
[ "$(sort -u "$work/places" | wc -l)" -eq 3 ] || fail "nodes share a directory"
nothing_is_left good

# A worker that dies before all are there: the job is restarted, with another token. Then the
# command's own exit code is the job's.
first_token=$(head -n 1 "$work/tokens")
touch "$work/die"
ray_job dies "[ \$MUSTER_ATTEMPT != 1 ] || exit 7" "{type: ray}" 3
expect 93 "$MUSTER" run "$work/dies.yml" --name dies
grep -q "^muster: the Ray worker of this node ended with 3 while the head ran" \
  "$MUSTER_HOME/jobs/dies/attempt-0/rank-2.log" || fail "the worker's end is not told"
expect 0 "$MUSTER" explain dies
has out "rank 2 on local-2 exited with code 1"
has out "rank 0 on local-0 exited with code 7"
! grep -q "$first_token" "$work/tokens" || fail "two attempts share a token"
[ "$(sort -u "$work/tokens" | wc -l)" -eq 2 ] || fail "$(cat "$work/tokens")"
nothing_is_left dies

# Stopped while it runs, under a controller that was killed.
ray_job stopped "trap 'echo asked; exit 5' TERM; echo begun; while :; do sleep 0.1; done" \
  "{type: ray}" 3
expect 0 "$MUSTER" submit "$work/stopped.yml" --name stopped
until_true 20 grep -qs begun "$MUSTER_HOME/jobs/stopped/attempt-0/rank-0.log"
for pid in $(serving_pids); do kill -9 "$pid"; done
expect 0 "$MUSTER" cancel stopped --wait
grep -q asked "$MUSTER_HOME/jobs/stopped/attempt-0/rank-0.log" || fail "the command was not asked"
nothing_is_left stopped

# Without Ray: a sentence. With an address: a variable, and no cluster.
ray_job absent "true" "{type: ray}" 1 ""
expect 127 "$MUSTER" run "$work/absent.yml" --name absent --set muster.restart.attempts=0
grep -rq "install the pip package 'ray'" "$MUSTER_HOME/jobs/absent" || fail "no advice"
ray_job told "[ \$RAY_ADDRESS = ray.example:6379 ]" "{type: ray, address: 'ray.example:6379'}" 1
expect 0 "$MUSTER" run "$work/told.yml" --name told
[ ! -e "$work/order" ] || fail "a cluster was started beside that of the address"
