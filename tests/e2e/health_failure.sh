#!/usr/bin/env bash
# `health: {failure: full}`: where an attempt failed the next one's gate measures, and a node that
# does not meet its floor is done without; `failure: quick` measures nothing.
. "$(dirname "$0")/harness.sh"

cat >"$work/lab.yml" <<'YAML'
default: lab
compute:
  lab:
    transport: local
    nodes: [here, there]
    health:
      profile: site
      floors: {cpu_gemm_gflops: 1000000000}
      checks: {perf.*: {mode: enforce}}
      required: [perf.cpu]
YAML
for failure in full quick; do
  job_file "$failure.yml" <<YAML
command: |
  test "\$MUSTER_ATTEMPT" -ge 1 || kill -9 \$\$
compute: lab
muster: {health: {failure: $failure}, nodes: {spares: 1, wait: 1s}, restart: {delay: 0}}
YAML
done
node_of() {  # node_of JOB ATTEMPT
  "$MUSTER" status "$1" -o tsv --query "attempts[$2].nodes[0]"
}
is() { [ "$1" = "$2" ] || fail "'$1' is not '$2'"; }

expect 0 "$MUSTER" plan "$work/full.yml" --cluster "$work/lab.yml"
has err "after an attempt that failed its nodes are measured before the next: cpu: about 5.0s"
expect 0 "$MUSTER" plan "$work/quick.yml" --cluster "$work/lab.yml"
if grep -q "are measured" "$work/err"; then fail "quick measures"; fi

expect 0 "$MUSTER" run "$work/full.yml" --cluster "$work/lab.yml" --name full
is "$(node_of full 0)" here
is "$(node_of full 1)" there
expect 0 "$MUSTER" explain full
has out "perf.cpu"

expect 0 "$MUSTER" run "$work/quick.yml" --cluster "$work/lab.yml" --name quick
is "$(node_of quick 0)" here
is "$(node_of quick 1)" here
exit 0
