// What must hold, seen from outside the controller: the simulated world reports what really
// happens (processes that live, bytes that were written), the journal what was recorded.
//
// I1, I2 at every start of a rank · I3, I4, I5, I9 at every record (tests/sim/model/audit.h) · I6
// at every restart and at the end · I10 the logs, byte by byte
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/model/audit.h"
#include "tests/sim/model/invariants.h"

namespace muster::sim {

class Promises {
 public:
  // `every`: State's own invariants are checked after so many records; they cost a look at every
  // node.
  explicit Promises(int every) : every_(every) {}

  void rank_starts(const NodeId& node, const JobId& job, AttemptId attempt);
  void rank_is_gone(const NodeId& node, const JobId& job, AttemptId attempt);
  void recorded(const std::vector<Record>& records);
  void broken(const std::string& sentence);
  void event(std::string sentence);  // of the world, for the story of a failure

  const State& state() const { return state_; }  // what the journal says
  const std::vector<std::string>& problems() const { return problems_; }
  std::vector<std::string> last_events() const;
  bool is_alive(const JobId& job) const;
  std::set<JobId> alive_jobs() const;
  std::size_t records() const { return records_; }
  void set_clock(std::function<std::string()> clock) { clock_ = std::move(clock); }
  void set_verbose() { verbose_ = true; }
  // Jobs that ended, how.
  const std::map<JobId, std::string>& ends() const { return ends_; }

 private:
  void story(const Record& record);

  using Attempts = std::map<std::pair<JobId, AttemptId>, int>;

  int every_;
  State state_;
  RecordAudit audit_;
  std::size_t audited_ = 0;
  std::size_t records_ = 0;
  Attempts alive_;                      // ranks by attempt
  std::map<NodeId, Attempts> on_node_;  // the same by node
  std::map<JobId, std::string> ends_;
  std::vector<std::string> problems_;
  std::deque<std::variant<std::string, Record>> last_;
  std::function<std::string()> clock_ = [] { return std::string(); };
  bool verbose_ = false;
};

}  // namespace muster::sim
