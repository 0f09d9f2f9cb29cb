#!/usr/bin/env bash
# Four hosts, each with its own network, name and sshd: the examples run over ssh, and `cancel`
# leaves nothing on any of them.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || skip "needs an sshd"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 4 --dir "$cluster_dir" --private-home >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
export MUSTER_CONFIG="$cluster_dir/cluster.yml"
target=$(sed -n '/^compute:/{n;s/^ *\([^:]*\):.*/\1/p}' "$MUSTER_CONFIG")

# Every host runs its rank, under its own name.
job_file names.yml <<YAML
command: echo "node \$NODE_RANK is \$(uname -n), master \$MASTER_ADDR"
compute: $target
distribution: {type: pytorch}
resources: {instance_count: 4}
YAML
expect 0 "$MUSTER" run "$work/names.yml" --name names
for rank in 0 1 2 3; do has out "node $rank is h0$((rank + 1))"; done

# A second job finds the agents warm: no login at all.
expect 0 "$MUSTER" run "$work/names.yml"

# PyTorch: the loss of a run started by hand with the same environment.
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  # One rank on each of the four hosts instead of two on two.
  sed -e "s/azureml:local-cluster/$target/" -e "s/instance_count: 2/instance_count: 4/" \
    -e "s/process_count_per_instance: 2/process_count_per_instance: 1/" \
    -e "s#^code: .*#code: $source/configs#" "$source/configs/pytorch-ddp.yml" >"$work/ddp.yml"
  expect 0 "$MUSTER" run "$work/ddp.yml" --name ddp
  grep -o 'loss [0-9.]*' "$work/out" | tail -n 1 >"$work/loss-muster"
  mkdir "$work/hand"; cp "$source/configs/pytorch_ddp.py" "$work/hand"
  for rank in 0 1 2 3; do
    (cd "$work/hand" && USE_LIBUV=0 RANK=$rank LOCAL_RANK=0 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 \
      MASTER_PORT=29411 OMP_NUM_THREADS=1 /usr/bin/python3 pytorch_ddp.py --steps 30 \
      --learning-rate 0.02 >"$work/hand/$rank.log" 2>&1) &
    hands="${hands:-} $!"
  done
  wait $hands
  cat "$work"/hand/*.log | grep -o 'loss [0-9.]*' | tail -n 1 >"$work/loss-hand"
  [ -s "$work/loss-hand" ] || { tail "$work"/hand/*.log; fail "the run by hand printed no loss"; }
  cmp "$work/loss-muster" "$work/loss-hand" || fail "another loss than by hand"
else
  echo "skipped: needs python3-torch"
fi

# MPI: one mpirun over the agents; the hosts have no keys for each other.
if command -v mpirun >/dev/null && command -v mpicc >/dev/null; then
  sed "s/azureml:local-cluster/$target/; s/instance_count: 2/instance_count: 4/" \
    "$source/configs/mpi-hello.yml" | sed "s#^code: .*#code: $source/configs#" >"$work/mpi.yml"
  expect 0 "$MUSTER" run "$work/mpi.yml" --name mpi
  for rank in 0 1 2 3 4 5 6 7; do has out "rank $rank"; done
else
  echo "skipped: needs Open MPI"
fi

# cancel: ranks that refuse to go, on every host.
job_file stubborn.yml <<YAML
command: |
  trap '' TERM
  (setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &) &
  echo ready
  while :; do sleep 1; done
compute: $target
resources: {instance_count: 4}
muster: {stop: {grace: 1}}
YAML
expect 0 "$MUSTER" submit "$work/stubborn.yml" --name stubborn
for rank in 0 1 2 3; do
  until_true 30 grep -qs ready "$MUSTER_HOME/jobs/stubborn/attempt-0/rank-$rank.log"
done
[ "$(job_pids stubborn | wc -l)" -ge 8 ] || fail "the job has too few processes"
expect 0 "$MUSTER" cancel stubborn
no_process_of stubborn || fail "left behind: $(job_pids stubborn)"
