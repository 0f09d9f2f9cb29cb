#!/usr/bin/env bash
# `muster health pairs` over ssh: four hosts with network cards of 100 Mbit/s, then one of them with
# 40; nodes with a job; Ctrl-C.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
command -v tc >/dev/null || skip "needs tc"
command -v iperf3 >/dev/null || skip "no iperf3"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 4 --dir "$cluster_dir" >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
lab="$cluster_dir/cluster.yml"

# The host's own card, as a cable that is bad or a port that fell back to a slower rate.
rate() { # HOST MBIT
  local address network
  address=$(sed -n "s/^ *- *{*name: $1,.*host: \([0-9.]*\).*/\1/p" "$lab")
  for network in $(ip netns list | cut -d' ' -f1); do
    [[ "$(ip -n "$network" -o addr show dev eth0 2>/dev/null)" == *" $address/"* ]] || continue
    tc -n "$network" qdisc replace dev eth0 root tbf rate "$2mbit" burst 512kb latency 100ms \
      || skip "this kernel has no token bucket"
    return
  done
  fail "no network of $1 ($address)"
}
for host in h01 h02 h03 h04; do rate "$host" 100; done
# The hosts of a sandbox share processors with all else on this machine.
any=("$MUSTER" health pairs --cluster "$lab" --tcp --force --timeout 60s)
pairs=("${any[@]}" --time 3s)
# As `expect`, on processors that others leave to the benchmarks: a busy machine shows nothing
# of paths, says so, and names nobody.
measured() {
  local wanted=$1 try got; shift
  for try in 1 2 3; do
    "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    grep -q "busy: its benchmark waited" "$work/out" || break
    [ "$got" -eq 3 ] || [ "$got" -eq "$wanted" ] || fail "a busy machine ended it with $got"
  done
  [ "$got" -eq "$wanted" ] && return
  grep -q "busy: its benchmark waited" "$work/out" && skip "others use this machine's processors"
  expect "$wanted" "$@"
}

# ---- words
expect 2 "${pairs[@]}"
has err "which nodes?"
expect 2 "${any[@]}" --target sandbox --time 1500ms
has err "--time: expected whole seconds"
expect 2 "${pairs[@]}" h05
echo "h01" >"$work/leaves"
expect 3 "${pairs[@]}" h01 h02
has err "it takes 3"
expect 90 "${pairs[@]}" --target sandbox --leaves "$work/leaves"
has err "line 1: expected a node and its leaf"

# ---- what a node says of itself
for hca in mlx5_0 mlx5_1 mlx5_2; do
  port="$work/root/sys/class/infiniband/$hca/ports/1"
  mkdir -p "$port"
  echo "4: ACTIVE" >"$port/state"
  echo InfiniBand >"$port/link_layer"
done
echo "1: DOWN" >"$work/root/sys/class/infiniband/mlx5_1/ports/1/state"
echo Ethernet >"$work/root/sys/class/infiniband/mlx5_2/ports/1/link_layer"
expect 0 env MUSTER_SYSROOT="$work/root" "$MUSTER" agent probe ready
[ "$(grep '^hca' "$work/out")" = "hca mlx5_0" ] || { cat "$work/out"; fail "not its devices"; }
[ "$(tail -n 1 "$work/out")" = ready ] || fail "no end"
# ---- all of them good
measured 0 "${pairs[@]}" --target sandbox
has err "measures pairs of 4 nodes over TCP: about 3.0s a round; 3 rounds"
has err "round 1: 2 pairs"
has out "no pair is slower than the others"
has out "4 nodes over TCP"

# ---- one of them slow
rate h03 40
measured 1 "${pairs[@]}" --target sandbox
has out "slow: node h03"
has out "% below the median"
! grep -qE "slow: .*h0[124]" "$work/out" || { cat "$work/out"; fail "a good one is named"; }
measured 1 "${pairs[@]}" 'h[01-04]' -o json
cp "$work/out" "$work/slow.json"
[ "$(grep -c '"kind"' "$work/slow.json")" = 1 ] || { cat "$work/out"; fail "not one verdict"; }
has out '"kind": "node"'
has out '"state": "slow"'
measured 1 "${pairs[@]}" --target sandbox -o nagios
has out "MUSTER WARNING - perf.tcp_pair h03 slow"
# Below two leaves the other one's nodes report of it.
printf 'h01 a\nh02 a\nh03 b\nh04 b\n' >"$work/leaves"
measured 1 "${pairs[@]}" --target sandbox --leaves "$work/leaves"
has out "slow: node h03"
! grep -qE "slow: .*h0[124]" "$work/out" || { cat "$work/out"; fail "a good one is named"; }
rate h03 100
measured 0 "${pairs[@]}" --target sandbox --leaves "$work/leaves"
# All of them alike, below what the profile asks for: nobody is named alone.
printf 'profile: site\nfloors: {tcp_gbps: 0.2}\n' >"$work/site.yml"
measured 1 "${pairs[@]}" --target sandbox --profile "$work/site.yml"
! grep -q "slow: node" "$work/out" || { cat "$work/out"; fail "a node is named"; }

# ---- beside a job
begin_long_job long "$lab" sandbox h01
expect 3 "${pairs[@]}" --target sandbox
has err "not idle: h01: job long has it"
measured 0 "${pairs[@]}" --target sandbox --idle-only
has out "skipped: h01: not idle: job long has it"
has out "3 nodes over TCP"
[ "$("$MUSTER" status long -o tsv --query status)" = Running ] || fail "the job was disturbed"

# ---- Ctrl-C ends the benchmarks on the nodes
probe_pids() { pgrep -f "[m]uster.* agent probe tcp-"; }
no_probe() { [ -z "$(probe_pids)" ]; }
# A shell's background command ignores Ctrl-C.
env --default-signal=INT "${any[@]}" --time 30s h02 h03 h04 >"$work/out" 2>"$work/err" &
measuring=$!
until_true 60 grep -q "round 1" "$work/err"
until_true 30 probe_pids
# Somebody else who measures them meanwhile is refused.
expect 3 "${pairs[@]}" h02 h03 h04
has err "it is being measured already"
kill -INT "$measuring"
wait "$measuring"
[ $? -eq 130 ] || fail "Ctrl-C was not what ended it"
until_true 20 no_probe
expect 0 "$MUSTER" cancel long --wait

# ---- a job that begins on a measured node has it at once, and the node is not blamed
"${any[@]}" --time 10s --target sandbox >"$work/out" 2>"$work/err" &
measuring=$!
until_true 60 grep -q "round 1" "$work/err"
until_true 30 probe_pids
begin_long_job early "$lab" sandbox h01
wait "$measuring"
code=$?
[ "$code" -eq 3 ] || { cat "$work/out"; fail "it ended with $code"; }
has out "skipped: h01: job early"
! grep -qE "(slow|no result): node" "$work/out" || { cat "$work/out"; fail "a node is blamed"; }
expect 0 "$MUSTER" cancel early --wait
exit 0
