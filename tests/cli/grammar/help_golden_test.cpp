// What `muster --help` and `muster VERB --help` say of every verb; those of health are files of
// their own.
#include "cli/grammar/verbs.h"
#include "tests/cli/grammar/help_text.h"

using namespace muster;

TEST_CASE("the help of every verb is as written") {
  CommandLine line;
  for (const auto add_verb :
       {add_run,      add_submit,     add_plan,   add_validate, add_init,       add_list,
        add_status,   add_explain,    add_logs,   add_cancel,   add_resume,     add_exec,
        add_download, add_nodes,      add_drain,  add_policy,   add_checkpoint, add_job,
        add_clean,    add_completion, add_version}) {
    add_verb(line);
  }
  check_help(whole_help(line, "health"), "tests/cli/golden/help.txt");
}
