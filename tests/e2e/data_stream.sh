#!/usr/bin/env bash
# Data that do not fit into the cache: mounted, read again without the store, gone with the attempt
# or the agent; a store that changed meanwhile is found.
. "$(dirname "$0")/harness.sh"
command -v rclone >/dev/null || skip "no rclone"
command -v fusermount3 >/dev/null || skip "no fuse3"
[ -w /dev/fuse ] || skip "no /dev/fuse"

readonly port=16843
store="$work/store"
mkdir -p "$store/train/deep er"
rclone serve webdav "$store" --addr 127.0.0.1:$port --log-level DEBUG --vfs-cache-mode off \
  --dir-cache-time 0 >"$work/dav.log" 2>&1 &
server=$!
trap 'status=$?; kill "$server"; (exit "$status"); finish' EXIT
until_true 10 grep -q "WebDav Server started" "$work/dav.log"
reads() { grep -c ": GET from" "$work/dav.log"; }
head -c 3000000 /dev/urandom >"$store/train/big.bin"
for i in $(seq 40); do echo "$i" >"$store/train/deep er/$i"; done
sums=$(cd "$store/train" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)

cat >"$work/cluster.yml" <<YAML
default: two
compute:
  two: {transport: local, nodes: [h1, h2], remote_home: $work/nodes}
datastores:
  dav:
    type: rclone
    remote: webdav
    options: {url: "http://127.0.0.1:$port", vendor: other}
data: {size: 2mb, stage_below: 50%}
YAML
export MUSTER_CONFIG="$work/cluster.yml"
mounts() { grep -c " $work/nodes.* fuse" /proc/self/mountinfo; }
nothing_left() {
  [ "$(mounts)" = 0 ] && [ -z "$(find "$work/nodes" -path '*/streams/*' -type d)" ]
}

# 3 MB are more than half of 2: mounted on each node, and read from the store once.
job_file read.yml <<YAML
command: |
  cd "\${{inputs.data}}"
  for epoch in 1 2; do find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum; done
  stat -f -c "on %T" .
  touch x 2>/dev/null && echo writable
  exit 0
environment: azureml:host
resources: {instance_count: 2}
environment_variables: {DATASET_MOUNT_CACHE_SIZE: 100 MB}
inputs:
  data: {type: uri_folder, path: azureml://datastores/dav/paths/train}
YAML
expect 0 "$MUSTER" run "$work/read.yml" --name streams
[ "$(grep -c "${sums%% *}" "$work/out")" = 4 ] || fail "a node read other bytes: $(cat "$work/out")"
has out "on fuse"
! grep -q writable "$work/out" || fail "the mount can be written to"
[ "$(reads)" -le 84 ] || fail "$(reads) reads of 41 files by 2 nodes"
until_true 10 nothing_left || fail "a mount is left: $(grep "$work/nodes" /proc/self/mountinfo)"

# As the job asks; a copy is never mounted.
expect 92 "$MUSTER" run "$work/read.yml" --name copies --set muster.data.data=stage \
  --set resources.instance_count=1 --set muster.reschedule.attempts=0
has err "which may take"
expect 90 "$MUSTER" run "$work/read.yml" --set muster.data.dota=stream
has err "no such input"

# The store changes while the job reads.
job_file late.yml <<YAML
command: |
  head -c 10 "\${{inputs.data}}/big.bin" >/dev/null
  touch $work/reads
  until [ -e $work/go ]; do sleep 0.1; done
environment: azureml:host
muster: {data: {data: stream}, restart: {attempts: 0}, reschedule: {attempts: 0}}
inputs:
  data: {type: uri_folder, path: azureml://datastores/dav/paths/train}
YAML
expect 0 "$MUSTER" submit "$work/late.yml" --name late
until_true 20 test -e "$work/reads"
echo other >"$store/train/deep er/7"
touch "$work/go"
expect 92 "$MUSTER" wait late
has err "changed in the store while the job read them"
until_true 10 nothing_left || fail "a mount is left after a job"

# An agent that is killed holds nothing.
rm "$work/reads" "$work/go"
expect 0 "$MUSTER" submit "$work/late.yml" --name killed
until_true 20 test -e "$work/reads"
[ "$(mounts)" = 1 ] || fail "$(mounts) mounts"
pkill -KILL -f "agent serve --home $work/nodes" || fail "no agent"
until_true 10 nothing_left || fail "a mount is left after the agent"
echo ok
