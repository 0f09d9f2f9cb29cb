// `muster explain JOB`: what happened and why, from the journal.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/job/missing_program.h"
#include "cli/job/summary.h"
#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/explain/explain.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/duration.h"

namespace muster {

int explain_job(const std::string& typed, bool is_brief, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = open_job(home, typed);
  if (!found) return without_job(home, found.error(), common);
  auto records = found->store->records_of(found->id());
  auto faults = found->store->faults_during(found->id());
  if (!records || !faults) {
    complain(records ? faults.error().message : records.error().message, common);
    return static_cast<int>(ExitCode::internal);
  }
  if (const std::string why = why_no_history(*found); !why.empty()) {
    return complain(why, no_such_job, common);
  }
  records->insert(records->begin(), faults->begin(), faults->end());  // before what they led to
  std::stable_sort(records->begin(), records->end(),
                   [](const Record& a, const Record& b) { return a.at < b.at; });
  if (wants_table(common)) {
    std::string text;
    for (const std::string& one : explain_text(*records, is_brief)) text += printable(one) + "\n";
    const std::string missing = missing_program_text(*records, find_here);
    if (!missing.empty()) text += printable(missing) + "\n";
    write_all(Stream::out, text);
    return 0;
  }
  Document out = Document::array();
  for (const ExplainLine& one : explain(*records, is_brief)) {
    out.push_back(Document{{"at", utc_text(one.at)}, {"text", one.text}});
  }
  return print_document(out, common);
}

void add_explain(CommandLine& line) {
  line.verb({"explain", "Say what happened to a job and why"}, [](Arguments& of) {
    auto job = std::make_shared<std::string>();
    auto is_brief = std::make_shared<bool>(false);
    of.argument("JOB", *job, "Job name, or the beginning of one");
    of.flag("--brief", *is_brief,
            "A few lines a failure: what broke, how it ended, and from where the job went on");
    return [job, is_brief](const CommonOptions& common) {
      return explain_job(*job, *is_brief, common);
    };
  });
}

}  // namespace muster
