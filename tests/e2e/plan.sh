#!/usr/bin/env bash
# What plan says of the memory that ranks of muster-train take, of secrets, and of nodes that are
# drained.
. "$(dirname "$0")/harness.sh"

job_file train.yml <<'YAML'
command: >-
  muster-train --data text --layers 2 --width 96 --heads 4 --batch 16
environment: azureml:host
compute: local-cluster
resources: {instance_count: 2}
distribution: {type: mpi, process_count_per_instance: 1}
YAML
expect 0 "$MUSTER" plan "$work/train.yml"
has out "memory    per rank: 0."
has out ": fits"
expect 0 "$MUSTER" plan "$work/train.yml" -o json
has out '"memory_per_rank":'
has out '"fits": true'

sed 's/--layers 2 --width 96/--layers 900 --width 8192/' "$work/train.yml" >"$work/huge.yml"
expect 0 "$MUSTER" plan "$work/huge.yml"
has out "does not fit"
has err "warning: memory per rank: "

sed 's/--batch 16/--batch 3/' "$work/train.yml" >"$work/wrong.yml"
expect 0 "$MUSTER" plan "$work/wrong.yml"
has out "warning   --batch: the slowest of 2 ranks computes 2 of 3 sequences of a step"

sed 's/muster-train.*/python train.py/' "$work/train.yml" >"$work/other.yml"
expect 0 "$MUSTER" plan "$work/other.yml"
! grep -q "per rank" "$work/out" || fail "memory of a program that is not muster-train"

# For machines: paths of nodes as the file has them, durations in seconds, no secrets.
mkdir "$work/data"
job_file full.yml <<'YAML'
command: python train.py ${{inputs.data}} ${{inputs.api_key}}
environment: azureml:host
compute: lab
inputs: {data: {path: ./data}, api_key: key-1234}
environment_variables: {HF_TOKEN: token-1234}
limits: {timeout: 1h}
YAML
printf 'compute: {lab: {nodes: [n1, n2]}}\n' >"$work/lab.yml"
expect 0 "$MUSTER" plan "$work/full.yml" --cluster "$work/lab.yml" -o json
has out '"command": "python train.py ${{inputs.data}} ***"'
has out '"timeout": 3600'
has out '"grace": 30,'
grep -q "1234" "$work/out" && fail "a secret"
grep -q 'u000' "$work/out" && fail "a placeholder"

# A drained node counts as drained.
expect 0 "$MUSTER" drain n1 --reason fan --cluster "$work/lab.yml"
expect 0 "$MUSTER" plan "$work/full.yml" --cluster "$work/lab.yml"
has out "1 of 2 eligible nodes; 1 of these available now"
has err "n1 is drained: fan"
expect 0 "$MUSTER" plan "$work/full.yml" --cluster "$work/lab.yml" -o json --query eligible_nodes
has out n2
expect 0 "$MUSTER" plan "$work/full.yml" --cluster "$work/lab.yml" --set resources.instance_count=2
has err "the job would be pending: it needs 2 nodes, and 1 of lab can be had now"
