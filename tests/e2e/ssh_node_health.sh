#!/usr/bin/env bash
# `muster health NODE…` over ssh: four hosts, one with a port that is down, one with a kernel of its
# own, one that is switched off after a while; and one with a job, which is not disturbed.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 4 --gpus 1 --dir "$cluster_dir" >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }

for host in h01 h02 h03 h04; do
  root="$cluster_dir/$host/sysroot"
  [ -d "$root" ] || fail "no root of $host"
  port="$root/sys/class/infiniband/mlx5_0/ports/1"
  mkdir -p "$port" "$root/proc/sys/kernel/random" "$root/dev"
  echo 6f1d0f3c-0000-4000-8000-000000000001 >"$root/proc/sys/kernel/random/boot_id"
  echo 5.15.0-1052 >"$root/proc/sys/kernel/osrelease"
  echo "86400.25 700000.00" >"$root/proc/uptime"
  echo "4: ACTIVE" >"$port/state"
  echo InfiniBand >"$port/link_layer"
  chmod -R go+rX "$root"
done
echo "1: DOWN" >"$cluster_dir/h02/sysroot/sys/class/infiniband/mlx5_0/ports/1/state"
echo 6.8.0-9999 >"$cluster_dir/h03/sysroot/proc/sys/kernel/osrelease"

# The profile is the target's.
lab="$work/lab.yml"
profile='{profile: site, ib: {ports: ["mlx5_0:1"]}, required: [ib.state]}'
sed "s/^    transport: ssh\$/&\n    health: $profile/" "$cluster_dir/cluster.yml" >"$lab"
grep -q "profile: site" "$lab" || fail "no profile in the cluster file"
health=("$MUSTER" health --cluster "$lab" --check ib.state --check host.versions)

# ---- names
expect 2 "${health[@]}" h05
has err "there is no node 'h05'; did you mean 'h01'?"
expect 2 "${health[@]}" --target sandbx
has err "did you mean 'sandbox'?"
expect 2 "${health[@]}" h01 --root /
has err "--root is for this host, not for nodes"
expect 2 "${health[@]}" h01 --timeout 0
[ -e "$MUSTER_HOME/controller.sock" ] && fail "a controller was started for nothing"

# ---- all of a target, which nobody has been connected to yet
expect 1 "${health[@]}" --target sandbox --timeout 60s
has out "3 ok (h01, h03, h04), 1 drained (h02)"
has out "muster:node:ib.state:mlx5_0:1"
[ "$(awk 'NR == 2 { print $1, $2 }' "$work/out")" = "h02 drained" ] || fail "not the worst first"
has out "kernel 6.8.0-9999"
! grep -q "kernel 5.15.0-1052 .*kernel 6.8" "$work/out" || fail "the majority was called wrong"
expect 1 "${health[@]}" 'h[02-03]' -o json --query 'nodes[].state'
has out '"drained"'
has out '"ok"'
expect 0 "${health[@]}" h01 -o json
has out '"profile": "site"'
has out '"beside_ranks": false'
expect 2 "${health[@]}" 'h0*' -o nagios
has out "MUSTER CRITICAL - h02 ib.state mlx5_0:1 1: DOWN (expected 4: ACTIVE)"
expect 1 "${health[@]}" --target sandbox -o none --prometheus-file "$work/muster.prom"
metric='muster_health_check{host="h02",check="ib.state",device="mlx5_0:1"} 2'
grep -qxF "$metric" "$work/muster.prom" || fail "no metric: $(cat "$work/muster.prom")"
expect 1 "${health[@]}" h01 h02 -o jsonl
has out '"host":"h01","boot_id"'
# Another profile for once.
cat >"$work/o.yml" <<'YAML'
profile: other
ib: {ports: ["mlx5_0:1"]}
checks: {ib.state: {mode: observe}}
YAML
expect 0 "${health[@]}" h02 --profile "$work/o.yml"
has out "other"

# ---- beside a job
begin_long_job long "$lab" sandbox h01
expect 0 "${health[@]}" h01 h04 --timeout 60s
grep -qE '^h01 +ok .*beside ranks' "$work/out" || { cat "$work/out"; fail "h01 has a job"; }
grep -qE '^h04 +ok .*on-demand' "$work/out" || { cat "$work/out"; fail "h04 has none"; }
has out "during a job: checks that would disturb its ranks were skipped"
[ "$("$MUSTER" status long -o tsv --query status)" = Running ] || fail "the job was disturbed"
expect 0 "$MUSTER" cancel long --wait

# ---- one that is switched off
expect 0 "$MUSTER" sandbox crash --dir "$cluster_dir" h04
began=$SECONDS
expect 1 "${health[@]}" --target sandbox --timeout 8s
[ $((SECONDS - began)) -le 20 ] || fail "it took $((SECONDS - began)) s"
has out "2 ok (h01, h03), 1 drained (h02), 1 unreachable (h04)"
expect 3 "${health[@]}" h01 h04 --timeout 8s -o json
has out '"state": "unreachable"'
expect 3 "${health[@]}" h04 --timeout 8s -o nagios
has out "h04 host.agent unknown:"
exit 0
