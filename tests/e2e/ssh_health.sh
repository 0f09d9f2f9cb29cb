#!/usr/bin/env bash
# Hosts over ssh: a job leaves the one whose GPU breaks for its spare, and computes the same as if
# nothing had been.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
command -v mpirun >/dev/null || skip "needs Open MPI"
command -v python3 >/dev/null || skip "needs python3"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 1 --dir "$cluster_dir" >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
"$MUSTER" sandbox down --dir "$cluster_dir" >/dev/null 2>&1
"$(dirname "$0")/../../scripts/spare-drill" >"$work/out" 2>"$work/err" \
  || { cat "$work/out" "$work/err"; fail "a goal was missed"; }
cat "$work/out"
