#!/usr/bin/env bash
# What is called a file and is none ends at once with a sentence: nobody waits for the other end of
# a FIFO. Holes of files stay holes on their way to a job and back.
. "$(dirname "$0")/harness.sh"

fifo="$work/fifo.yml"
mkfifo "$fifo"
within() { timeout 10 "$@"; }
refused() {  # refused CODE WORDS COMMAND…
  local code=$1 words=$2; shift 2
  expect "$code" within "$@"
  has err "$words"
}
job_file true.yml <<'YAML'
command: "true"
YAML
for verb in validate plan run submit; do
  refused 90 "it is a named pipe, not a file" "$MUSTER" $verb "$fifo"
  refused 90 "it is a device, not a file" "$MUSTER" $verb /dev/zero
done
refused 90 "it is a named pipe" "$MUSTER" run "$work/true.yml" --cluster "$fifo"
refused 90 "it is a named pipe" "$MUSTER" drill "$fifo"
refused 90 "it is a named pipe" "$MUSTER" policy show "$fifo"
refused 1 "it is a named pipe" "$MUSTER" policy test --log "$fifo"
refused 90 "it is a named pipe" "$MUSTER" health --profile "$fifo"
# A pipe that a shell has opened, and has its writer, is as good as a file.
expect 0 within "$MUSTER" validate <(printf 'command: "true"\n')

# In the code of a job a pipe is left out; as an input it is refused.
mkdir "$work/code" && cp "$work/true.yml" "$work/code/kept" && mkfifo "$work/code/pipe"
job_file code.yml <<YAML
command: ls code | sort | tr '\n' ' '
code: $work/code
YAML
expect 0 within "$MUSTER" run "$work/code.yml" --name code
has err "'$work/code/pipe' is skipped: it is neither a file nor a directory"
job_file input.yml <<YAML
command: "true"
inputs: {data: {type: uri_file, path: $fifo, mode: download}}
YAML
refused 99 "is neither a file nor a directory" "$MUSTER" run "$work/input.yml"

# 256 MiB of which 8 KiB are data, as an input that is copied and as an output.
truncate -s 256M "$work/sparse"
printf 'first' | dd of="$work/sparse" conv=notrunc status=none
printf 'last' | dd of="$work/sparse" bs=1 seek=200000000 conv=notrunc status=none
job_file sparse.yml <<YAML
command: cp --sparse=always \${{inputs.data}} \${{outputs.copy}}/file
inputs: {data: {type: uri_file, path: $work/sparse, mode: download}}
outputs: {copy: {type: uri_folder}}
YAML
expect 0 "$MUSTER" run "$work/sparse.yml" --name sparse
copy=$(find "$MUSTER_HOME/jobs/sparse/outputs" -type f -name file)
cmp "$work/sparse" "$copy" || fail "the copy differs"
taken_kib() { du -sk "$1" | cut -f1; }
[ "$(taken_kib "$copy")" -lt 4096 ] || fail "the output takes $(taken_kib "$copy") KiB"
[ "$(taken_kib "$MUSTER_HOME")" -lt 65536 ] || fail "$(du -k "$MUSTER_HOME" | sort -n | tail -n 5)"
