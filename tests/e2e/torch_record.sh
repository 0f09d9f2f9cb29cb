#!/usr/bin/env bash
# An unmodified PyTorch program under @record: torchrun's variables are there, and what its error
# file says is the first that is told of its end, of the rank that failed first.
. "$(dirname "$0")/harness.sh"
python=/usr/bin/python3
"$python" -c 'import torch.distributed' 2>/dev/null || skip "no python3-torch"

mkdir "$work/code"
cat >"$work/code/train.py" <<'PYTHON'
import os
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    names = ("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "OMP_NUM_THREADS",
             "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    print(" ".join(os.environ[name] for name in names))
    dist.init_process_group("gloo")
    with open(os.environ["MUSTER_HEARTBEAT"], "w") as beat:
        beat.write("41")  # no line end
    dist.barrier()
    if dist.get_rank() == 1:
        raise ValueError("shard 7 is short")
    dist.barrier()

main()
PYTHON
# Ranks that never join are a training each, which is told at their end.
job_file alone.yml <<YAML
command: sleep 12
compute: azureml:local-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
YAML
expect 0 "$MUSTER" submit "$work/alone.yml" --name alone
job_file record.yml <<YAML
command: $python train.py
code: $work/code
compute: azureml:local-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
environment_variables: {USE_LIBUV: "0"}  # Debian 13's PyTorch is built without it
muster: {restart: {attempts: 0}, reschedule: {attempts: 0}}
YAML
expect 1 "$MUSTER" run "$work/record.yml" --name record
expect 0 cat "$MUSTER_HOME/jobs/record/attempt-0/rank-1.log"
has out "0 1 1 2 "
has out " record 0"
expect 0 "$MUSTER" explain record
first=$(grep -m1 evidence: "$work/out")
[ "$first" = "${first%%evidence:*}evidence: its error file says: ValueError: shard 7 is short" ] ||
  { cat "$work/out"; fail "the first evidence is: $first"; }
has out "its last step was 41"

expect 0 "$MUSTER" wait alone
expect 0 "$MUSTER" explain alone
has out "each of the 2 ranks may have trained alone"
