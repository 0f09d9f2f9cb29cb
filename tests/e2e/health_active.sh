#!/usr/bin/env bash
# `muster health active`, `learn --measure` and `fabric` on this machine: probes that run, floors
# that are met and not, a host that is not idle, fabric tools that are scripts, hang or are absent.
. "$(dirname "$0")/harness.sh"

command -v stress-ng >/dev/null || skip "no stress-ng"

# Of a busy host only a pass is believed: what is found wrong needs a quiet moment.
is_idle() {
  "$MUSTER" health active --forget --only cpu --profile "$work/site.yml" >/dev/null 2>"$work/idle"
  ! grep -q 'is not idle' "$work/idle"
}

# ---- probes
active=("$MUSTER" health active --only cpu --profile "$work/site.yml")
printf 'profile: site\nfloors: {cpu_gemm_gflops: 0.01}\n' >"$work/site.yml"
expect 0 "${active[@]}" --force
has err "measures cpu: about 5.0s, 30s at most"
has out "cpu_gemm_gflops"
has out "1 check passed, 0 failed, 0 unknown"
for _ in {1..20}; do
  if is_idle; then break; fi
done
if is_idle; then
  cat >"$work/site.yml" <<'YAML'
profile: site
floors: {cpu_gemm_gflops: 1000000000}
checks: {perf.cpu: {mode: enforce}}
YAML
  expect 1 "${active[@]}" -o json --query 'figures[0].metric'
  has out '"cpu_gemm_gflops"'
  # It stands for `muster health` as well, until it passed.
  expect 1 "$MUSTER" health --profile "$work/site.yml" --check 'perf.*' --quick
  has out "unavailable: muster:node:perf.cpu"
  expect 2 "${active[@]}" --forget -o nagios
  has out "MUSTER CRITICAL - perf.cpu"
else
  echo "skipped: this machine is not idle"
fi
printf 'profile: site\nfloors: {p2p_gb_per_s: 300}\nrequired: [perf.p2p]\n' >"$work/site.yml"
expect 3 "$MUSTER" health active --force --forget --profile "$work/site.yml"
has out "perf.p2p"
expect 2 "$MUSTER" health active --only gpu-per
has err "did you mean 'gpu-peer'?"
expect 2 "$MUSTER" health active --only disk
has err "--disk names where"
printf 'profile: site\n' >"$work/site.yml"
expect 3 "$MUSTER" health active --profile "$work/site.yml"
has err "nothing was measured"
expect 2 "$MUSTER" health active --burn-minutes 121
has err "--burn-minutes: expected 1 to 120, got 121"
expect 2 "$MUSTER" health active --gate --burn-minutes 1
# All processors of this machine compute what they should.
expect 0 "$MUSTER" health active --force --forget --only cpu-sdc --profile "$work/site.yml"
has out "cpu_sdc_wrong_products"
has out "1 check passed, 0 failed, 0 unknown"
# Nobody waits for a long load: ended, it takes its processes with it.
"$MUSTER" health active --force --forget --only cpu --burn-minutes 5 --profile "$work/site.yml" &
loading=$!
loads() { probe=$(pgrep -P "$loading" -f 'agent probe cpu-sdc'); }
is_gone() { [ ! -e "/proc/$probe" ] || grep -q '^State:.*Z' "/proc/$probe/status"; }
until_true 60 loads
kill "$loading"
wait "$loading" || true
until_true 10 is_gone
# A tool that is not installed is named with its package, and is no pass.
mkdir "$work/few"
for tool in sh env sleep; do ln -s "$(command -v $tool)" "$work/few/"; done
expect 3 env PATH="$work/few" "$MUSTER" health active --force --forget --only cpu \
  --profile "$work/site.yml"
has out "stress-ng is not installed (package stress-ng)"
if command -v fio >/dev/null; then
  expect 0 "$MUSTER" health active --force --forget --only disk --disk "$PWD" \
    --profile "$work/site.yml" -o json
  grep -q '"fio_write_mb_per_s"' "$work/out" || fail "no figure of the disk"
fi
env MUSTER_JOB=busy sleep 60 &
rank=$!
until_true 10 grep -qa MUSTER_JOB=busy "/proc/$rank/environ"
expect 3 "$MUSTER" health active --only cpu --profile "$work/site.yml"
has err "this host is not idle: job "
kill "$rank"
expect 2 "$MUSTER" health learn --measure --root "$work"

# ---- fabric tools
mkdir "$work/tools"
tool() { # NAME: a script from stdin
  { echo '#!/bin/sh'; cat; } >"$work/tools/$1"
  chmod +x "$work/tools/$1"
}
link() { # GUID NAME LID PORT GUID NAME LID PORT
  printf '%s "%s" %s %s[  ] ==( 4X        53.125 Gbps ' "$1" "$2" "$3" "$4"
  printf 'Active/  LinkUp)==>  %s %s %s[  ] "%s" ( )\n' "$5" "$7" "$8" "$6"
}
{
  link 0x0000000000100005 'n2 mlx5_0' 6 1 0x0000000000200000 leaf1 2 3
  link 0x0000000000200000 leaf1 2 3 0x0000000000100005 'n2 mlx5_0' 6 1
} >"$work/links"
cat >"$work/adapters" <<'TEXT'
CA     6  1 0x0000000000100005 4x HDR - SW     2  3 0x0000000000200000 ( 'n2 mlx5_0' - 'leaf1' )
SW     2  3 0x0000000000200000 4x HDR - CA     6  1 0x0000000000100005 ( 'leaf1' - 'n2 mlx5_0' )
TEXT
counters() { # SYMBOL_ERRORS
  cat >"$work/counters" <<TEXT
Errors for "n2 mlx5_0"
   GUID 0x100005 port 1: [SymbolErrorCounter == $1]

## Summary: 2 nodes checked, 1 bad nodes found
## Thresholds:
## Suppressed:
TEXT
}
counters 4000
echo "cat $work/links" | tool iblinkinfo
echo "cat $work/adapters" | tool ibnetdiscover
echo "cat $work/counters; exit 1" | tool ibqueryerrors
tool sminfo <<'SH'
echo 'sminfo: sm lid 1 sm guid 0x100001, activity count 170 priority 0 state 3 SMINFO_MASTER'
SH
fabric=(env PATH="$work/tools:$PATH" "$MUSTER" health fabric)
expect 0 "${fabric[@]}" --save-golden "$work/golden"
has err "2 nodes"
expect 2 "${fabric[@]}" --save-golden "$work/golden"
expect 0 "${fabric[@]}" --golden "$work/golden"
has out "counters read for the first time"
has out "nothing in the fabric keeps jobs from its 1 host"
counters 4131
sleep 1
expect 0 "${fabric[@]}" --golden "$work/golden"
has out "SymbolErrorCounter +131"
expect 1 "${fabric[@]}" -o nagios
has out "MUSTER WARNING - fab.errors n2 mlx5_0:1 131"
[ -n "$(find "$MUSTER_HOME" -name 'fabric-*.state')" ] || fail "nothing was remembered"

cat >"$work/site.yml" <<'YAML'
profile: site
ib: {rate_gbps: 400}
checks: {fab.links: {mode: enforce}}
YAML
expect 3 "${fabric[@]}" --profile "$work/site.yml" --quick --forget
expect 1 "${fabric[@]}" --profile "$work/site.yml"
has out "1 host unavailable: n2"
expect 1 "${fabric[@]}" --profile "$work/site.yml" --quick -o json --query hosts.n2.reason
has out '"muster:node:fab.links:mlx5_0:1 '
expect 1 "${fabric[@]}" --profile "$work/site.yml" --quick -o jsonl
has out '"host":"n2"'
echo "true" | tool ibnetdiscover
expect 99 "${fabric[@]}" --save-golden "$work/other"

echo "exec sleep 60" | tool sminfo
began=$SECONDS
expect 3 "${fabric[@]}" --check fab.sm --deadline 1s
has out "no answer within 1000 ms, twice"
has out "nothing is known of the fabric"
[ $((SECONDS - began)) -le 15 ] || fail "a hanging tool took $((SECONDS - began)) s"
if ! [ -e /usr/sbin/iblinkinfo ] && ! [ -e /sbin/iblinkinfo ]; then
  rm "$work/tools/iblinkinfo"
  expect 3 "${fabric[@]}" --check fab.links
  has out "infiniband-diags"
fi
expect 2 "${fabric[@]}" --check ib.state
has err "no check of the fabric is called 'ib.state'"
expect 2 "${fabric[@]}" --hca 'mlx5_0:x'
expect 90 "${fabric[@]}" --golden "$work/counters"
exit 0
