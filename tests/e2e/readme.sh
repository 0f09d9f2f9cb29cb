#!/usr/bin/env bash
# What the README says exists: its verbs, its scripts, its job file, its exit codes.
. "$(dirname "$0")/harness.sh"
readme="$source/README.md"

awk '/^```/ {on = !on; next} on' "$readme" >"$work/commands"  # sentences may begin with muster too
for verb in $(grep -oE '^muster [a-z]+' "$work/commands" | cut -d' ' -f2 | sort -u); do
  expect 0 "$MUSTER" "$verb" --help
done
expect 0 "$MUSTER" --help
has out "  controller "
for script in $(grep -oE '^scripts/[a-z-]+' "$work/commands" | sort -u); do
  [ -x "$source/$script" ] || fail "$script is not there"
done

# The YAML blocks are a job and the cluster file that it names; `code` is the reader's.
awk -v out="$work/block" '/^```yaml/ {n++; on = 1; next} /^```/ {on = 0} on {print > (out n)}' \
  "$readme"
mv "$work/block1" "$work/job.yml"
mkdir "$work/src"
expect 0 "$MUSTER" validate --cluster "$work/block2" "$work/job.yml"
if grep -q "is not used" "$work/err"; then cat "$work/err"; fail "an example with a warning"; fi

# The next one is what a target says of remedies, the last a health profile.
printf 'compute:\n  lab:\n    nodes: n[01-04]\n' >"$work/lab.yml"
sed 's/^/    /' "$work/block3" >>"$work/lab.yml"
expect 0 "$MUSTER" validate --cluster "$work/lab.yml" "$source/configs/quickstart.yml"
expect 0 "$MUSTER" health checks --profile "$work/block4"

# The examples beside it are valid too, and every starter.
expect 0 "$MUSTER" validate "$source"/configs/{quickstart,mpi-hello,pytorch-ddp,elastic}.yml
for starter in $("$MUSTER" init | awk "NR > 1 {print \$1}"); do
  expect 0 "$MUSTER" init "$starter"
  cp "$work/out" "$work/starter.yml"
  expect 0 "$MUSTER" validate "$work/starter.yml"
done

# A state directory that is not there yet is made.
expect 0 "$MUSTER" nodes
