#!/usr/bin/env bash
# Standard streams that are closed, full or gone, and texts that would like to rule the terminal.
. "$(dirname "$0")/harness.sh"

job_file say.yml <<'YAML'
command: seq 1 50000
environment: azureml:host
YAML
expect 0 "$MUSTER" run "$work/say.yml" --name say

# A result that cannot be written is an error; one that nobody reads any more is a quiet end.
for verb in version list "status say" "explain say" "logs say" "list -o json" \
  "run $work/say.yml"; do
  "$MUSTER" $verb >/dev/full 2>"$work/err" </dev/null; [ $? -eq 99 ] || fail "full: $verb"
  has err "No space left on device"
  "$MUSTER" $verb >&- 2>"$work/err" </dev/null; [ $? -eq 99 ] || fail "closed: $verb"
  has err "cannot write to standard output"
  "$MUSTER" $verb 2>"$work/err" </dev/null | true
  case ${PIPESTATUS[0]} in 0 | 141) ;; *) fail "no reader: $verb" ;; esac
  if grep -qiE "broken pipe|cannot write" "$work/err"; then fail "noise: $verb"; fi
done

# The job is queued all the same, and continues when nobody looks at it any more: both say so.
"$MUSTER" submit "$work/say.yml" --name unread >/dev/full 2>"$work/err"
[ $? -eq 99 ] || fail "submit"
has err "job unread was queued; come back with: muster logs -f unread"
expect 0 "$MUSTER" logs -f unread
job_file wait.yml <<'YAML'
command: echo begun; sleep 300
YAML
"$MUSTER" run "$work/wait.yml" --name left >"$work/out" 2>"$work/err" &
until_true 60 grep -qs begun "$work/out"
kill -TERM $!; wait $!; [ $? -eq 130 ] || fail "SIGTERM"
has err "job left continues; come back with: muster logs -f left"
expect 0 "$MUSTER" cancel left

# Messages that cannot be written change nothing, and no file of ours takes the place of a stream.
expect 2 sh -c '"$MUSTER" init nothing-like-this 2>/dev/full'
expect 0 sh -c '"$MUSTER" run "$0" 2>/dev/full' "$work/say.yml"
expect 0 sh -c '"$MUSTER" run "$0" 2>&-' "$work/say.yml"
expect 0 sh -c '"$MUSTER" run "$0" <&- 2>&-' "$work/say.yml"
[ "$(wc -l <"$work/out")" -eq 50000 ] || fail "output is missing"

# Names and texts of a job reach no terminal as control sequences; a rank's output is its own.
job_file texts.yml <<'YAML'
display_name: "a\e]0;title\a\nforged  line\x9b2J"
experiment_name: "b\e[2J"
tags: {"c\e[31m": "d\e[0m"}
command: printf 'out \033[31mred\n'; printf 'why \033]0;title\007\n' >&2; exit 3
environment: azureml:host
muster: {restart: {attempts: 0}}
YAML
"$MUSTER" run "$work/texts.yml" --name texts >"$work/out" 2>"$work/err"
[ $? -eq 3 ] || fail "the job ended otherwise"
grep -q "$(printf 'out \033\\[31mred')" "$work/out" || fail "output was changed"
for verb in "status texts" "status texts -o tsv" "status texts -o json" "status texts -o yaml" \
  list "explain texts" "plan $work/texts.yml" "validate $work/texts.yml"; do
  "$MUSTER" $verb >"$work/out" 2>&1
  if grep -qaP '\x1b|\xc2\x9b|\x07' "$work/out"; then fail "control characters: $verb"; fi
done
if "$MUSTER" status texts | grep -q '^forged'; then fail "a forged line"; fi
"$MUSTER" "$(printf 'ru\033[31mn')" 2>&1 | grep -q "$(printf '\033')" && fail "typed back"

# Every result is JSON.
command -v python3 >/dev/null || skip "needs python3"
for verb in list status "status texts" "explain texts" "plan $work/say.yml" version nodes \
  "validate $work/say.yml $work/absent.yml" "download texts -p $work/got" "job archive -n texts" \
  "job restore -n texts" "job update -n texts --set tags.x=y" "resume texts" \
  "drain local --reason x" "undrain local" "submit $work/absent.yml" "run $work/say.yml"; do
  "$MUSTER" $verb -o json >"$work/out" 2>"$work/err" </dev/null
  python3 -m json.tool "$work/out" >/dev/null 2>&1 || fail "no JSON: $verb"
done
[ "$("$MUSTER" -o tsv list --query "[?name=='say'].{n: name, s: status}")" = "say	Completed" ] \
  || fail "a query"
expect 2 "$MUSTER" list --query 'a['
