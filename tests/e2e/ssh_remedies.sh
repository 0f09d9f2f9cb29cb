#!/usr/bin/env bash
# A GPU's firmware hangs on a host over ssh: the job continues elsewhere, the host is reset by the
# site's own command, once it is idle, and used again when its checks pass. Nobody is asked.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
command -v python3 >/dev/null || skip "needs python3"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 2 --gpus 8 --dir "$cluster_dir" >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
shared="$cluster_dir/shared"

# The site's commands: one leaves a trace of what it was given, one does not work.
cat >"$shared/reset" <<SH
#!/bin/sh
printf '<%s>' "\$(uname -n)" "\$@" >>$shared/trace
echo >>$shared/trace
SH
printf '#!/bin/sh\necho "GPU 3 is in use by another client" >&2\nexit 3\n' >"$shared/broken"
chmod 755 "$shared/reset" "$shared/broken"
chmod 777 "$shared"

lab="$work/lab.yml"
with_reset() { # COMMAND: the cluster file with it
  local health='{profile: site, checks: {gpu.xid: {clear_after_s: 0}}}'
  sed "s#^    transport: ssh\$#&\n    health: $health\n    remedies: {reset: \"$1\"}#" \
    "$cluster_dir/cluster.yml" >"$lab"
  grep -q remedies "$lab" || fail "no remedies in the cluster file"
}
with_reset "$shared/reset -i {device} 'for {finding}; rm -rf x'"

kernel_log() { echo "$cluster_dir/$1/sysroot/dev/kmsg"; }
for host in h01 h02; do
  mkdir -p "$(dirname "$(kernel_log "$host")")"
  : >"$(kernel_log "$host")"
  chmod 644 "$(kernel_log "$host")"
done
write_xid() { # HOST CODE TEXT
  local now_us
  now_us=$(python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) // 1000)')
  echo "3,$((RANDOM + 100000)),$now_us,-;NVRM: Xid (PCI:0000:03:00): $2, $3" \
    >>"$(kernel_log "$1")"
}

# ---- what is wrong with a command is said before anything runs
with_reset "$shared/reset -i {gpus}"
job_file train.yml <<'YAML'
command: echo begun on $(uname -n); sleep 300
compute: sandbox
muster: {restart: {delay: 0}}
YAML
expect 90 "$MUSTER" submit "$work/train.yml" --cluster "$lab" --name train
has err "there is no placeholder {gpus}"
with_reset "$shared/reset -i {device} 'for {finding}; rm -rf x'"

# ---- broken, moved, reset, used again
expect 0 "$MUSTER" submit "$work/train.yml" --cluster "$lab" --name train
begun_on() { grep -qs "begun on $2" "$MUSTER_HOME/jobs/train/attempt-$1/rank-0.log"; }
until_true 60 begun_on 0 h01
write_xid h01 119 "pid=1, name=train, Timeout after 6s of waiting for RPC response from GPU3 GSP!"
until_true 60 begun_on 1 h02
was_reset() { [ -s "$shared/trace" ]; }
until_true 60 was_reset
fit() { [ "$("$MUSTER" nodes --cluster "$lab" -o tsv --query "[?name=='$1'].unfit.check")" = "" ]; }
until_true 120 fit h01
[ "$(cat "$shared/trace")" = "<h01><-i><0000:03:00.0><for gpu.xid; rm -rf x>" ] \
  || { cat "$shared/trace"; fail "not reset once with these words"; }
expect 0 "$MUSTER" explain train
has out "reset by muster after XID 119"
expect 0 "$MUSTER" cancel train --wait
job_file again.yml <<'YAML'
command: echo used again
compute: sandbox
muster: {placement: {include: [h01]}}
YAML
expect 0 "$MUSTER" run "$work/again.yml" --cluster "$lab" --name again

# ---- a command that fails is not tried again, and leaves the node to a person
with_reset "$shared/broken"
sed 's/compute: sandbox/&\nmuster: {placement: {include: [h02]}}/; /restart/d' "$work/train.yml" \
  >"$work/other.yml"
expect 0 "$MUSTER" submit "$work/other.yml" --cluster "$lab" --name other
begun_again() { grep -qs "begun on h02" "$MUSTER_HOME/jobs/other/attempt-0/rank-0.log"; }
until_true 60 begun_again
write_xid h02 95 "pid=1, name=train, Uncontained ECC error."
why="reset by muster failed: its command exited with code 3"
has_failed() { "$MUSTER" nodes --cluster "$lab" | grep -q "$why"; }
until_true 60 has_failed
expect 0 "$MUSTER" explain other
has out "GPU 3 is in use by another client"
expect 0 "$MUSTER" nodes --cluster "$lab" -o json
has out '"step": "reset"'
has out '"failure": "its command exited with code 3"'
[ "$(wc -l <"$shared/trace")" = 1 ] || fail "reset again"
expect 0 "$MUSTER" cancel other --wait
exit 0
