#!/usr/bin/env bash
# `muster checkpoint` on what muster-train wrote: listed, shown, read whole, damaged in every way,
# set aside, released, pinned, and resumed from.
. "$(dirname "$0")/harness.sh"
: "${MUSTER_TRAIN:?the muster-train executable}"
export OMP_NUM_THREADS=1

ckpt="$work/ckpt"
train() {  # train STEPS OPTION…
  "$MUSTER_TRAIN" --data "$source/tests/e2e" --layers 1 --width 32 --heads 2 --context 32 \
    --steps "$1" --checkpoint-every 5 --checkpoint-dir "$ckpt" --out "$work/trained" \
    "${@:2}" >"$work/train" 2>&1 || { cat "$work/train"; fail "muster-train"; }
}
verb() { local code=$1; shift; expect "$code" "$MUSTER" checkpoint "$@"; }
flip() {  # flip FILE OFFSET: another byte there
  local byte; byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\$(printf '%03o' $((byte ^ 32)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

train 20 --keep 10
shard="shard-00000-of-00001.safetensors"
at() { printf '%s/s%09d-g%d' "$ckpt" "$1" "${2:-1}"; }

verb 0 list "$ckpt" -o tsv --query '[].{name: name, state: state, newest: newest}'
[ "$(head -1 "$work/out")" = "$(printf 's000000020-g1\tVALID\ttrue')" ] \
  || fail "$(cat "$work/out")"
[ "$(wc -l <"$work/out")" -eq 4 ] || fail "$(cat "$work/out")"
verb 0 list "$ckpt"
has out "newest usable"
verb 0 show "$ckpt@10" -o json --query '{step: step, heads: options.heads, cursor: data.cursor}'
has out '"step": 10'
has out '"heads": "2"'
has out '"cursor": 160'
verb 0 show "$ckpt"
has out "step: 20"
has out "width: 32"
has out "name: h.0.attn.c_attn.weight"
verb 0 verify "$ckpt" --all
[ "$(grep -c good "$work/out")" -eq 4 ] || fail "$(cat "$work/out")"
has err "MB/s"
verb 0 verify "$(at 5)/" -o json
has out '"result": "good"'

# One byte: named with its file and chunk. Without --all only the newest counts.
flip "$(at 10)/$shard" 5000
verb 0 verify "$ckpt"
verb 1 verify "$ckpt" --all
has out "$shard: bytes 0 to "
has out "(chunk 0)"
[ "$(grep -c good "$work/out")" -eq 3 ] || fail "$(cat "$work/out")"
verb 1 verify "$ckpt@10" -o json --query '[0].damage[0].file'
has out "$shard"
flip "$(at 10)/$shard" 5000
verb 0 verify "$ckpt" --all

# A file that ends early: the newest is damaged, and said to be so.
cp "$(at 20)/$shard" "$work/kept"
truncate -s 100000 "$(at 20)/$shard"
verb 1 verify "$ckpt"
has out "$shard at byte 100000: ends here"
verb 0 list "$ckpt"
has out "CORRUPT"
grep -q '^s000000015-g1 .*newest usable' "$work/out" || fail "$(cat "$work/out")"
verb 1 export "$(at 20)" --out "$work/never"
has err "has 100000 bytes"
[ ! -e "$work/never" ] && [ ! -e "$work/never.partial" ] || fail "half an export is left"
cp "$work/kept" "$(at 20)/$shard"

# Without its manifest it is none; asked for by its path it is bad.
mv "$(at 15)/manifest.json" "$work/manifest"
verb 1 verify "$(at 15)"
has out "manifest.json at byte 0"
verb 1 verify "$ckpt" --all
verb 0 list "$ckpt"
has out "INCOMPLETE"
verb 1 show "$ckpt@15"
mv "$work/manifest" "$(at 15)/manifest.json"

# Set aside: a resume takes the one before; released, it is taken again.
verb 2 quarantine "$ckpt@20"
verb 1 quarantine "$ckpt" --reason "which?"
has err "name one checkpoint"
verb 0 quarantine "$ckpt@20" --reason "the loss looked odd"
has err "s000000020-g1 is quarantined"
grep -q '"quarantine":"s000000020-g1"' "$ckpt/resume_log.jsonl" || fail "not in the log"
grep -q 'the loss looked odd' "$(at 20)/cert.json" || fail "not in the certificate"
verb 0 list "$ckpt"
grep -q '^s000000020-g1 .*QUARANTINED.*is quarantined: manual: the loss looked odd' "$work/out" \
  || fail "$(cat "$work/out")"
train 17 --resume auto --keep 10
grep -q "at step 15" "$work/train" || { cat "$work/train"; fail "it resumed from elsewhere"; }
verb 1 release "$ckpt@15" --reason "it is fine"
has err "is not quarantined"
verb 0 release "$(at 20)" --reason "the loss was fine"
verb 0 list "$ckpt"
grep -q '^s000000020-g1 .*a later generation began' "$work/out" || fail "$(cat "$work/out")"

# Pinned: retention goes by. An export needs a new or empty directory.
verb 0 pin "$ckpt@5" --reason "for the paper"
verb 0 show "$ckpt@5"
has out 'pin_reason: "for the paper"'
train 30 --resume auto --keep 2
[ -d "$(at 5)" ] && [ ! -d "$(at 10)" ] || { ls "$ckpt"; fail "retention"; }
verb 0 unpin "$ckpt@5"
verb 1 unpin "$ckpt@5"
verb 0 export "$ckpt" --out "$work/model" --sha256
(cd "$work/model" && sha256sum --quiet -c SHA256SUMS) || fail "sums"
has out "model.safetensors"
verb 1 export "$ckpt" --out "$work/model"
has err "is not empty"
verb 2 export "$ckpt" --out "$work/other" --shard-size 5QB
verb 2 export "$ckpt" --out "$work/other" --format onnx --shard-size 5MB
verb 2 export "$ckpt" --out "$work/other" --external-data

verb 1 list "$work/gone"
has err "no such directory"
verb 1 verify "$ckpt@999"
has err "holds no checkpoint of step 999"
verb 1 show no_such_job
has err "not found"

# By the name of a job.
job_file job.yml <<YAML
command: >-
  $MUSTER_TRAIN --data $source/tests/e2e --layers 1 --width 32 --heads 2 --context 32 --steps 6
  --checkpoint-every 3 --out $work/jobout
YAML
expect 0 "$MUSTER" run "$work/job.yml" --name saver
verb 0 verify saver --all
[ "$(grep -c good "$work/out")" -eq 2 ] || fail "$(cat "$work/out")"
verb 0 show save@3 -o json --query step
has out 3
