#!/usr/bin/env bash
# `health: {start: full}`: a node that does not meet a floor of its profile gets no job, one that
# does gets it, and neither is measured twice; and `muster health active NODE…` on the same node.
. "$(dirname "$0")/harness.sh"
command -v stress-ng >/dev/null || skip "no stress-ng"

lab() {  # lab FLOOR: a node that is this host
  cat >"$work/lab.yml" <<YAML
default: lab
compute:
  lab:
    transport: local
    nodes: [here]
    health: {profile: site, floors: {cpu_gemm_gflops: $1}, checks: {perf.*: {mode: enforce}}}
YAML
}
job_file job.yml <<'YAML'
command: echo begun
compute: lab
muster: {health: {start: full}, nodes: {wait: 1s}}
YAML

# ---- said beforehand
lab 0.01
expect 0 "$MUSTER" plan "$work/job.yml" --cluster "$work/lab.yml"
has err "each node is measured, unless it was in the last 12 h: cpu: about 5.0s, 30s at most"
sed 's/floors: {[^}]*}, //' "$work/lab.yml" >"$work/bare.yml"
expect 0 "$MUSTER" validate "$work/job.yml" --cluster "$work/bare.yml"
has err "warning: muster.health.start: full adds nothing to quick"

# ---- a floor that is met
start() {  # start NAME CODE
  expect "$2" "$MUSTER" run "$work/job.yml" --cluster "$work/lab.yml" --name "$1"
}
figures() { cat "$MUSTER_HOME"/nodes/run/*/*/measured.json 2>/dev/null; }
# Not beside ranks, of whatever else is tested on this machine.
for try in {1..30}; do
  start "fast-$try" 0
  [ "$(cat "$MUSTER_HOME/jobs/fast-$try/attempt-0/rank-0.log")" = begun ] || fail "it did not run"
  if figures | grep -q '"cpu_gemm_gflops"'; then break; fi
  grep -qs "not measured .* runs here" "$MUSTER_HOME"/nodes/run/*/*/agent.log \
    || fail "it was not measured"
  sleep 1
done
figures | grep -q '"cpu_gemm_gflops"' || skip "ranks run on this machine all the time"
before=$(figures)
start again 0
[ "$(figures)" = "$before" ] || fail "it was measured again"

# ---- one that is not, by what is known of the node
lab 1000000000
start slow 91
has err "perf.cpu: cpu_gemm_gflops"
has err "expected >= 1e+09 GFLOP/s"
sed 's/start: full/start: quick/' "$work/job.yml" >"$work/quick.yml"
expect 0 "$MUSTER" run "$work/quick.yml" --cluster "$work/lab.yml" --name quick

# ---- measured on demand
active=("$MUSTER" health active --cluster "$work/lab.yml")
expect 2 "${active[@]}" ther
expect 2 "${active[@]}" here --force
has err "--force is for this host, not for nodes"
expect 2 "${active[@]}" here --only gpu-per
expect 2 "${active[@]}" here --only disk
"${active[@]}" here >"$work/out" 2>"$work/err" </dev/null
code=$?
has err "measures 1 node of lab, side by side: cpu: about 5.0s, 30s at most"
if grep -q "not idle" "$work/out"; then
  [ "$code" -eq 3 ] || fail "a busy node ended with $code"
  has out "not started: this host is not idle"
  echo "skipped: this machine is not idle"
else
  [ "$code" -eq 1 ] || { cat "$work/out"; fail "a slow node ended with $code"; }
  has out "cpu_gemm_gflops"
  has out "1 drained (here)"
fi
begin_long_job long "$work/lab.yml" lab here
expect 3 "${active[@]}" --target lab
has out "not started: job long holds it"
has out "1 unclear (here)"
expect 3 "${active[@]}" here -o nagios
has out "MUSTER UNKNOWN"
[ "$("$MUSTER" status long -o tsv --query status)" = Running ] || fail "the job was disturbed"
expect 0 "$MUSTER" cancel long --wait
exit 0
