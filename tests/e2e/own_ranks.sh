#!/usr/bin/env bash
# muster-train as ranks that muster starts itself (distribution type pytorch), on one node and on
# what muster takes for two: both end in the bytes of the same job under mpirun.
. "$(dirname "$0")/harness.sh"
: "${MUSTER_TRAIN:?the muster-train executable}"
command -v mpirun >/dev/null || skip "needs Open MPI"

train() {  # train NAME NODES DISTRIBUTION
  job_file "$1.yml" <<YAML
compute: azureml:local-cluster
command: >-
  $MUSTER_TRAIN --data $source/tests/e2e --layers 1 --width 32 --heads 2 --context 32 --steps 8
  --deterministic --out $work/$1
environment_variables: {OMP_NUM_THREADS: "1"}
resources: {instance_count: $2}
distribution: $3
YAML
  expect 0 "$MUSTER" run "$work/$1.yml" --name "$1"
}

train by_mpi 1 "{type: mpi, process_count_per_instance: 2}"
train one_node 1 "{type: pytorch, process_count_per_instance: 2}"
train two_nodes 2 "{type: pytorch, process_count_per_instance: 2}"
for run in one_node two_nodes; do
  cmp "$work/by_mpi/model.safetensors" "$work/$run/model.safetensors" || fail "$run: other weights"
done

# A rank that dies: the others say which, and the attempt that follows goes on from its checkpoint.
job_file killed.yml <<YAML
command: >-
  $MUSTER_TRAIN --data $source/tests/e2e --layers 1 --width 32 --heads 2 --context 32 --steps 8
  --deterministic --out $work/killed --checkpoint-every 2 --fail-at-step 6 --fail-rank 1
environment_variables: {OMP_NUM_THREADS: "1"}
resources: {instance_count: 1}
distribution: {type: pytorch, process_count_per_instance: 2}
muster: {restart: {attempts: 1, delay: 100ms}}
YAML
expect 0 "$MUSTER" run "$work/killed.yml" --name killed
cmp "$work/by_mpi/model.safetensors" "$work/killed/model.safetensors" \
  || fail "killed: other weights"

# Another option on one rank: nobody trains, the job says which, and no node is to blame.
job_file differs.yml <<YAML
command: >-
  $MUSTER_TRAIN --data $source/tests/e2e --layers 1 --width 32 --heads 2 --context 32 --steps 8
  --out $work/differs --seed \$((RANK == 1 ? 7 : 1))
environment_variables: {OMP_NUM_THREADS: "1"}
resources: {instance_count: 1}
distribution: {type: pytorch, process_count_per_instance: 3}
YAML
expect 2 "$MUSTER" run "$work/differs.yml" --name differs
grep -rq -- "--seed differs between ranks: 1 on rank 0, rank 2; 7 on rank 1" \
  "$MUSTER_HOME/jobs/differs" || fail "the ranks do not say what differs"
[ "$(ls -d "$MUSTER_HOME"/jobs/differs/attempt-* | wc -l)" -eq 1 ] || fail "it was started again"
expect 0 "$MUSTER" explain differs
has out "class user"
! grep -qi "hardware\|excluded" "$work/out" || fail "a node is blamed"
