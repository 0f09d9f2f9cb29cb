// What `muster-sandbox --help` and the help of its verbs say.
#include "tests/cli/grammar/help_text.h"
#include "tools/verbs.h"

using namespace muster;

TEST_CASE("the help of muster-sandbox is as written") {
  CommandLine line(sandbox_program);
  add_sandbox_verbs(line);
  add_drill(line);
  check_golden(whole_help(line), "tests/tools/golden/help.txt");
}

TEST_CASE("a wrong word is told with where this program's own help is") {
  CommandLine line(sandbox_program);
  add_sandbox_verbs(line);
  const ParsedLine parsed = line.parse({"crsh", "h01"});
  CHECK(parsed.exit_code == 2);
  CHECK(parsed.text ==
        "muster: unknown verb 'crsh'; did you mean 'crash'?\n"
        "See: muster-sandbox --help\n");
}
