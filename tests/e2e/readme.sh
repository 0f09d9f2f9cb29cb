#!/usr/bin/env bash
# What README.md and docs/ say is true of the program: verbs, options, links and files exist, the
# YAML is valid, what can run here ends with 0, and the run that README.md shows is what the program
# prints. MUSTER_UPDATE_GOLDEN=1 puts what it prints now into README.md.
. "$(dirname "$0")/harness.sh"
pages=("$source"/README.md "$source"/docs/*.md "$source"/{CONTRIBUTING,SECURITY}.md)
# Blocks of commands, without comments and redirections; with its page before each line.
awk 'FNR == 1 {on = 0} /^```/ {on = !on; is_text = $0 == "```"; next}
  on && is_text { sub(/^\$ /, ""); sub(/^sudo /, ""); sub(/ +[#>].*/, "") }
  on && is_text && /^muster(-sandbox)? [a-z]/ { print FILENAME "\t" $0 }' "${pages[@]}" |
  sort -u >"$work/commands"
# Between backticks inside sentences as well.
grep -oHE '`muster(-sandbox)? [a-z][^`]*`' "${pages[@]}" | sed 's/:`/\t/; s/`$//' >>"$work/commands"
[ "$(wc -l <"$work/commands")" -gt 100 ] || fail "too few commands are found"

help_of() {  # help_of COMMAND: the help of the verb, in $work/out
  local verb=() word program
  program=$(dirname "$MUSTER")/${1%% *}  # muster, or a program beside it
  for word in ${1#* }; do
    [[ $word =~ ^[a-z][a-z-]*$ ]] || break
    if ! "$program" "${verb[@]}" "$word" --help >"$work/deeper" 2>&1 </dev/null; then
      [ "${#verb[@]}" -gt 0 ] && break  # an argument
      fail "there is no verb: $1"
    fi
    verb+=("$word")
    cp "$work/deeper" "$work/out"
  done
}
while IFS=$'\t' read -r page command; do
  : >"$work/out"
  help_of "$command"
  for option in $(grep -oE -- ' (--[a-z-]+|-[a-z])\b' <<<"${command%% -- *}"); do
    grep -qE -- "(^|[ ,])$option([ ,=]|\$)" "$work/out" || fail "$page: '$command': no $option"
  done
done <"$work/commands"

for script in $(grep -ohE '\bscripts/[a-z-]+' "${pages[@]}" | sort -u); do
  [ -e "$source/$script" ] || fail "$script is not there"
done
folders='configs|docs|tests|launcher|runtime|scheduler|health|templates|cli'
for file in $(grep -ohE "\`($folders)/[^\` ]*\`" "${pages[@]}" | tr -d '`' | grep -v '[<*{]' |
  sort -u); do
  [ -e "$source/$file" ] || fail "$file is not there"
done
anchors_of() { sed -n 's/^#\+ //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'; }
for page in "${pages[@]}"; do
  for link in $(grep -oE '\]\([^)h][^)]*\)' "$page" | sed 's/^](//; s/)$//'); do
    target=${link%%#*}
    file=$page
    [ -z "$target" ] || file=$(dirname "$page")/$target
    [ -e "$file" ] || fail "$page: the link $link leads nowhere"
    [[ $link != *'#'* ]] || anchors_of "$file" | grep -qxF "${link#*#}" ||
      fail "$page: the link $link: no such heading"
  done
done

# ---- the YAML: jobs, cluster files, parts of them, profiles; pipelines are run by ci.sh
awk -v out="$work/block" 'FNR == 1 {on = 0} /^```yaml/ {n++; on = 1; next} /^```/ {on = 0}
  on {print > (out n ".yml")}' "${pages[@]}"
mkdir "$work/src"
printf 'default: lab\ncompute: {lab: {nodes: "n[01-04]"}}\n' >"$work/lab.yml"
jobs=0
for block in "$work"/block*.yml; do
  case $(grep -vm1 '^#' "$block") in
    command:*)
      expect 0 "$MUSTER" validate --cluster "$work/lab.yml" "$block"
      if grep warning: "$work/err" | grep -v "is not on this machine"; then
        fail "an example with a warning"
      fi
      jobs=$((jobs + 1)) ;;
    default:*|policy:*) expect 0 "$MUSTER" validate "$block" ;;
    profile:*) expect 0 "$MUSTER" health checks --profile "$block" ;;
    remedies:*)
      { printf 'compute:\n  lab:\n    nodes: n[01-04]\n'; sed 's/^/    /' "$block"; } >"$work/r.yml"
      expect 0 "$MUSTER" validate "$work/r.yml" ;;
    muster:*)
      { printf 'command: python train.py\nenvironment: azureml:host\n'
        cat "$block"; } >"$work/m.yml"
      expect 0 "$MUSTER" validate --cluster "$work/lab.yml" "$work/m.yml" ;;
    name:*|train:*) ;;
    *) cat "$block"; fail "a block of YAML that nothing checks" ;;
  esac
done
[ "$jobs" -gt 0 ] || fail "no job among the examples"

# The examples beside them are valid too, and every starter.
expect 0 "$MUSTER" validate "$source"/configs/{mpi-hello,pytorch-ddp}.yml
for starter in $("$MUSTER" init | awk "NR > 1 {print \$1}"); do
  expect 0 "$MUSTER" init "$starter"
  cp "$work/out" "$work/starter.yml"
  expect 0 "$MUSTER" validate "$work/starter.yml"
done

# ---- the run of README.md, with the numbers of another time and machine
trainer="inputs.muster_train.path=${MUSTER_TRAIN:?the muster-train executable}"
"$MUSTER" run "$source/configs/quickstart.yml" --set "$trainer" --name quickstart \
  >"$work/told" 2>&1 </dev/null || { cat "$work/told"; fail "the quickstart"; }
run_of() { awk '/^\$ muster run/ {on = 1; next} /^```/ {on = 0} on' "$source/README.md"; }
# Everything that muster says; of the ranks' output what shows where they are.
excerpt() {
  sed "s|$MUSTER_HOME|~/.local/state/muster|" "$work/told" | awk '
    /^muster: / || /^0: (muster-train:|resumed from|wrote)/ ||
    /^0: (step (30|80)\/|checkpoint s0000000(30|80)-g[0-9],)/ { print; is_cut = 0; next }
    !is_cut { print "…"; is_cut = 1 }'
}
if [ -n "${MUSTER_UPDATE_GOLDEN:-}" ]; then
  excerpt >"$work/excerpt"
  awk -v excerpt="$work/excerpt" '
    /^\$ muster run/ { print; while ((getline line <excerpt) > 0) print line; is_old = 1; next }
    /^```/ { is_old = 0 }
    !is_old' "$source/README.md" >"$work/new"
  cat "$work/new" >"$source/README.md"
fi
without_numbers() { grep '^muster: ' | sed -E 's/[0-9]+(\.[0-9]+)?/N/g' | sort -u; }
excerpt | without_numbers >"$work/says"
run_of | without_numbers >"$work/shows"
diff "$work/shows" "$work/says" || fail "README.md shows another run than this one"

# ---- the commands that can run here, on that job
cd "$work" || exit 1
mkdir bin && ln -s "$MUSTER" bin/muster && PATH="$work/bin:$PATH"
cp "$source/configs/policy.yml" .
printf 'command: echo done\nenvironment: azureml:host\ncompute: local\n' >job.yml
echo "CUDA out of memory" >rank-0.log
runs=0
cut -f2 commands | grep -E '^muster [a-z]' | grep -vE '^muster [a-z]+$' | sed -E '
  s/\[FILE\|JOB\]|\[JOB\]//; s/\b(JOB|SUBJECT)\b/quickstart/
  s/NODE/local-0/; s/FILE/job.yml/; s/…/test/' | sort -u >runnable
able='validate|plan|run|submit|status|explain|logs|list|nodes|drain|undrain|download|clean'
able+='|policy|completion|checkpoint (list|show|verify)|health (checks|profiles)'
while read -r command; do
  [[ $command =~ ^muster\ ($able)\ . ]] || continue
  [[ $command =~ TARGET|NAME|--(watch|experiment|tag)|configs/ ]] && continue
  [[ $command =~ \ -f$|verify$|run\ --profile$ ]] && continue
  expect 0 bash -c "$command"
  runs=$((runs + 1))
done <runnable
[ "$runs" -gt 15 ] || { cat runnable; fail "only $runs commands were run"; }
