// `muster list`: the newest jobs, filtered. Reads the store; for unfinished jobs a
// controller is started (unserved.h).
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/client/unserved.h"
#include "cli/grammar/verbs.h"
#include "cli/job/report.h"
#include "cli/job/table.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/list_options.h"
#include "launcher/controller/store/home.h"
#include "scheduler/model/exit_code.h"

namespace muster {

int list_jobs(const JobFilter& filter, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto store = Store::open(home.root, Store::Mode::read_only);
  const auto rows = store ? (*store)->jobs(filter) : store.error();
  if (!rows) {
    complain(rows.error().message, common);
    return static_cast<int>(ExitCode::internal);
  }
  serve_unfinished(home, **store, *rows, common);
  if (wants_table(common)) {
    if (rows->empty())
      notice("no jobs match", common);
    else
      write_all(Stream::out, job_table_text(**store, *rows, common));
    return 0;
  }
  Document out = Document::array();
  for (const JobRow& row : *rows) out.push_back(row_document(row));
  return print_document(out, common);
}

void add_list(CommandLine& line) {
  line.verb({"list", "List jobs, the newest first"}, [](Arguments& of) {
    auto options = std::make_shared<ListOptions>();
    declare_list_options(of, *options);
    return [options](const CommonOptions& common) {
      return list_jobs(filter_of(*options, wall_clock_now()), common);
    };
  });
}

}  // namespace muster
