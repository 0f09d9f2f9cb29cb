#!/usr/bin/env bash
# A network of this machine that goes away, as those of containers do, while a job of simulated
# nodes runs: the ranks do not notice.
. "$(dirname "$0")/harness.sh"
train="$(dirname "$MUSTER")/muster-train"
[ -x "$train" ] || skip "muster-train is not built"
command -v mpirun >/dev/null || skip "needs Open MPI"
readonly bridge=mt$$
ip link add "$bridge" type bridge 2>/dev/null || skip "needs root and network bridges"
trap 'status=$?; ip link del "$bridge" 2>/dev/null; (exit "$status"); finish' EXIT
ip addr add 10.219.77.1/24 dev "$bridge"
ip link set "$bridge" up

mkdir "$work/code"; seq 1 4000 >"$work/code/text.txt"
job_file train.yml <<YAML
command: >-
  $train --data text.txt --steps 60 --layers 1 --width 128 --heads 2 --context 64 --batch 8
  --step-delay-ms 40 --out \${{outputs.model}}
code: code
compute: azureml:local-cluster
distribution: {type: mpi, process_count_per_instance: 1}
resources: {instance_count: 2}
outputs: {model: {type: uri_folder}}
limits: {timeout: 60}
YAML
expect 0 "$MUSTER" submit "$work/train.yml" --name train
has_steps() { grep -q '"step"' "$MUSTER_HOME"/jobs/train/attempt-0/metrics.jsonl 2>/dev/null; }
until_true 60 has_steps
ip link del "$bridge"
expect 0 "$MUSTER" logs -f train
"$MUSTER" status train -o json >"$work/out"
has out '"Completed"'
