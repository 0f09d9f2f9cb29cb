#!/usr/bin/env bash
# The image's own Open MPI over two containers; commands on other nodes, services and a look with
# the debugger beside the ranks. The image is made here, of this host's Open MPI.
. "$(dirname "$0")/harness.sh"
command -v podman >/dev/null || skip "no podman"
[ -x /bin/busybox ] || skip "no busybox"
command -v dpkg >/dev/null && mpi=$(dpkg -L openmpi-bin openmpi-common libopenmpi3 libpmix2 \
  2>/dev/null || dpkg -L openmpi-bin openmpi-common libopenmpi40 libpmix2t64 2>/dev/null) ||
  skip "no Open MPI of Debian"
image=localhost/muster-mpi-$$:1
mkdir -p "$work/image/bin" "$work/image/tmp"
cp /bin/busybox "$work/image/bin/"
for word in sh env cat sleep kill echo id cut ls sed grep sort tail tr head uname readlink; do
  ln -s busybox "$work/image/bin/$word"
done
echo "$mpi" | grep -Ev '/(doc|man|include)/' | while read -r path; do
  [ ! -f "$path" ] || { echo "$path"; ldd "$path" 2>/dev/null | grep -o '/[^ ]*'; }
done | sort -u | xargs -I{} cp -L --parents {} "$work/image"
cp -L /usr/bin/mpirun "$work/image/usr/bin/mpirun"
tar -C "$work/image" -c . | podman import --change "ENV OF_IMAGE=yes" \
  --change "ENV PATH=/usr/bin:/bin" - "$image" >"$work/import" 2>&1 ||
  { cat "$work/import"; skip "podman cannot import an image here"; }
podman run --rm --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$image" \
  mpirun --version >"$work/import" 2>&1 ||
  { cat "$work/import"; podman rmi --force "$image" >/dev/null; skip "podman runs nothing here"; }
forget() { podman rmi --force "$image" >/dev/null 2>&1; }
trap 'code=$?; forget; (exit $code); finish' EXIT

mkdir "$work/code"
cat >"$work/code/rank.sh" <<'RANK'
echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, node $NODE_RANK, ENV $OF_IMAGE"
[ "$1" != hold ] || sleep 98760
RANK
job() { # NAME COMMAND MORE
  cat >"$work/$1.yml" <<YAML
command: $2
code: $work/code
environment: {image: $image}
compute: local-cluster
resources: {instance_count: 2}
$3
YAML
}

# --- mpirun of the image, its daemon in the other container; one rank is killed
mpi='distribution: {type: mpi, process_count_per_instance: 3}'
job mpi "sh rank.sh" "$mpi"
expect 0 "$MUSTER" run "$work/mpi.yml" --name mpi
for rank in 0 1 2 3 4 5; do
  has out "rank $rank of 6, node $((rank / 3)), ENV yes"
done
job killed "sh rank.sh hold" "$mpi"
expect 0 "$MUSTER" submit "$work/killed.yml" --name killed
ready() {
  [ "$(cat "$MUSTER_HOME/jobs/killed/attempt-$1"/rank-*.log 2>/dev/null | grep -c ENV)" -eq 6 ]
}
until_true 60 ready 0
kill -9 "$(pgrep -f "^sh rank.sh hold" | tail -n 1)"
until_true 90 ready 1
expect 0 "$MUSTER" cancel killed --wait
expect 0 "$MUSTER" explain killed
has out "was killed by SIGKILL"

# --- commands on the other node, as a launcher starts them; beside the ranks
job door 'for host in $(cut -d" " -f1 "$MUSTER_HOSTFILE"); do [ "$NODE_RANK" = 1 ] || \
  ssh "$host" "echo command on \$NODE_RANK, ENV \$OF_IMAGE; exit 5"; echo code $?; done' \
  'muster: {remote_start: true}'
sed -i 's/^command: /command: |-\n  /' "$work/door.yml"
expect 0 "$MUSTER" run "$work/door.yml" --name door
for node in 0 1; do has out "command on $node, ENV yes"; done
has out "code 5"
job beside "sh rank.sh hold" \
  'services: {mine: {type: custom, properties: {command: "echo of $OF_IMAGE; sleep 98760"}}}'
expect 0 "$MUSTER" submit "$work/beside.yml" --name beside
printed() { "$MUSTER" exec beside -- sh -c 'cat $MUSTER_SERVICES/mine.log' | grep -q "of yes"; }
until_true 60 printed
"$MUSTER" debug beside --rank 1 >"$work/out" 2>"$work/err" && fail "there is no gdbserver"
has out "/bin/busybox)"; has err "gdbserver is missing in the image"
expect 0 "$MUSTER" cancel beside --wait
[ -z "$(podman ps --all --quiet --filter "ancestor=$image")" ] || fail "a container is left"
