#!/usr/bin/env bash
# What plan says of the memory that ranks of muster-train take.
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
has out "memory    per rank: not known: --batch: 3 sequences cannot be cut"

sed 's/muster-train.*/python train.py/' "$work/train.yml" >"$work/other.yml"
expect 0 "$MUSTER" plan "$work/other.yml"
! grep -q "per rank" "$work/out" || fail "memory of a program that is not muster-train"
