#!/usr/bin/env bash
# The rules a reader of this repository may rely on. Each prints what breaks it, as file:line: why,
# and fails when there was anything to print:
#
#   tests/lint/rules.sh RULE [ROOT]     one rule, on the tree at ROOT (default: this repository)
#   tests/lint/rules.sh list            the names of all rules
set -uo pipefail

readonly code_folders=(scheduler health templates runtime launcher cli tools)

# What may include what: `folder: folders`, on several lines where one is too short. Of the folders
# around a file the innermost one that is listed counts. All may include scheduler/text.
layers() {
  cat <<'TABLE'
scheduler/text: scheduler/text
scheduler/model: scheduler/model
scheduler/restart: scheduler
scheduler: scheduler
health: health scheduler/model
templates: templates scheduler/restart health scheduler/model
runtime/protocol: runtime/protocol
runtime/checkpoint: runtime/checkpoint runtime/protocol runtime/memory
runtime/export: runtime/export runtime/checkpoint runtime/protocol runtime/layer
runtime: runtime
launcher/os: launcher/os scheduler/model
launcher/wire: launcher/wire scheduler/model
launcher/staging: launcher/staging launcher/wire launcher/os scheduler/model
launcher/transport: launcher/transport launcher/os scheduler/model
launcher/relay: launcher/relay launcher/transport launcher/wire launcher/os scheduler/model
launcher/provision: launcher/provision launcher/transport launcher/wire scheduler
launcher/agent: launcher/agent launcher/wire launcher/staging scheduler/model health
launcher/agent: launcher/os runtime/protocol runtime/checkpoint
launcher/controller: launcher/controller launcher/wire launcher/staging launcher/transport
launcher/controller: launcher/os launcher/provision launcher/relay scheduler health
launcher/controller: runtime/protocol runtime/checkpoint
cli: cli launcher templates scheduler health runtime/protocol runtime/checkpoint
cli: runtime/export runtime/estimate
tools: tools cli launcher templates scheduler health runtime
tests: tests tools cli launcher templates scheduler health runtime
TABLE
}

# Libraries that stay in one place: `header prefix: folders`.
libraries() {
  cat <<'TABLE'
boost/asio: launcher cli tests
libssh2: launcher/transport tests
sqlite3: launcher/controller tests
openssl: launcher/staging launcher/transport runtime/protocol
spdlog: launcher cli
yaml-cpp: templates
re2: scheduler/restart
CLI: cli runtime
mpi.h: runtime
dnnl: runtime tests
liburing: runtime/checkpoint
nlohmann: health launcher cli tools runtime tests
TABLE
}

# Calls with a better way: `name replacement`.
banned_calls() {
  cat <<'TABLE'
system posix_spawn or fork and exec with an argv vector
popen posix_spawn or fork and exec with an argv vector
strcpy std::string
strcat std::string
sprintf std::snprintf, or std::to_string
vsprintf std::vsnprintf
gets std::getline
strtok std::string_view::find
atoi std::from_chars
atol std::from_chars
atof std::from_chars or std::stod with a check
rand a seeded std::mt19937_64
srand a seeded std::mt19937_64
tmpnam mkstemp or mkdtemp
mktemp mkstemp or mkdtemp
localtime localtime_r
gmtime gmtime_r
ctime strftime
asctime strftime
alloca std::vector or std::array
vfork posix_spawn
TABLE
}

cpp_files() { find "${code_folders[@]}" tests -name '*.h' -o -name '*.cpp' 2>/dev/null; }
text_files() {
  find . \( -path ./.git -o -path ./build -o -path ./out \) -prune -o -type f -print |
    sed 's|^\./||' |
    grep -E '\.(h|cpp|c|py|sh|yml|cmake)$|(^|/)CMakeLists\.txt$|^(scripts|\.ci)/'
}
read_files() { xargs -r -d '\n' "$@"; }

# ---- the rules

rule_layering() {
  cpp_files | read_files grep -nE '^#include "[^"]+"' /dev/null |
    sed -E 's/^([^:]+):([0-9]+):#include "([^"]+)".*/\1 \2 \3/' |
    awk -v table="$(layers)" '
      function below(path, folder) { return index(path, folder "/") == 1 }
      BEGIN {
        count = split(table, lines, "\n")
        for (i = 1; i <= count; i++) {
          split(lines[i], halves, ": ")
          names[i] = halves[1]
          allowed[halves[1]] = allowed[halves[1]] " " halves[2]
        }
      }
      {
        home = ""
        for (i = 1; i <= count; i++) {
          if (below($1, names[i]) && length(names[i]) > length(home)) home = names[i]
        }
        if (home == "") next
        n = split(allowed[home], folders, " ")
        fine = below($3, "scheduler/text")
        for (i = 1; i <= n; i++) if (below($3, folders[i])) fine = 1
        if (!fine) print $1 ":" $2 ": " home " may not include " $3
      }'
}

rule_libraries() {
  local prefix folders
  while IFS=: read -r prefix folders; do
    cpp_files | grep -vE "^($(echo $folders | tr ' ' '|'))/" |
      read_files grep -nE "^#include <$prefix" /dev/null |
      sed -E "s|^([^:]+:[0-9]+):.*|\1: <$prefix…> belongs in:$folders|"
  done < <(libraries)
}

# They cost every source that includes the header seconds of compile time.
rule_heavy_headers() {
  cpp_files | grep '\.h$' | grep -vxF 'launcher/wire/json_fields.h' |
    read_files grep -nE \
      '^#include <(CLI/|spdlog/|yaml-cpp/|boost/asio\.hpp|nlohmann/json\.hpp)' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):#include (<.*>).*/\1: \2 in a header of ours: include it in sources/'
}

rule_header_form() {
  local file
  while read -r file; do
    [[ $(head -c 2 "$file") == // ]] || echo "$file:1: a header opens with what it is"
    grep -qx '#pragma once' "$file" || echo "$file:1: no #pragma once"
  done < <(cpp_files | grep '\.h$')
}

rule_line_length() {
  text_files | grep -v '/golden/' |
    LC_ALL=C.UTF-8 read_files grep -nE '^.{101,}$' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):.*/\1: longer than 100 characters/'
}

rule_file_length() {
  text_files | read_files awk '
    FNR == 601 { print FILENAME ":601: longer than 600 lines: split it" }'
}

rule_orphan_sources() {
  local file folder
  while read -r file; do
    folder=$(dirname "$file")
    while [ ! -f "$folder/CMakeLists.txt" ] && [ "$folder" != . ]; do
      folder=$(dirname "$folder")
    done
    grep -qE "(^|[[:space:](])${file#"$folder"/}([[:space:])]|\$)" "$folder/CMakeLists.txt" ||
      echo "$file:1: no CMakeLists.txt builds it"
  done < <(cpp_files | grep '\.cpp$')
}

rule_orphan_headers() {
  local included
  included=$(cpp_files | read_files grep -hE '^ *#include "' | sed -E 's/.*"(.*)".*/\1/' | sort -u)
  cpp_files | grep '\.h$' | sort | comm -23 - <(echo "$included") |
    sed 's/$/:1: nothing includes it/'
}

rule_unregistered_tests() {
  local file folder
  while read -r file; do
    folder=$(dirname "$file")
    grep -qw "$(basename "$file" .sh)" "$folder/CMakeLists.txt" ||
      echo "$file:1: $folder/CMakeLists.txt does not run it"
  done < <(find tests -name '*.sh' ! -name harness.sh)
  while read -r file; do
    folder=$(dirname "$(dirname "$file")")
    grep -qw "$(basename "$(dirname "$file")")" "$folder/CMakeLists.txt" ||
      echo "$file:1: $folder/CMakeLists.txt does not add this folder"
  done < <(find tests -mindepth 2 -name CMakeLists.txt)
}

# Two types of one name in the flat namespace are one type to the linker, which says nothing.
# Types of an anonymous namespace, which belong to their source, may share a name.
rule_type_names() {
  find "${code_folders[@]}" -name '*.h' -o -name '*.cpp' 2>/dev/null | sort | read_files awk '
    FNR == 1 { anonymous = 0 }
    /^namespace \{/ { anonymous = 1 }
    /^\}  \/\/ namespace$/ { anonymous = 0 }
    anonymous || !/^(struct|class|enum class|enum|union) [A-Za-z_]+/ || /;$/ { next }
    {
      name = $0
      sub(/^(enum class|struct|class|enum|union) /, "", name)
      sub(/ final/, "", name)
      if (name ~ /^[A-Za-z_0-9]+(<|::)/) next  # a specialisation, a type inside another
      sub(/[^A-Za-z_0-9].*/, "", name)
      if (name in seen) print FILENAME ":" FNR ": " name " is also a type of " seen[name]
      else seen[name] = FILENAME ":" FNR
    }'
}

rule_unfinished() {
  text_files | grep -v '^tests/lint/' | read_files grep -nE '\b(TODO|FIXME|XXX|HACK)\b' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):.*/\1: finish it or leave it out/'
}

# Tests may use a shell: some are about shells.
rule_banned_calls() {
  local name replacement spared
  while read -r name replacement; do
    spared='^$'
    [[ $name == system || $name == popen ]] && spared='^tests/'
    cpp_files | grep -v "$spared" |
      read_files grep -nP "^(?!\s*//).*(?<![\w.>\"~:-])(std::|::)?$name\s*\(" /dev/null |
      sed -E "s|^([^:]+:[0-9]+):.*|\1: $name: use $replacement|"
  done < <(banned_calls)
}

# Texts for users are in the field's words: see banned_phrases.
rule_phrases() {
  cpp_files | grep -v '^tests/' |
    read_files grep -nF -f <(grep -v '^#' tests/lint/banned_phrases) /dev/null |
    grep -vE '^[^:]+:[0-9]+: *//' |
    awk -v phrases="$(grep -v '^#' tests/lint/banned_phrases)" '
      BEGIN { count = split(phrases, phrase, "\n") }
      {
        place = $0
        sub(/: .*/, "", place)
        sub(/^[^:]*:[0-9]*:/, "")
        sub(/ \/\/ .*/, "")
        for (i = 1; i <= count; i++) {
          if (match($0, /".*"/) && index(substr($0, RSTART, RLENGTH), phrase[i])) {
            print place ": plainer words for \047" phrase[i] "\047"
          }
        }
      }'
}

rule_names() {
  find "${code_folders[@]}" tests scripts configs -print 2>/dev/null |
    grep -E '/(utils?|common|helpers?|misc|core|types|stuff)(\.[a-z]+)?$' |
    sed 's/$/:1: a name that says nothing: name the noun or the verb/'
}

rule_machine_paths() {
  # Tests of pure code name files that need not exist.
  text_files | grep -vE '^tests/' |
    read_files grep -nE \
      '(^|[^[:alnum:]_.<-])(/work/|/home/[a-z]+/[a-z]|/root/|/Users/|/tmp/build)' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):.*/\1: a path of one machine/'
}

# A key that a job file may hold and that nothing acts on would be a promise not kept.
rule_unread_settings() {
  local name
  sed -n '/^struct MusterSettings {/,/^};/p' scheduler/model/job_spec.h 2>/dev/null | tr -d '\n' |
    sed -n 's/.*MUSTER_FIELDS(\([^)]*\)).*/\1/p' | tr -d ' ' | tr ',' '\n' | while read -r name; do
    grep -rqsE "(\.|->)$name\b" --include='*.cpp' --include='*.h' scheduler launcher health cli \
      templates/job ||
      echo "scheduler/model/job_spec.h:1: nothing reads the setting '$name'"
  done
}

# Weight, size of folders, knots between them: within limits that only shrink.
rule_house() {
  local told
  told=$(scripts/count-house . 2>&1) && return
  echo "tests/lint/house_limits:1: scripts/count-house says:"
  echo "$told"
}

rule_readme_length() {
  find "${code_folders[@]}" -name README.md 2>/dev/null |
    read_files awk 'FNR == 61 { print FILENAME ":61: a folder has a page of 60 lines" }'
  awk 'FNR == 201 { print "README.md:201: longer than 200 lines: it goes to docs/" }' README.md
}

rule_folder_readme() {
  local folder
  find "${code_folders[@]}" -maxdepth 1 -type d 2>/dev/null | while read -r folder; do
    find "$folder" -maxdepth 1 -name '*.h' -o -maxdepth 1 -name '*.cpp' | grep -q . || continue
    [ -f "$folder/README.md" ] || echo "$folder:1: no README.md: what is here, and for whom"
  done
}

# ---- running them

rules() { compgen -A function rule_ | sed 's/^rule_//'; }

rule=${1:-list}
[ "$rule" = list ] && { rules; exit 0; }
rules | grep -qx "$rule" || { echo "no rule '$rule'; see: rules.sh list"; exit 2; }
cd "${2:-$(dirname "${BASH_SOURCE[0]}")/../..}" || exit 2
found=$("rule_$rule")
[ -z "$found" ] && exit 0
echo "$found"
exit 1
