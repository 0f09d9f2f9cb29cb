#include "cli/client/find.h"

#include <algorithm>

#include "cli/terminal/common_options.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int names_shown = 5;
// Enough to find a slip of the fingers in; older jobs are seldom meant.
constexpr int names_compared = 1000;

Error unknown_job(const Store& store, const std::string& typed) {
  JobFilter filter;
  filter.limit = names_compared;
  filter.include_archived = true;
  const auto rows = store.jobs(filter);
  std::vector<std::string> names;
  if (rows) {
    for (const JobRow& row : *rows) names.push_back(row.name);
  }
  return Error{"job " + quoted_text(typed) + " not found; " +
               did_you_mean(typed, names, "`muster list --all-results` shows all jobs")};
}

}  // namespace

Result<JobRow> find_job(const Store& store, const std::string& typed) {
  const auto exact = store.job(JobId{typed});
  if (!exact) return exact.error();
  if (*exact) return **exact;
  const auto names = store.names_starting_with(typed, names_shown + 1);
  if (!names) return names.error();
  if (names->empty() || typed.empty()) return unknown_job(store, typed);
  if (names->size() > 1) {
    std::vector<std::string> shown(*names);
    const bool more = shown.size() > names_shown;
    shown.resize(std::min<std::size_t>(shown.size(), names_shown));
    return Error{quoted_text(typed) + " is an ambiguous job name: " + joined(shown) +
                 (more ? ", …" : "")};
  }
  const auto row = store.job(JobId{names->front()});
  if (!row) return row.error();
  if (!*row) return unknown_job(store, typed);
  return **row;
}

Result<FoundJob> open_job(const Home& home, const std::string& typed) {
  auto store = Store::open(home.root, Store::Mode::read_only);
  if (!store) return store.error();
  auto row = find_job(**store, typed);
  if (!row) return row.error();
  return FoundJob{std::move(*store), std::move(*row)};
}

Result<JobHistory> history_of(const FoundJob& found) {
  auto records = found.store->records_of(found.id());
  if (!records) return records.error();
  auto links = found.store->links_during(found.id());
  if (!links) return links.error();
  return JobHistory{std::move(*records), std::move(*links)};
}

const JobSubmitted* submission_in(const std::vector<Record>& records) {
  for (const Record& record : records) {
    if (const auto* submitted = record_as<JobSubmitted>(record)) return submitted;
  }
  return nullptr;
}

FoundJob job_or_end(const Home& home, const std::string& typed) {
  auto found = open_job(home, typed);
  const bool is_readable = found || Store::open(home.root, Store::Mode::read_only);
  return or_end(std::move(found), is_readable ? no_such_job : internal_error);
}

}  // namespace muster
