// `muster explain JOB`: what happened and why, from the journal.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/job/missing_program.h"
#include "cli/job/report.h"
#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/explain/explain.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

struct ExplainOptions {
  std::string job;
  bool brief = false;
};

int explain_job(const ExplainOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = open_job(home, options.job);
  if (!found) return without_job(home, found.error(), common);
  auto records = found->store->records_of(found->id());
  auto faults = found->store->faults_during(found->id());
  if (!records || !faults) {
    const Error& why = records ? faults.error() : records.error();
    return complain(why.message, internal_error, common);
  }
  if (const std::string why = why_no_history(*found); !why.empty()) {
    return complain(why, no_such_job, common);
  }
  records->insert(records->begin(), faults->begin(), faults->end());  // before what they led to
  std::stable_sort(records->begin(), records->end(),
                   [](const Record& a, const Record& b) { return a.at < b.at; });
  if (wants_table(common)) {
    std::string text;
    for (const std::string& one : explain_text(*records, options.brief))
      text += printable(one) + "\n";
    const std::string missing = missing_program_text(*records, find_here);
    if (!missing.empty()) text += printable(missing) + "\n";
    write_all(Stream::out, text);
    return 0;
  }
  const auto line_document = [](const ExplainLine& one) {
    return Document{{"at", utc_text(one.at)}, {"text", one.text}};
  };
  return print_document(list_of(explain(*records, options.brief), line_document), common);
}

}  // namespace

void add_explain(CommandLine& line) {
  line.verb<ExplainOptions>(
      {"explain", "Say what happened to a job and why"}, explain_job,
      [](Arguments& of, ExplainOptions& options) {
        of.argument("JOB", options.job, "Job name, or the beginning of one");
        of.flag("--brief", options.brief,
                "A few lines a failure: what broke, how it ended, and from where the job "
                "went on");
      });
}

}  // namespace muster
