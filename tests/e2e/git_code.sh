#!/usr/bin/env bash
# Code from a git repository: the commit is fetched where the job is submitted, runs on the node,
# and is what `lineage` and `diff` tell. Hostile addresses run nothing.
. "$(dirname "$0")/harness.sh"
command -v git >/dev/null || skip "no git"

export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t \
  GIT_COMMITTER_EMAIL=t@t
git init -q -b main "$work/source"
echo 'echo "version one in $(basename "$PWD")"' >"$work/source/train.sh"
git -C "$work/source" add . && git -C "$work/source" commit -q -m one
git -C "$work/source" tag v1
echo 'echo "version two in $(basename "$PWD")"' >"$work/source/train.sh"
git -C "$work/source" commit -q -a -m two
git clone -q --bare "$work/source" "$work/bare.git"
first=$(git -C "$work/bare.git" rev-parse v1)

job_file git.yml <<YAML
command: bash train.sh
code: git+file://$work/bare.git@v1
YAML
expect 0 "$MUSTER" run "$work/git.yml" --name first
has out "version one in code"
has err "code: commit $first"
expect 0 "$MUSTER" run "$work/git.yml" --name second --set "code=git+file://$work/bare.git"
has out "version two in code"
expect 0 "$MUSTER" lineage first -o json
has out "\"commit\": \"$first\""
expect 0 "$MUSTER" diff first second
has out "code.commit"
has out "code.tree"

for place in "ext::touch% $work/ran" "--upload-pack=touch $work/ran" \
  "https://me:secret@localhost/a" "file://$work/nowhere" "file://$work/bare.git@nowhere" \
  "file://$work/bare.git@--output=$work/ran"; do
  expect 90 "$MUSTER" run "$work/git.yml" --name third --set "code=git+$place"
  has err "cannot clone the code: "
done
[ ! -e "$work/ran" ] || fail "a hostile address ran a program"
expect 1 "$MUSTER" status third
