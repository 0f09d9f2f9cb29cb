// What `muster --help` and `muster VERB --help` say of every verb; those of health are files of
// their own.
#include "cli/verbs/verbs.h"
#include "tests/cli/grammar/help_text.h"

using namespace muster;

TEST_CASE("the help of every verb is as written") {
  CommandLine line;
  add_verbs(line);
  check_golden(whole_help(line, "health"), "tests/cli/golden/help.txt");
}
