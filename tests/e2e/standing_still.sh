#!/usr/bin/env bash
# An agent that stands still (stopped, or held in the kernel by a file system) ends with its ranks
# when its lease is over, by its keeper's hand: the next attempt begins on another node, and no
# writer of the earlier one is left, also when the keeper is killed meanwhile. Where keeper and
# standby stand still too, nobody can end the ranks: muster-train's see themselves that their lease
# is over.
. "$(dirname "$0")/harness.sh"

cat >"$work/cluster.yml" <<'YAML'
default: pair
compute:
  pair:
    transport: local
    lease: 4s
    unreachable: 2s
    nodes: [one, two]
YAML
marks=$work/marks

agent_of() {  # agent_of JOB: the agent that runs its ranks
  local pid parent
  for pid in $(job_pids "$1"); do
    parent=$(awk '{print $4}' "/proc/$pid/stat" 2>/dev/null)
    grep -qx muster-agent "/proc/$parent/comm" 2>/dev/null && echo "$parent" && return
  done
}
keeper_of() { pgrep -P "$1" -x muster-keeper; }
keepers_of() { keeper_of "$1"; pgrep -P "$(keeper_of "$1")" -x muster-keeper; }
is_alive() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }
is_gone() { ! is_alive "$1"; }
writes_as() { grep -qs "^$1" "$marks"; }

# Each line: the attempt and the writer. One of them has left its session and its environment.
job_file marks.yml <<YAML
command: >-
  (env -i /usr/bin/setsid /bin/sh -c
  'exec >/dev/null 2>&1; while [ -d $MUSTER_HOME ]; do echo "\$0 orphan" >>$marks;
  /bin/sleep 0.02; done'
  \$MUSTER_ATTEMPT &);
  while :; do echo "\$MUSTER_ATTEMPT rank" >>$marks; sleep 0.02; done
environment: azureml:host
muster: {restart: {delay: 0}}
YAML
expect 0 "$MUSTER" submit "$work/marks.yml" --cluster "$work/cluster.yml" --name marks
until_true 30 writes_as "0 orphan"
agent=$(agent_of marks)
[ -n "$agent" ] || fail "no agent runs the rank"
kill -STOP "$agent"
until_true 60 writes_as "1 rank"
until_true 10 writes_as "1 orphan"
[ "$(sed 's/ .*//' "$marks" | uniq | tr '\n' ' ')" = "0 1 " ] ||
  fail "two attempts wrote at once: $(uniq -c "$marks" | tail -n 20)"
is_alive "$agent" && fail "the agent that stood still is there yet"
agent=$(agent_of marks)
kill -STOP "$agent"
kill -KILL "$(keeper_of "$agent")"
until_true 60 writes_as "2 rank"
until_true 10 writes_as "2 orphan"
[ "$(sed 's/ .*//' "$marks" | uniq | tr '\n' ' ')" = "0 1 2 " ] ||
  fail "two attempts wrote at once: $(uniq -c "$marks" | tail -n 20)"
is_alive "$agent" && fail "the agent whose keeper was killed is there yet"
expect 0 "$MUSTER" cancel marks --wait
no_process_of marks || fail "left behind: $(job_pids marks)"

# Agent, keeper and standby stand still, and go on when the next attempt runs.
train=${MUSTER_TRAIN:-$(dirname "$MUSTER")/muster-train}
[ -x "$train" ] || { echo ok; exit 0; }
job_file train.yml <<YAML
command: >-
  $train --data $source/tests/e2e --layers 1 --width 32 --heads 2 --context 32 --steps 400
  --step-delay-ms 50 --checkpoint-every 5 --out $work/model
environment_variables: {OMP_NUM_THREADS: "1"}
environment: azureml:host
muster: {restart: {delay: 0}, checkpoint: {path: $work/ckpt}}
YAML
expect 0 "$MUSTER" submit "$work/train.yml" --cluster "$work/cluster.yml" --name train
has_saved() { compgen -G "$work/ckpt/s*-g$1/manifest.json" >/dev/null; }
until_true 60 has_saved 1
agent=$(agent_of train)
mapfile -t keepers < <(keepers_of "$agent")
[ "${#keepers[@]}" -eq 2 ] || fail "keepers: ${keepers[*]}"
rank=$(job_pids train | head -n 1)
kill -STOP "$agent" "${keepers[1]}" "${keepers[0]}"
until_true 60 has_saved 2
is_alive "$rank" && fail "the old rank trains on"
last=$(ls "$work/ckpt" | grep -c -- '-g1$')
kill -CONT "$agent" "${keepers[@]}"
until_true 20 is_gone "$agent"
[ "$(ls "$work/ckpt" | grep -c -- '-g1$')" -le "$last" ] || fail "an old checkpoint came late"
expect 0 "$MUSTER" cancel train --wait
echo ok
