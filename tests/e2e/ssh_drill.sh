#!/usr/bin/env bash
# A drill on hosts of its own: the network goes for a while, a host loses power and comes back.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
"$MUSTER" sandbox up --hosts 1 --dir "$work/probe" >/dev/null 2>"$work/err" \
  || { cat "$work/err"; skip "needs network namespaces"; }
"$MUSTER" sandbox down --dir "$work/probe"
expect 0 "$MUSTER" drill "$source/configs/drills/network.yml"
cat "$work/out"
has out passed
