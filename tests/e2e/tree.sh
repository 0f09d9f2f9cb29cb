#!/usr/bin/env bash
# Seven local nodes, two of them reached directly and the others through these: a job runs over the
# tree, an agent and relays on the way die or stand still, and no byte of a rank is lost or said
# twice.
. "$(dirname "$0")/harness.sh"
cat >"$work/tree.yml" <<YAML
compute:
  tree:
    transport: local
    nodes: n[1-7]
    remote_home: $work/nodes
    connect: {fan_out: {above: 3, radix: 2, silence: 3s}}
    lease: 20s
    unreachable: 8s
YAML
export MUSTER_CONFIG="$work/tree.yml"
ours() {  # of these processes, those of this test's nodes with $1 in their command line
  while read -r pid; do
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -F -- "--home $work/nodes " \
      | grep -qF -- "${1:-}" && echo "$pid"
  done
}
agent_pids() { pgrep -f '[m]uster.* agent ' | ours; }  # for the harness, too
process_on() { pgrep -x "$2" | ours "--node $1 " | head -n 1; }
relay_on() { process_on "$1" muster-relay; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }

job_file ticks.yml <<'YAML'
command: n=0; while [ $n -lt $TICKS ]; do n=$((n + 1)); echo "tick $n"; sleep 0.02; done
compute: tree
environment_variables: {TICKS: "400"}
resources: {instance_count: 7}
muster: {restart: {attempts: 3, delay: 0}}
YAML
log() { echo "$MUSTER_HOME/jobs/$1/attempt-${3:-0}/rank-$2.log"; }
reached() {  # reached JOB TICK: by all ranks
  for rank in 0 1 2 3 4 5 6; do grep -qsx "tick $2" "$(log "$1" $rank)" || return 1; done
}
all_ticks() {  # all_ticks JOB ATTEMPT
  for rank in 0 1 2 3 4 5 6; do
    seq -f 'tick %.0f' 400 | cmp -s - "$(log "$1" $rank "$2")" || fail "rank $rank of $1"
  done
}
whole() {
  expect 0 "$MUSTER" logs -f "$1"
  all_ticks "$1" 0
  [ ! -e "$MUSTER_HOME/jobs/$1/attempt-1" ] || fail "$1 was started again"
}
begin_job() {
  expect 0 "$MUSTER" submit "$work/ticks.yml" --name "$1"
  until_true 90 reached "$1" 5
}
# find_inner: $inner, a node that others are reached through now; its $relay.
find_inner() {
  for inner in $("$MUSTER" nodes | sed -n 's/.* up through \(n[1-7]\).*/\1/p' | sort -u); do
    relay=$(relay_on "$inner")
    [ -z "$relay" ] || return 0
  done
  return 1
}

begin_job calm
expect 0 "$MUSTER" nodes
[ "$(grep -c ' up through n' "$work/out")" -eq 5 ] || fail "not shown which way nodes are reached"
whole calm

# A relay dies: the nodes behind it are reached another way, the ranks do not notice.
begin_job rough
until_true 20 find_inner
kill -9 "$relay"
until_true 20 is_gone "$relay"
whole rough

# A relay that stands still: its nodes are reached by another way, long before their leases end.
begin_job still
until_true 20 find_inner
kill -STOP "$relay"
whole still
kill -CONT "$relay" 2>/dev/null
until_true 20 is_gone "$relay"

# The agent of a node on the way dies, and with it that node's rank: the attempt ends and the next
# one begins, over the connections of all other nodes.
begin_job agent
until_true 20 find_inner
kill -9 "$(process_on "$inner" muster-agent)" || fail "no agent on $inner"
expect 0 "$MUSTER" logs -f agent
[ "$(relay_on "$inner")" = "$relay" ] || fail "the relay of $inner went as well"
all_ticks agent 1
