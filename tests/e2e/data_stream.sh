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
mounted=""
trap 'status=$?; kill "$server" $mounted; (exit "$status"); finish' EXIT
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

# An output that has too much already: links to the mount, which what is written replaces.
job_file out.yml <<YAML
command: |
  cd "\${{outputs.model}}"
  find -L . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum
  echo x >new && mv new "deep er/1"
environment: azureml:host
outputs:
  model: {mode: rw_mount, path: azureml://datastores/dav/paths/train}
YAML
expect 0 "$MUSTER" run "$work/out.yml" --name output
has out "${sums%% *}"
[ "$(cat "$store/train/deep er/1")" = x ] || fail "what was written is not in the store"
[ "$(grep -c ": PUT from" "$work/dav.log")" = 1 ] || fail "more was written than one file"
echo 1 >"$store/train/deep er/1"
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

# In a directory of this machine, until it is ended or killed.
printf 'name: train\npath: azureml://datastores/dav/paths/train\n' >"$work/asset.yml"
expect 0 "$MUSTER" data create -f "$work/asset.yml"
sums=$(cd "$store/train" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
mkdir "$work/here" "$work/bin"
expect 1 "$MUSTER" data mount train "$store"
has err "is not an empty directory"
expect 1 "$MUSTER" data mount train:2 "$work/here"
expect 1 env PATH="$work/bin" "$MUSTER" data mount train "$work/here"
has err "install Debian's package 'fuse3'"
mount_here() {
  "$MUSTER" data mount "$1" "$work/here" 2>"$work/mount.err" &
  mounted=$!
  until_true 30 grep -q "until Ctrl-C" "$work/mount.err"
}
none_here() { ! grep -q " $MUSTER_HOME/mounts.* fuse" /proc/self/mountinfo; }
mount_here train@latest
none_here && fail "nothing is mounted"
[ "$(cd "$work/here/" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)" = \
  "$sums" ] || fail "other bytes are mounted"
touch "$work/here/x" 2>/dev/null && fail "the mount can be written to"
kill -TERM "$mounted"; wait "$mounted" || fail "the mount ended with $?"
none_here || fail "a mount is left"
[ ! -L "$work/here" ] && rmdir "$work/here" || fail "no empty directory is left"
mount_here azureml://datastores/dav/paths/train
kill -KILL "$mounted"; wait "$mounted" 2>/dev/null
until_true 10 none_here
cleared() { [ -z "$(find "$MUSTER_HOME/mounts" -mindepth 3)" ]; }
until_true 10 cleared
echo ok
