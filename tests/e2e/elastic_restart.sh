#!/usr/bin/env bash
# An elastic job whose program has never heard of muster: it starts on the one node that is free,
# has three after a checkpoint once others are given back, continues on two when one is drained and
# on one when a rank's node is, and trains what one node alone does. No restart is charged.
. "$(dirname "$0")/harness.sh"
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch.distributed' 2>/dev/null || skip "no python3-torch"

mkdir "$work/code"
cp "$(dirname "$0")/../programs/ddp.py" "$work/code/"
# It saves every 8 s or so: a file that changes between two looks is not taken.
readonly steps=3000
a_job() { # NAME NODES STEPS
  job_file "$1.yml" <<YAML
command: $python ddp.py \$MUSTER_CHECKPOINT_DIR $3 elastic
code: $work/code
compute: azureml:local-cluster
distribution: {type: pytorch}
environment_variables: {USE_LIBUV: "0", OMP_NUM_THREADS: "1", SAVE_EVERY: "350"}
muster:
  placement: {include: "local-[0-2]"}
  nodes: $2
  elastic: {grow_after: 1s}
  restart: {attempts: 0}
  reschedule: {attempts: 0}
YAML
}
job_file other.yml <<YAML
compute: azureml:local-cluster
command: until [ -e $work/given_back ]; do sleep 0.05; done
resources: {instance_count: 2}
muster: {placement: {include: "local-[1-2]"}}
YAML
log_of() { cat "$MUSTER_HOME/jobs/$1"/attempt-*/rank-0.log 2>/dev/null; }
worlds() { log_of grows | sed -n 's/^world //p' | tr '\n' ' '; }
has_worlds() { [ "$(worlds)" = "$1" ]; }
moves_on() { # past its newest start
  [ -n "$(tac "$(ls -d "$MUSTER_HOME"/jobs/grows/attempt-* | tail -n 1)/rank-0.log" |
    sed '/^world/q' | grep '^step')" ]
}
weights() { log_of "$1" | sed -n 's/^weights //p' | tail -n 1; }

expect 0 "$MUSTER" submit "$work/other.yml" --name other
until_true 60 sh -c "'$MUSTER' status other -o json | grep -q '\"Running\"'"
a_job grows "{min: 1, max: 3}" $steps
expect 0 "$MUSTER" submit "$work/grows.yml" --name grows
until_true 60 has_worlds "1 of 3 "
touch "$work/given_back"
until_true 90 has_worlds "1 of 3 3 of 3 "
until_true 60 moves_on
expect 0 "$MUSTER" drain local-2 --reason fan --move-after 0
until_true 90 has_worlds "1 of 3 3 of 3 2 of 3 "
until_true 60 moves_on
expect 0 "$MUSTER" drain local-0 --reason fan --move-after 0
until_true 90 has_worlds "1 of 3 3 of 3 2 of 3 1 of 3 "
expect 0 "$MUSTER" wait grows
expect 0 "$MUSTER" explain grows
has out "wants 1 to 3 nodes"
has out "nodes instead of 1"
has out "newest complete checkpoint (torch)"

expect 0 "$MUSTER" undrain local-0
expect 0 "$MUSTER" undrain local-2
a_job fixed "{min: 1, max: 1}" $steps
expect 0 "$MUSTER" run "$work/fixed.yml" --name fixed
"$python" - "$(weights fixed)" "$(weights grows)" <<'PYTHON' || fail "other weights"
import sys
fixed, grown = ([float.fromhex(each) for each in text.split()] for text in sys.argv[1:])
print(fixed, grown)
sys.exit(len(fixed) != 2 or any(abs(a - b) > 1e-5 for a, b in zip(fixed, grown)))
PYTHON
