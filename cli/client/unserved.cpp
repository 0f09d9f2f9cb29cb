#include "cli/client/unserved.h"

#include <sys/stat.h>

#include <algorithm>

#include "cli/client/connection.h"
#include "cli/client/start.h"
#include "cli/terminal/terminal.h"
#include "launcher/controller/main.h"
#include "launcher/controller/supervisor.h"
#include "launcher/os/lock_file.h"
#include "scheduler/model/record.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

constexpr std::size_t names_shown = 5;

std::optional<Time> last_sign_of_life(const Home& home) {
  struct stat facts {};
  if (::stat(home.lock().c_str(), &facts) != 0) return std::nullopt;
  return from_ms(std::int64_t{facts.st_mtim.tv_sec} * 1000 + facts.st_mtim.tv_nsec / 1'000'000);
}

Milliseconds lease_of(const Store& store, const JobId& job) {
  Milliseconds lease = ComputeTarget{}.lease;
  const auto records = store.records_of(job);
  for (const Record& record : records ? *records : std::vector<Record>()) {
    if (const auto* begun = record_as<JobSubmitted>(record)) lease = begun->target.lease;
    if (const auto* again = record_as<ResumeRequested>(record)) lease = again->target.lease;
  }
  return lease;
}

std::string names_of(const std::vector<JobRow>& jobs) {
  std::string names = jobs.size() == 1 ? "job " : std::to_string(jobs.size()) + " unfinished jobs ";
  for (std::size_t i = 0; i < std::min(jobs.size(), names_shown); ++i) {
    names += (i == 0 ? (jobs.size() == 1 ? "" : "(") : ", ") + jobs[i].name;
  }
  if (jobs.size() > names_shown) names += ", …";
  return names + (jobs.size() == 1 ? "" : ")");
}

// A lease was renewed until the controller died, which is later than it was last seen.
std::string unserved_text(const Store& store, const std::vector<JobRow>& jobs, Time since,
                          Time now) {
  Milliseconds lease{0};
  for (const JobRow& job : jobs) lease = std::max(lease, lease_of(store, JobId{job.name}));
  const Time end = since + controller_sign_of_life + lease;
  return "no controller has served " + names_of(jobs) + " since " + local_text(since) + " (" +
         ago_text(since, now) + "); " +
         (end > now ? "ranks end by " : "ranks ended with their leases by ") + local_text(end);
}

bool is_answered(const Home& home) {
  const auto client = ControllerClient::connect(home);
  return !client || *client;
}

}  // namespace

void serve_unfinished(const Home& home, const Store& store, const std::vector<JobRow>& rows,
                      const CommonOptions& common) {
  std::vector<JobRow> jobs;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(jobs),
               [](const JobRow& row) { return !row.ended_at; });
  if (jobs.empty()) return;
  const auto since = last_sign_of_life(home);
  if (!since) return notice("no controller serves " + names_of(jobs) + " from here", common);
  const bool was_served = is_answered(home);
  const bool is_supervised = is_locked(supervisor_lock(home));  // and so is started again
  const std::string sentence =
      was_served ? "" : unserved_text(store, jobs, *since, wall_clock_now());
  const auto served = ensure_controller(home, common);
  if (!served) return complain(sentence + ", and none can be started: " + served.error().message,
                               common);
  if (!was_served && !is_supervised) notice(sentence + "; one has been started", common);
}

}  // namespace muster
