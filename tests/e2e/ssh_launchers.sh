#!/usr/bin/env bash
# muster.remote_start: doubles that make exactly the calls of `deepspeed` 0.19 (its ssh checks, its
# pdsh, its pkill) and of `horovodrun` 0.28 run on four hosts that have no keys for each other.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 4 --dir "$cluster_dir" --private-home >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
export MUSTER_CONFIG="$cluster_dir/cluster.yml"
target=$(sed -n '/^compute:/{n;s/^ *\([^:]*\):.*/\1/p}' "$MUSTER_CONFIG")
mkdir "$work/code"
cat >"$work/code/double.sh" <<'DOUBLE'
hosts=$(cut -d' ' -f1 "$MUSTER_HOSTFILE" | paste -sd,)
ssh -o PasswordAuthentication=no "${hosts%%,*}" hostname >/dev/null 2>&1 || exit 21
address=$(ssh h02 hostname -I) || exit 22
echo "h02 has $address, slots $(grep -c '^h0[1234] slots=2$' "$MUSTER_HOSTFILE")"
python=$(command -v bash)
pdsh -S -f 1024 -w "$hosts" 'export A=1; export FOO="bar baz"; ' "cd $PWD;" "$python" -u \
  train.sh --world_info=B64 --node_rank=%n "--master_addr=$address" --name '"x y"' "$@" &
child=$!
stop() {
  kill -INT $child; sleep 0.1; kill -TERM $child
  pdsh -S -f 1024 -w "$hosts" "pkill -f " "$python\\ -u\\ train.s"
  echo "pkill ended with $?"; sleep 1; exit 1
}
trap stop INT TERM
wait $child; code=$?
echo "pdsh ended with $code"; exit $code
DOUBLE
cat >"$work/code/train.sh" <<'TRAIN'
echo "host $(uname -n) node ${2#*=} A=$A FOO=$FOO name=$5 in $(basename "$PWD")"
echo "rank $NODE_RANK, secret ${MUSTER_TOKEN:+kept}"
case $6 in
  codes) [ "$NODE_RANK" = 0 ] && exit 3; [ "$NODE_RANK" = 1 ] && kill -9 $$; exit 0 ;;
  count) for i in $(seq "$7"); do echo "line $i"; sleep 0.1; done ;;
  much) head -c 3000000 /dev/zero | tr '\0' 'x' | fold -w 99; echo; echo "all of it" ;;
  wait) echo ready; sleep 300 & wait ;;
esac
TRAIN
submit() { # NAME [KEY: VALUE] WORDS…
  local name=$1; shift
  cat >"$work/$name.yml" <<YAML
command: |
  [ "\$NODE_RANK" = 0 ] || exit 0
  $*
code: $work/code
compute: $target
resources: {instance_count: 4}
muster:
  remote_start: true
  processes_per_node: 2
  restart: {attempts: 0}
  reschedule: {attempts: 0}
  stop: {grace: 5s}
YAML
  expect 0 "$MUSTER" submit "$work/$name.yml" --name "$name"
}
log_of() { cat "$MUSTER_HOME/jobs/$1"/attempt-0/rank-0.log; }
says() { log_of "$1" 2>/dev/null | grep -qF -- "$2"; }
ends() { # NAME CODE
  "$MUSTER" wait "$1" >"$work/out" 2>"$work/err"
  local code=$?
  log_of "$1" >"$work/out"
  [ "$code" -eq "$2" ] || {
    tail -n 20 "$work/out" "$work/err"
    fail "$1 ended with $code, not $2"
  }
  until_true 20 no_process_of "$1"
}

# The whole of what deepspeed does, with output from every node, each line behind its host.
submit whole "bash double.sh much"
ends whole 0
has out "h02 has $(sed -n 's/.*name: h02,.*host: \([0-9.]*\).*/\1/p' "$MUSTER_CONFIG"), slots 4"
for node in 0 1 2 3; do
  has out "h0$((node + 1)): host h0$((node + 1)) node $node A=1 FOO=bar baz name=x y in code-0"
  has out "h0$((node + 1)): all of it"
done
has out "h04: rank 3, secret kept"
[ "$(grep -c 'xxx$' "$work/out")" -eq $((4 * 30304)) ] || fail "$(grep -c 'xxx$' "$work/out") lines"
has out "pdsh ended with 0"

# The largest exit code; a signal there is no signal here.
submit codes "bash double.sh codes"
ends codes 137
has out "pdsh ended with 137"

# Other hosts, and other nodes than node 0.
sed -i 's/\[ "\$NODE_RANK" = 0 \] || exit 0/:/' "$work/codes.yml"
sed -i 's/^  bash double.sh.*/  ssh h09 true; echo "code $?"; ssh h01 true; echo "code $?"/' \
  "$work/codes.yml"
expect 0 "$MUSTER" run "$work/codes.yml" --name refused
log_of refused >"$work/out"
has out "ssh: h09: h09 is not a node of this attempt of job refused"
has out "code 255"
has out "code 0"
cat "$MUSTER_HOME"/jobs/refused/attempt-0/rank-1.log >"$work/out"
has out "ssh: h01: only node 0 of a job may start commands on other nodes"
# Without the setting there is no such program.
sed -i -e '/remote_start/d' -e 's/processes_per_node: 2/priority: 0/' \
  -e 's/^  ssh h09.*/  [ -z "$MUSTER_HOSTFILE" ] \&\& [[ $(command -v ssh) != *muster* ]]/' \
  "$work/codes.yml"
expect 0 "$MUSTER" run "$work/codes.yml" --name shut

# A controller that is killed: its successor goes on, no line is lost and none comes twice.
submit killed "bash double.sh count 80"
until_true 60 says killed "h04: line 5"
kill -9 $(controller_pids)
"$MUSTER" status killed >/dev/null 2>&1
ends killed 0
for host in h01 h02 h03 h04; do
  grep "^$host: line" "$work/out" | cut -d' ' -f3 | cmp - <(seq 80) || fail "lines of $host"
done

# deepspeed's own way to end all: its pkill meets its own job and nothing else.
bash -c 'exec -a "'"$(command -v bash)"' -u train.sh" sleep 300' &
decoy=$!
submit interrupted "bash double.sh wait"
for host in h01 h02 h03 h04; do until_true 60 says interrupted "$host: ready"; done
pkill -TERM -f "^bash double.sh wait"
ends interrupted 1
has out "pkill ended with 0"
kill -0 $decoy || fail "pkill met another job's process"
kill $decoy

# cancel: nothing is left on any host.
submit cancelled "bash double.sh wait"
for host in h01 h02 h03 h04; do until_true 60 says cancelled "$host: ready"; done
expect 0 "$MUSTER" cancel cancelled --wait
until_true 20 no_process_of cancelled

# horovodrun: asks who is there, checks every host, then starts each rank by an ssh of its own, that
# of its own host by a shell; --mpi: one mpirun of Open MPI with these words.
cat >"$work/code/horovod.sh" <<'DOUBLE'
found=$("$MUSTER_DISCOVERY")
[ "$found" = "$(printf 'h01:2\nh02:2\nh03:2\nh04:2')" ] || { echo "found: $found"; exit 31; }
for host in h02 h03 h04; do
  ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no "$host" true || exit 32
done
if [ "$1" = mpi ]; then
  exec mpirun --allow-run-as-root --tag-output -np 8 -H h01:2,h02:2,h03:2,h04:2 -bind-to none \
    -map-by slot -mca pml ob1 -mca btl ^openib -mca btl_tcp_if_include eth0 -x PATH -x A=1 \
    bash "$2"
fi
rank=0 processes=
for line in $found; do
  host=${line%:*}
  for local in $(seq 0 $((${line#*:} - 1))); do
    command="cd $PWD > /dev/null 2>&1 ; HOROVOD_RANK=$rank HOROVOD_SIZE=8 \
      HOROVOD_LOCAL_RANK=$local HOROVOD_HOSTNAME=$host HOROVOD_CONTROLLER=gloo \
      HOROVOD_GLOO_RENDEZVOUS_ADDR=$MASTER_ADDR A='b  c' bash train-gloo.sh $2"
    if [ "$host" = "$(uname -n)" ]; then bash -c "$command" &
    else
      ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no "$host" \
        "bash -c $(printf %q "$command")" &
    fi
    processes="$processes $!" rank=$((rank + 1))
  done
done
code=0
for process in $processes; do wait "$process" || code=$?; done
exit $code
DOUBLE
cat >"$work/code/train-gloo.sh" <<'TRAIN'
echo "rank $HOROVOD_RANK/$HOROVOD_SIZE local $HOROVOD_LOCAL_RANK on $(uname -n) A=$A" \
  "by $HOROVOD_CONTROLLER"
case $1 in
  codes) [ "$HOROVOD_RANK" != 4 ] || exit 9 ;;
  wait) echo "ready $HOROVOD_RANK"; sleep 300 & wait ;;
esac
TRAIN
# mpirun gives every rank the directory of its own: what it runs has one path on all hosts.
cat >"$cluster_dir/train-mpi.sh" <<'TRAIN'
echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(uname -n) A=$A"
TRAIN
submit gloo "bash horovod.sh gloo"
ends gloo 0
for rank in {0..7}; do
  has out "rank $rank/8 local $((rank % 2)) on h0$((rank / 2 + 1)) A=b  c by gloo"
done
submit gloo_code "bash horovod.sh gloo codes"
ends gloo_code 9
submit gloo_killed "bash horovod.sh gloo wait"
for rank in {0..7}; do until_true 60 says gloo_killed "ready $rank"; done
kill -9 $(controller_pids)
expect 0 "$MUSTER" cancel gloo_killed --wait
until_true 20 no_process_of gloo_killed
submit openmpi "bash horovod.sh mpi $cluster_dir/train-mpi.sh"
ends openmpi 0
for rank in {0..7}; do has out "rank $rank of 8 on h0$((rank / 2 + 1)) A=1"; done

# MPICH: the daemons of its own mpirun come through the same ssh; the ranks are the job's.
if hydra=$(command -v mpiexec.hydra); then
  mkdir "$cluster_dir/hydra"
  printf '#!/bin/sh\nexec %s "$@"\n' "$hydra" >"$cluster_dir/hydra/mpirun"
  chmod 755 "$cluster_dir/hydra/mpirun"
  cat >"$work/hydra.yml" <<YAML
command: echo "rank \$PMI_RANK of \$PMI_SIZE is \$RANK on \$(uname -n)"
compute: $target
resources: {instance_count: 4}
distribution: {type: mpi, process_count_per_instance: 2}
environment_variables:
  PATH: $cluster_dir/hydra:$PATH
  LD_LIBRARY_PATH: "${LD_LIBRARY_PATH:-}"
muster: {remote_start: true}
YAML
  expect 0 "$MUSTER" run "$work/hydra.yml" --name hydra
  for rank in {0..7}; do has out "rank $rank of 8 is $rank on h0$((rank / 2 + 1))"; done
  until_true 20 no_process_of hydra
else
  echo "skipped: no mpich"
fi
