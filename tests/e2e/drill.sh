#!/usr/bin/env bash
# `muster-sandbox drill`: faults and what must hold, on simulated nodes of this machine.
. "$(dirname "$0")/harness.sh"

# Wrong files are refused before anything is started.
job_file hello.yml <<'YAML'
command: for i in $(seq 1 50); do echo "tick $i"; sleep 0.1; done
compute: local-cluster
resources: {instance_count: 2}
distribution: {type: pytorch}
muster: {restart: {attempts: 5, delay: 0}}
YAML
cat >"$work/wrong.yml" <<'YAML'
job: hello.yml
steps:
  - {when: stepp >= 2, kill: rank}
expect: {}
YAML
expect 90 "$MUSTER" drill "$work/wrong.yml"
has err "wrong.yml:3:"
has err "did you mean 'step'?"
expect 0 "$MUSTER" drill --help
has out "log_counts"

# A rank that dies costs an attempt; the count in each attempt's log is without a gap.
cat >"$work/rank.yml" <<'YAML'
job: hello.yml
steps:
  - {when: state == Running, after: 1s, kill: {rank: 1}}
expect:
  status: Completed
  exit_code: 0
  attempts: 2
  explain: [SIGKILL]
  no_process_left: true
  log_counts: tick {n}
YAML
expect 0 "$MUSTER-sandbox" drill "$work/rank.yml" --seed 3
has out "passed"

# What did not come true is said, and the exit code is 1.
sed -e 's/kill: {rank: 1}/stop: {rank: 0, for: 1s}/' "$work/rank.yml" >"$work/never.yml"
expect 1 "$MUSTER" drill "$work/never.yml" -o json
has out '"passed": false'
has out '"wanted": "SIGKILL"'

# A job that is cancelled leaves nothing.
cat >"$work/cancel.yml" <<'YAML'
job: hello.yml
steps:
  - {when: state == Running, cancel: true}
expect: {status: Canceled, exit_code: 143, no_process_left: true}
YAML
expect 0 "$MUSTER" drill "$work/cancel.yml"

# The whole of it: rank, controller and agent at random moments, and the same weights.
train="$(dirname "$MUSTER")/muster-train"
[ -x "$train" ] || skip "muster-train is not built"
command -v mpirun >/dev/null || skip "needs Open MPI"
cp "$source"/configs/drills/{train,kill-everything}.yml "$work"
sed -i "s#path: .*muster-train#path: $train#; s#^code: .*#code: $source/scheduler#" \
  "$work/train.yml"
expect 0 "$MUSTER" drill "$work/kill-everything.yml"
cat "$work/out"
grep -q 'kill a rank.*(muster-train)' "$work/out" || fail "something else than a rank was killed"
