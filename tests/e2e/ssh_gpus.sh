#!/usr/bin/env bash
# Hosts over ssh that simulated GPUs: they are counted, shown, and given ranks.
. "$(dirname "$0")/harness.sh"
expect 2 "$MUSTER" sandbox up --hosts 1 --gpus 65
has err "--gpus: expected 0 to 64, got 65"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 3 --gpus 2 --dir "$cluster_dir" -o json >"$work/out" 2>"$work/err" \
  || { cat "$work/err"; skip "needs root and network namespaces"; }
has err "3 hosts are up with 2 simulated GPUs each"
has out '"gpus": 2'
expect 0 "$MUSTER" sandbox status --dir "$cluster_dir"
has out GPUS
expect 0 "$MUSTER" sandbox list --dir "$cluster_dir" -o tsv --query '[].gpus'
[ "$(tr -s '\n\t ' ' ' <"$work/out")" = "2 2 2 " ] || { cat "$work/out"; fail "not 2 each"; }
lab="$cluster_dir/cluster.yml"

# A rank for each GPU; nothing tells a rank of what is pretended. The third host has no agent before
# it loses a GPU.
job_file every.yml <<'YAML'
command: >-
  echo "rank $RANK of $WORLD_SIZE is $LOCAL_RANK of $LOCAL_WORLD_SIZE on $(uname -n),
  sees ${CUDA_VISIBLE_DEVICES-all}, root ${MUSTER_SYSROOT-none}"
compute: sandbox
resources: {instance_count: 2}
distribution: {type: pytorch}
muster: {processes_per_node: gpus, placement: {include: [h01, h02]}}
YAML
expect 0 "$MUSTER" validate "$work/every.yml" --cluster "$lab"
expect 0 "$MUSTER" plan "$work/every.yml" --cluster "$lab"
has out "ranks     one for each GPU (pytorch)"
expect 0 "$MUSTER" run "$work/every.yml" --cluster "$lab" --name every
has err "attempt 0: 4 ranks on 2 nodes"
has out "rank 0 of 4 is 0 of 2 on h01, sees all, root none"
has out "rank 3 of 4 is 1 of 2 on h02, sees all, root none"
expect 0 "$MUSTER" logs every --node h02
has out "rank 2 of 4"
! grep -q "rank 1 of 4" "$work/out" || fail "logs of h02 show a rank of h01"
expect 1 "$MUSTER" logs every --rank 4
has err "ranks 0 to 3, not 4"
expect 0 "$MUSTER" nodes --cluster "$lab"
has out GPUS
expect 0 "$MUSTER" nodes --cluster "$lab" -o tsv --query "[?link=='up'].gpus"
[ "$(tr -s '\n\t ' ' ' <"$work/out")" = "2 2 " ] || { cat "$work/out"; fail "not 2 each"; }

# One of them, and more than there are.
set_muster() { sed "s/^muster:.*/muster: $1/" "$work/every.yml" >"$work/job.yml"; }
set_muster '{processes_per_node: gpus, nodes: {gpus: 1}}'
expect 0 "$MUSTER" run "$work/job.yml" --cluster "$lab"
has out "rank 1 of 2 is 0 of 1 on h02, sees 0, root none"
set_muster '{nodes: {gpus: 3}}'
expect 91 "$MUSTER" run "$work/job.yml" --cluster "$lab"
has err "h01 has 2 GPUs, 3 are requested"

# Hosts with different numbers.
on() { "$MUSTER" sandbox exec --dir "$cluster_dir" "$1" -- sh -c "$2"; }
on h03 "rm -r $cluster_dir/h03/sysroot/proc/driver/nvidia/gpus/0000:02:00.0" || fail "rm"
set_muster '{processes_per_node: gpus, placement: {include: [h02, h03]}}'
expect 0 "$MUSTER" run "$work/job.yml" --cluster "$lab"
has out "rank 1 of 3 is 1 of 2 on h02"
has out "rank 2 of 3 is 0 of 1 on h03"

# mpirun is told the same numbers.
command -v mpirun >/dev/null || exit 0
job_file mpi.yml <<'YAML'
command: echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(uname -n)"
compute: sandbox
resources: {instance_count: 2}
distribution: {type: mpi}
muster: {processes_per_node: gpus, placement: {include: [h02, h03]}}
YAML
expect 0 "$MUSTER" run "$work/mpi.yml" --cluster "$lab"
has out "rank 1 of 3 on h02"
has out "rank 2 of 3 on h03"
