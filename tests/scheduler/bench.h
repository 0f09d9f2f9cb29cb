// A workbench: the core with a journal and a hand-moved clock, and agents that do at once and well
// whatever they are asked. Tests say what goes wrong. Every record is audited: at the end no
// promise may be broken.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/apply/apply.h"
#include "scheduler/decide/decide.h"
#include "scheduler/model/record.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "tests/catch.h"
#include "tests/scheduler/builders.h"
#include "tests/sim/model/audit.h"
#include "tests/sim/model/invariants.h"

namespace muster {

// What one node owes.
inline std::optional<NodeWork> pending_work(const State& state, const NodeId& node) {
  for (NodeWork& work : pending_work(state)) {
    if (work.node == node) return std::move(work);
  }
  return std::nullopt;
}

}  // namespace muster

namespace muster::test {

// On the controller's clock, which began with its wall clock here.
ClockInterval around(Time time, Milliseconds uncertainty = Milliseconds{2});

// What a healthy agent says when it has done its work.
Observation answer_to(const State& state, const NodeWork& work,
                      const std::optional<CheckpointRef>& on_disk);

// The last line of a rank that failed in a way that no rule knows.
inline constexpr const char* ordinary = "ValueError: no such batch";

class Bench {
 public:
  State state;
  std::vector<Record> journal;
  Time now = from_ms(1'000'000);
  std::map<NodeId, std::optional<CheckpointRef>> on_disk;    // what checks and clean reports find
  std::map<NodeId, std::optional<CheckpointRef>> certified;  // and as the newest certified one
  std::map<NodeId, std::optional<CheckpointRef>> asked;      // and of the step asked for
  std::map<int, int> gpus;  // of nodes that have some, when they are linked

  Bench() = default;
  explicit Bench(const JobSubmitted& job) { start(job); }
  Bench(const JobSubmitted& job, int linked) {  // it is submitted, and so many hosts answer
    submit(job);
    link_all(linked);
  }
  ~Bench() { CHECK(violations().empty()); }

  // Journals, applies and decides until nothing is left to decide.
  void observe(const Observation& what);
  void settle();
  void relive(const Record& record);  // of another journal, without what follows from it
  void pass(Milliseconds duration);   // moves the clock, waking where `next_wake` says

  // Where hosts are asked first, the time for their answers passes.
  void submit(const JobSubmitted& job);
  void link(int node, int agent = 1, int boot = 1);
  void link_all(int nodes);
  void unlink(int node, LinkFailureKind kind = LinkFailureKind::lost);
  void drain(int node, bool drained = true, std::optional<Milliseconds> move_after = {});
  void notice(int node, std::optional<Milliseconds> leaves_in = Seconds{25});
  void report_faults(int node, std::vector<NodeFault> faults, bool settled = true);
  void fail_check(int node, const std::string& job = "train");

  // The agents answer everything that is pending, until nothing is.
  void obey();
  void obey(const NodeWork& work);
  void obey_after(Milliseconds duration);
  template <class P>
  void obey_until() {  // the attempt is in the phase, answering one thing at a time
    while (!is_in<P>()) {
      REQUIRE(!pending_work(state).empty());
      obey(pending_work(state).front());
    }
  }
  template <class W>
  bool owes(int number) const {
    const auto work = pending_work(state, NodeId{node_name(number)});
    return work && std::holds_alternative<W>(work->work);
  }
  void start(const JobSubmitted& job);            // submit, link its whole target, obey: it runs
  void finish(const std::string& job = "train");  // every rank exits 0; obey
  void exit_rank(int rank, ExitStatus status, Milliseconds ago = {},
                 const std::string& job = "train", const std::string& last_line = ordinary);
  void exit_and_obey(int rank, ExitStatus status, Milliseconds ago = {},
                     const std::string& job = "train", const std::string& last_line = ordinary);
  // Fails, is stopped, backs off, runs again.
  void fail_and_retry(int rank, ExitStatus status, const std::string& last_line = ordinary);
  void progress(std::int64_t step, std::optional<CheckpointRef> checkpoint = {});
  void cancel(const std::string& job = "train");

  const Job& job(const std::string& name = "train") const;
  const Node& node(int number) const;
  const Attempt& attempt(const std::string& name = "train") const;
  bool is_live(const std::string& name = "train") const;
  int ended_with() const;  // the exit code of the job, which must be over
  std::vector<std::string> nodes(const std::string& name = "train") const;

  template <class P>
  bool is_in(const std::string& name = "train") const {
    const Attempt* active = is_live(name) ? active_attempt(job(name)) : nullptr;
    return active && std::holds_alternative<P>(active->phase);
  }
  // The latest record of this kind; null: there is none.
  template <class T>
  const T* last() const {
    for (auto record = journal.rbegin(); record != journal.rend(); ++record) {
      if (const T* found = record_as<T>(*record)) return found;
    }
    return nullptr;
  }
  template <class T>
  const T& the() const {
    REQUIRE(last<T>());
    return *last<T>();
  }
  template <class T>
  int count() const {
    int n = 0;
    for (const Record& record : journal) n += record_as<T>(record) ? 1 : 0;
    return n;
  }

  std::vector<std::string> violations() const { return audit_.violations(); }
  std::string story() const;  // what explain tells, line by line
  State rebuilt() const;      // by the journal alone; must be the state itself

 private:
  void write(const Record& record);
  RecordAudit audit_;
};

}  // namespace muster::test
