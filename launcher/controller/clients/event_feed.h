// Tells followers of a job what the journal has just learned: its new state, in words, and its end.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "launcher/controller/clients/server.h"
#include "launcher/controller/store/job_rows.h"
#include "scheduler/state/state.h"

namespace muster {

// Clients that follow a job: told of its state changes, its progress and its end.

class Watchers {
 public:
  void add(const JobId& job, const std::shared_ptr<Session>& session);
  void tell(const JobId& job, const JobEvent& event);
  void end(const Ended& ended);  // and close
  bool has(const JobId& job) const { return sessions_.contains(job); }

 private:
  std::map<JobId, std::vector<std::weak_ptr<Session>>> sessions_;
};

void announce(const std::vector<Record>& records, const State& state, const JobRows& rows,
              Watchers& watchers);

}  // namespace muster
