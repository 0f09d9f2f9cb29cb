#!/usr/bin/env bash
# Ranks in a container image: what they see, commands beside them, what is left when parts of it
# are killed. The image is made here, of busybox alone.
. "$(dirname "$0")/harness.sh"
command -v podman >/dev/null || skip "no podman"
[ -x /bin/busybox ] || skip "no busybox"
image=localhost/muster-test-$$:1
mkdir -p "$work/image/bin" "$work/image/tmp"
cp /bin/busybox "$work/image/bin/"
for word in sh env cat sleep setsid kill id echo; do ln -s busybox "$work/image/bin/$word"; done
echo "of the image" >"$work/image/mark"
tar -C "$work/image" -c . | podman import --change "ENV OF_IMAGE=yes" \
  --change "ENTRYPOINT [\"/no/such\"]" - "$image" >"$work/import" 2>&1 ||
  { cat "$work/import"; skip "podman cannot import an image here"; }
podman run --rm --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
  --entrypoint echo "$image" >"$work/import" 2>&1 ||
  { cat "$work/import"; podman rmi --force "$image" >/dev/null; skip "podman runs nothing here"; }
forget() { podman rmi --force "$image" >/dev/null 2>&1; }
trap 'code=$?; forget; (exit $code); finish' EXIT
left() { podman ps --all --quiet --filter "name=^muster-.*-$1-"; }
none_left() { [ -z "$(left "$1")" ] && ! pgrep -f "^sleep 98765$2\$" >/dev/null; }

mkdir "$work/code"
cat >"$work/code/rank.sh" <<'RANK'
echo "rank $RANK of $WORLD_SIZE: $(cat /mark), ENV $OF_IMAGE, host ${HOST_ONLY:-unknown}"
echo "$RANK" >"$OUT/of-$RANK"
case $1 in
  hold) setsid env -i sleep "98765$2" & echo ready; while [ ! -e "$OVER" ]; do sleep 0.1; done ;;
esac
RANK
job() { # NAME WORDS
  cat >"$work/$1.yml" <<YAML
command: OUT="\${{outputs.files}}" sh rank.sh $2
code: $work/code
environment: {image: $image}
compute: local-cluster
resources: {instance_count: 2, shm_size: 64m}
distribution: {type: pytorch, process_count_per_instance: 2}
outputs: {files: {type: uri_folder}}
environment_variables: {OVER: "\$MUSTER_OUTPUT_DIR/over"}
YAML
}

# --- what the ranks see, and what they leave
job sees ""
export HOST_ONLY=leaked
expect 0 "$MUSTER" run "$work/sees.yml" --name sees
for rank in 0 1 2 3; do
  has out "rank $rank of 4: of the image, ENV yes, host unknown"
done
[ "$(find "$MUSTER_HOME/jobs/sees" -name 'of-?' | wc -l)" -eq 4 ] || fail "outputs"
none_left sees 0 || fail "a container is left"

# --- in which nothing of it can start
sed "s|image: .*}|image: localhost/none-such-$$:1}|" "$work/sees.yml" >"$work/none.yml"
printf 'muster: {restart: {attempts: 0}, reschedule: {attempts: 0}}\n' >>"$work/none.yml"
"$MUSTER" run "$work/none.yml" --name none >"$work/out" 2>&1 && fail "an image that is not there"
has out "the image localhost/none-such-$$:1 is not on this node"
sed "s|image: .*}|image: '--privileged'}|" "$work/sees.yml" >"$work/odd.yml"
expect 90 "$MUSTER" run "$work/odd.yml"; has err "is not the name of an image"

# --- a command beside the ranks; parts that are killed
ready() {
  [ "$(cat "$MUSTER_HOME/jobs/$1/attempt-$2"/rank-*.log 2>/dev/null | grep -c ready)" -eq 4 ]
}
begin() { # NAME
  job "$1" "hold $2"
  expect 0 "$MUSTER" submit "$work/$1.yml" --name "$1"
  until_true 60 ready "$1" 0
}
goes_on() { # NAME NUMBER: in its next attempt, without the processes of the one before
  until_true 90 ready "$1" 1
  [ "$(pgrep -cf "^sleep 98765$2\$")" -eq 4 ] || fail "$1: processes of attempt 0 are left"
  expect 0 "$MUSTER" cancel "$1" --wait
  until_true 20 none_left "$1" "$2"
}
begin rank 1
expect 0 "$MUSTER" exec rank --rank 3 -- sh -c 'cat /mark; echo "exec of rank $RANK"'
has out "of the image"; has out "exec of rank 3"
expect 3 "$MUSTER" exec rank -- sh -c 'exit 3'
"$MUSTER" exec rank -- no-such-program >"$work/out" 2>"$work/err" && fail "no such program"
has err "No such file"
# The clients of the runtime and its monitors: nothing happens.
pkill -9 -f "podman run .*muster-.*-rank-0 "
pkill -9 -f "conmon .*muster-.*-rank-0 "
sleep 1
expect 0 "$MUSTER" exec rank -- sh -c 'cat /mark'
kill -9 $(pgrep -f "^sh rank.sh hold 1" | head -n 1)
goes_on rank 1
# Process 1 of a container: the kernel ends all that is in it.
begin holder 2
kill -9 $(pgrep -f "^/muster/hold /muster/sock" | head -n 1)
goes_on holder 2
# Its containers go with an agent.
begin agent 3
kill -9 $(agent_pids | head -n 1)
goes_on agent 3
