#!/usr/bin/env bash
# A small tree that keeps every rule, then the same with each rule broken once.
set -u
rules=$(dirname "$(readlink -f "$0")")/rules.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

good_tree() {
  rm -rf "$work/tree"
  mkdir "$work/tree" && cd "$work/tree" || exit 2
  mkdir -p scheduler/model launcher/agent launcher/controller health tests/e2e cli
  printf '// A noun.\n#pragma once\n' >scheduler/model/noun.h
  printf '#include "scheduler/model/noun.h"\nint use() { return 1; }\n' >scheduler/verb.cpp
  printf 'add_library(s verb.cpp)\n' >scheduler/CMakeLists.txt
  printf '#include "scheduler/model/noun.h"\n' >tests/a_test.cpp
  printf 'muster_test(a SOURCES a_test.cpp)\nadd_subdirectory(e2e)\n' >tests/CMakeLists.txt
  printf 'muster_e2e(run e2e)\n' >tests/e2e/CMakeLists.txt
  printf '#!/bin/sh\n' >tests/e2e/run.sh
  echo '# A program' | tee README.md scheduler/README.md >scheduler/model/README.md
  mkdir scripts tests/lint
  echo 'set aside' >tests/lint/banned_phrases
  cp "$(dirname "$rules")/../../scripts/count-house" scripts/
  printf '%s\n' 'product_files 3' 'product_lines 99' 'test_lines 9' 'folder_files 2' \
    'knotted_folders 0' 'small_units 0' 'repeated_helpers 0' >tests/lint/house_limits
}

broken() { # RULE LINE-OF-SHELL: the rule fails once the line has run in the good tree
  good_tree
  if ! "$rules" "$1" . >"$work/found"; then
    echo "$1 complains about the good tree:"; cat "$work/found"; status=1
  fi
  eval "$2"
  if "$rules" "$1" . >"$work/found"; then
    echo "$1 does not notice: $2"; status=1
  fi
  tried+=" $1 "
}

tried=""
add='>>scheduler/verb.cpp'
broken layering 'echo "#include \"launcher/wire/frame.h\"" '"$add"
broken layering 'echo "#include \"launcher/controller/x.h\"" >launcher/agent/y.cpp'
broken layering 'echo "#include \"verb.h\"" '"$add"
broken layering 'echo "#include \"scheduler/decide/decide.h\"" >>scheduler/model/noun.h'
broken libraries 'echo "#include <sqlite3.h>" '"$add"
broken libraries 'echo "#include <boost/asio/post.hpp>" '"$add"
broken heavy_headers 'echo "#include <nlohmann/json.hpp>" >>scheduler/model/noun.h'
broken header_form 'echo "// no pragma" >scheduler/model/noun.h'
broken header_form 'echo "#pragma once" >scheduler/model/noun.h'
broken line_length 'printf "// %0101d\n" 0 '"$add"
broken file_length 'for i in $(seq 601); do echo "// $i"; done '"$add"
broken orphan_sources 'echo "int x;" >scheduler/lost.cpp'
broken orphan_sources 'echo "int x;" >scheduler/model/verb.cpp'
broken orphan_headers 'printf "// x\n#pragma once\n" >scheduler/lost.h'
broken unregistered_tests 'echo "#!/bin/sh" >tests/e2e/forgotten.sh'
broken unregistered_tests 'mkdir tests/cli; echo >tests/cli/CMakeLists.txt'
twice='echo "struct Noun {" >>scheduler/model/noun.h; echo "class Noun final {" '
broken type_names "$twice$add"
broken unfinished 'echo "// TO""DO later" '"$add"
broken banned_calls 'echo "int a() { return std::system(x); }" '"$add"
broken banned_calls 'echo "int a() { return ::popen(x, y); }" '"$add"
broken banned_calls 'echo "  sprintf(a, b);" '"$add"
broken banned_calls 'echo "int a = rand();" '"$add"
broken phrases 'echo "int a = say(\"it is set aside\");" '"$add"
broken names 'mkdir launcher/common'
broken names 'echo >scheduler/utils.h'
broken machine_paths 'echo "path: /home/somebody/data" >launcher/job.yml'
settings='struct MusterSettings {\n MUSTER_FIELDS(no_use,\n   x)\n};\n'
broken unread_settings 'printf "$settings" >scheduler/model/job_spec.h'
broken house 'for i in $(seq 99); do echo "// $i"; done '"$add"
broken house 'for i in $(seq 9); do echo "// $i"; done >>tests/a_test.cpp'
broken house 'touch scheduler/a.h scheduler/b.h'
broken house 'echo "#include \"scheduler/verb.h\"" >>scheduler/model/noun.h'
broken house 'echo "int noun;" >scheduler/model/noun.cpp'
helper='int twice(int a) {\n  a += a;\n  return a;\n}\n'
broken house 'for i in health/a cli/b scheduler/c; do printf "'"$helper"'" >$i.cpp; done
  sed -i "s/_files .*/_files 9/" tests/lint/house_limits'
broken readme_length 'for i in $(seq 61); do echo line; done >scheduler/README.md'
broken readme_length 'for i in $(seq 201); do echo line; done >README.md'
broken folder_readme 'rm scheduler/README.md'
broken folder_readme 'rm scheduler/model/README.md'

good_tree
echo 'int b = snprintf(a, 1, "rand()"); Foo::system(1); x.system(2); y->rand(); // sprintf' \
  >>scheduler/verb.cpp
"$rules" banned_calls . || { echo "banned_calls complains about other functions"; status=1; }

good_tree
twice='namespace {\nstruct Noun {\n};\n}  // namespace\nstruct Out::Noun {\n};\nstruct Noun;\n'
printf 'struct Noun {\n};\n' >>scheduler/model/noun.h
printf "$twice" >>scheduler/verb.cpp
"$rules" type_names . || { echo "type_names complains about types that do not meet"; status=1; }

for rule in $("$rules" list); do
  [[ $tried == *" $rule "* ]] || { echo "nothing breaks the rule $rule here"; status=1; }
done
exit "$status"
