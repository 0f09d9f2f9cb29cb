#include "templates/job/starter.h"

namespace muster {
namespace {

constexpr std::string_view shell_text = R"(# A command on one or several nodes: the smallest job.
#   muster plan job.yml      what would happen
#   muster run job.yml       run it, follow its output, return its exit code
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command

command: >-
  echo "node $NODE_RANK of $AZ_BATCH_HOST_LIST says hello"

# The host's own environment: nothing is installed, nothing is built.
environment: azureml:host

# A target of your cluster file. 'local' is this machine; 'local-cluster' is this machine as several
# simulated nodes.
compute: local

# resources:
#   instance_count: 2        # nodes, started together
)";

constexpr std::string_view train_text = R"(# The first training run: a few processes on this machine
# that count steps, write checkpoints and survive being killed. Kill one while it runs and watch
# muster restart the job.
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
display_name: quickstart

inputs:
  steps: 20

# Every rank gets RANK, WORLD_SIZE and LOCAL_RANK, and these of muster:
#   MUSTER_CHECKPOINT_DIR  a directory that survives restarts
#   MUSTER_HEARTBEAT       a file to write the step to
command: |
  state="$MUSTER_CHECKPOINT_DIR/step-$RANK"
  step=$(cat "$state" 2>/dev/null || echo 0)
  while [ "$step" -lt ${{inputs.steps}} ]; do
    step=$((step + 1))
    echo "rank $RANK of $WORLD_SIZE: step $step"
    echo "$step" > "$MUSTER_HEARTBEAT"
    echo "$step" > "$state.new" && mv "$state.new" "$state"
    sleep 1
  done

environment: azureml:host
compute: local-cluster

resources:
  instance_count: 2

distribution:
  type: pytorch
  process_count_per_instance: 2

muster:
  restart:
    attempts: 3              # on the same nodes, in each hour
  stop:
    grace: 10s               # between the stop signal and the kill
)";

constexpr std::string_view pytorch_text = R"(# PyTorch, one process for each GPU. The script reads
# RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as
# torch.distributed.init_process_group(init_method="env://") does; no torchrun needed.
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
display_name: pytorch training

# Copied to every node; files matched by .amlignore (or .gitignore) are left out.
code: .

inputs:
  learning_rate: 3e-4
  # data:
  #   type: uri_folder
  #   path: ./data

outputs:
  model:

command: >-
  python3 train.py
  --learning-rate ${{inputs.learning_rate}}
  --output ${{outputs.model}}

environment: azureml:host
compute: local-cluster

resources:
  instance_count: 2

distribution:
  type: pytorch
  process_count_per_instance: 8        # or, below, `processes_per_node: gpus`: as many as GPUs

limits:
  timeout: 24h

muster:
  resume:
    from: latest
    argument: --resume {checkpoint}    # appended to the command when there is one
  restart:
    attempts: 3
  # nodes:                             # start with 2 nodes, take up to 4 when they are free, and
  #   min: 2                           # go on without one that is lost: all ranks start again from
  #   max: 4                           # the newest checkpoint, with another WORLD_SIZE
  # placement:
  #   exclude: n[07-08]
)";

constexpr std::string_view mpi_text = R"(# An MPI program. muster builds the one mpirun that starts
# all ranks, so the command is the program itself; the nodes need no ssh keys for each other.
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
display_name: mpi program

code: .

command: ./program

environment: azureml:host
compute: local-cluster

resources:
  instance_count: 2

distribution:
  type: mpi
  process_count_per_instance: 4

environment_variables:
  OMP_NUM_THREADS: "1"
)";

}  // namespace

const std::vector<Starter>& starters() {
  static const std::vector<Starter> table = {
      {"quickstart/train", "steps, checkpoints and restarts on this machine", train_text},
      {"pytorch", "one process for each GPU", pytorch_text},
      {"mpi", "one mpirun over all nodes", mpi_text},
      {"shell", "a command, the smallest job", shell_text},
  };
  return table;
}

}  // namespace muster
