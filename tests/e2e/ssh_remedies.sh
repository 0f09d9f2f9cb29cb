#!/usr/bin/env bash
# A GPU's firmware hangs on a host over ssh: the job goes on elsewhere, the host is reset by the
# site's own command, once it is idle. Nobody is asked.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
command -v python3 >/dev/null || skip "needs python3"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 2 --gpus 8 --dir "$cluster_dir" >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
shared="$cluster_dir/shared"

# The site's command leaves a trace of what it was given.
cat >"$shared/reset" <<SH
#!/bin/sh
printf '<%s>' "\$(uname -n)" "\$@" >>$shared/trace
echo >>$shared/trace
SH
chmod 755 "$shared/reset"
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

# ---- broken, moved, reset
expect 0 "$MUSTER" submit "$work/train.yml" --cluster "$lab" --name train
begun_on() { grep -qs "begun on $2" "$MUSTER_HOME/jobs/train/attempt-$1/rank-0.log"; }
until_true 60 begun_on 0 h01
write_xid h01 119 "pid=1, name=train, Timeout after 6s of waiting for RPC response from GPU3 GSP!"
until_true 60 begun_on 1 h02
was_reset() { [ -s "$shared/trace" ]; }
until_true 60 was_reset
[ "$(cat "$shared/trace")" = "<h01><-i><0000:03:00.0><for gpu.xid; rm -rf x>" ] \
  || { cat "$shared/trace"; fail "not reset once with these words"; }
is_told() { "$MUSTER" explain train | grep -qF "reset by muster after XID 119"; }
until_true 60 is_told
expect 0 "$MUSTER" cancel train --wait
exit 0
