#!/usr/bin/env bash
# A checkout below /tmp: sandbox hosts have a /tmp of their own, and still see its programs. What is
# on the submitting host alone is named as that.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
case $work in /tmp/*) ;; *) skip "needs a folder below /tmp" ;; esac

checkout="$work/muster"
mkdir -p "$checkout/build/bin" "$work/venv/bin"
touch "$checkout/CMakePresets.json"
cp "$MUSTER" "$MUSTER-sandbox" "$checkout/build/bin"
MUSTER="$checkout/build/bin/muster"
printf '#!/bin/sh\necho sister on "$(uname -n)"\n' >"$checkout/build/bin/sister"
printf '#!/bin/sh\necho venv\n' >"$work/venv/bin/python"
chmod 755 "$work" "$checkout/build/bin/sister" "$work/venv/bin/python"

cluster_dir="$work/box"
"$MUSTER" sandbox up --hosts 2 --user sandboxtmp --dir "$cluster_dir" >"$work/out" 2>"$work/err" \
  || { cat "$work/err"; skip "needs network namespaces"; }
has err "hosts have /tmp, /dev/shm and /home/sandboxtmp of their own"
has err "$checkout is shown there, read-only"

job_file sister.yml <<YAML
command: $checkout/build/bin/sister; touch $checkout/new || echo read-only
environment: azureml:host
compute: sandbox
resources: {instance_count: 2}
distribution: {type: pytorch}
YAML
expect 0 "$MUSTER" run "$work/sister.yml" --cluster "$cluster_dir/cluster.yml"
has out "sister on h02"
has out "read-only"
[ ! -e "$checkout/new" ] || fail "a host wrote into the checkout"

sed "s|command: .*|command: $work/venv/bin/python|" "$work/sister.yml" >"$work/venv.yml"
expect 127 "$MUSTER" run "$work/venv.yml" --name venv --cluster "$cluster_dir/cluster.yml" \
  --set muster.restart.attempts=0 --set muster.reschedule.attempts=0
has err "$work/venv/bin/python is not there on h0"
has err "it is here: put it on a shared folder or into \`code\`"
expect 0 "$MUSTER" explain --brief venv
has out "$work/venv/bin/python is not there on h0"
