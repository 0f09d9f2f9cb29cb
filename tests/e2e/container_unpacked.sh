#!/usr/bin/env bash
# Containers of runtimes that keep no images (bubblewrap, charliecloud): unpacked once, what the
# ranks see and may write, and that nothing lives on when the holder or the agent is killed.
. "$(dirname "$0")/harness.sh"
for program in skopeo umoci docker-registry unshare; do
  command -v "$program" >/dev/null || skip "no $program"
done
runtimes=()
for pair in bwrap:bubblewrap ch-run:charliecloud; do
  command -v "${pair%:*}" >/dev/null && runtimes+=("${pair#*:}")
done
[ ${#runtimes[@]} -gt 0 ] || skip "neither bubblewrap nor charliecloud"
[ -x /bin/busybox ] || skip "no busybox"
unshare -Urpf true 2>/dev/null || skip "no user namespaces"
port=$((16800 + $$ % 90)) host=127.0.0.1:$((16800 + $$ % 90))
export HOME=$work/user
mkdir -p "$HOME/.config/containers"
printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$host" \
  >"$HOME/.config/containers/registries.conf"
cat >"$work/registry.yml" <<YAML
version: 0.1
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: $host}
YAML
docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 &
registry=$!
trap 'code=$?; kill "$registry"; (exit $code); finish' EXIT
until_true 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null

# An image by umoci alone.
umoci init --layout "$work/oci" && umoci new --image "$work/oci:it"
umoci unpack --rootless --image "$work/oci:it" "$work/bundle" 2>/dev/null
root=$work/bundle/rootfs
mkdir -p "$root/bin" "$root/var"
cp /bin/busybox "$root/bin/"
for word in sh env cat sleep setsid id echo touch ls; do ln -s busybox "$root/bin/$word"; done
echo "of the image" >"$root/mark"
ln -s /root "$root/var/link"
umoci repack --image "$work/oci:it" "$work/bundle" 2>/dev/null
umoci config --image "$work/oci:it" --config.env OF_IMAGE=yes --config.env PATH=/bin
skopeo copy --quiet --dest-tls-verify=false "oci:$work/oci:it" "docker://$host/lab/it:1"

mkdir "$work/code"
cat >"$work/code/rank.sh" <<'RANK'
echo "rank $RANK of $WORLD_SIZE: $(cat /mark), ENV $OF_IMAGE, host ${HOST_ONLY:-unknown}, \
PATH $PATH"
touch /mine 2>/dev/null && echo "wrote into the image"
touch /tmp/mine "$OUT/of-$RANK" && echo "wrote where it may"
[ "$1" != hold ] || { setsid env -i sleep "$2" & sleep "$2"; }
RANK
job() { # NAME WORDS
  cat >"$work/$1.yml" <<YAML
command: OUT="\${{outputs.files}}" sh rank.sh $2
code: $work/code
environment: {image: "$host/lab/it:1"}
compute: local-cluster
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 2}
outputs: {files: {type: uri_folder}}
YAML
}
running() { [ "$(pgrep -cf "^sleep $1\$")" -eq "$2" ]; }
export HOST_ONLY=leaked
for runtime in "${runtimes[@]}"; do
  echo "containers: {runtime: $runtime}" >"$work/cluster.yml"
  export MUSTER_CONFIG=$work/cluster.yml
  job "$runtime" ""
  expect 0 "$MUSTER" run "$work/$runtime.yml" --name "$runtime"
  for rank in 0 1 2 3; do
    has out "rank $rank of 4: of the image, ENV yes, host unknown, PATH /bin"
  done
  has out "wrote where it may"
  grep -q "wrote into the image" "$work/out" && fail "$runtime: the image can be changed"
  [ "$(find "$MUSTER_HOME/jobs/$runtime" -name 'of-?' | wc -l)" -eq 4 ] || fail "outputs"
  for victim in holder agent; do
    name=$runtime-$victim seconds=9871$((RANDOM % 1000))
    job "$name" "hold $seconds"
    expect 0 "$MUSTER" submit "$work/$name.yml" --name "$name"
    until_true 60 running "$seconds" 8
    if [ "$victim" = holder ]; then
      kill -9 "$(pgrep -f '^/muster/hold /muster/sock' | head -n 1)"
    else
      kill -9 "$(agent_pids | head -n 1)"
    fi
    attempt_2() { "$MUSTER" status "$name" | grep -q '^1 '; }
    until_true 90 attempt_2
    until_true 60 running "$seconds" 8
    expect 0 "$MUSTER" cancel "$name" --wait
    until_true 10 running "$seconds" 0
  done
done
[ "$(find "$MUSTER_HOME/nodes/images" -maxdepth 2 -name rootfs | wc -l)" -eq 1 ] ||
  fail "the image was unpacked more than once"
