#include "tests/sim/promises.h"

#include <iostream>

#include "scheduler/apply/apply.h"
#include "scheduler/model/names.h"
#include "scheduler/model/record.h"
#include "tests/sim/model/dump.h"

namespace muster::sim {

namespace {

constexpr std::size_t events_kept = 60;
constexpr std::size_t problems_kept = 20;

std::string text_of(const JobId& job, AttemptId attempt) {
  return job.value + " attempt " + std::to_string(attempt.value);
}

}  // namespace

void Promises::rank_starts(const NodeId& node, const JobId& job, AttemptId attempt) {
  for (auto it = alive_.lower_bound({job, AttemptId{-1}}); it != alive_.end(); ++it) {
    if (it->first.first != job) break;
    if (it->first.second == attempt) continue;
    broken("I2: " + text_of(job, attempt) + " starts on " + node.value + " while ranks of " +
           text_of(job, it->first.second) + " live");
  }
  Attempts& here = on_node_[node];
  for (const auto& [key, count] : here) {
    if (key.first == job) continue;
    broken("I1: " + text_of(job, attempt) + " starts on " + node.value + " while " +
           text_of(key.first, key.second) + " runs there");
  }
  alive_[{job, attempt}] += 1;
  here[{job, attempt}] += 1;
}

void Promises::rank_is_gone(const NodeId& node, const JobId& job, AttemptId attempt) {
  const auto leave = [&](Attempts& attempts) {
    const auto found = attempts.find({job, attempt});
    if (found != attempts.end() && --found->second == 0) attempts.erase(found);
  };
  leave(alive_);
  leave(on_node_[node]);
}

void Promises::recorded(const std::vector<Record>& records) {
  for (const Record& record : records) {
    story(record);
    audit_.see(state_, record);
    apply(state_, record);
    if (const auto* ended = record_as<JobEnded>(record)) {
      ends_[ended->job] = std::string(word(ended->state)) + ": " + ended->reason;
    }
    if (++records_ % static_cast<std::size_t>(every_) == 0) {
      for (const std::string& each : violations(state_)) broken(each);
    }
  }
  for (; audited_ < audit_.violations().size(); ++audited_) broken(audit_.violations()[audited_]);
}

// The whole text costs more than the record itself: it is made for those that somebody reads.
void Promises::story(const Record& record) {
  if (verbose_) return event(describe(record));
  last_.push_back(record);
  if (last_.size() > events_kept) last_.pop_front();
}

void Promises::broken(const std::string& sentence) {
  if (problems_.size() < problems_kept) problems_.push_back(clock_() + " " + sentence);
  event("*** " + sentence);
}

void Promises::event(std::string sentence) {
  std::string line = clock_() + " " + std::move(sentence);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (verbose_) std::cout << line << "\n";
  last_.push_back(std::move(line));
  if (last_.size() > events_kept) last_.pop_front();
}

std::vector<std::string> Promises::last_events() const {
  std::vector<std::string> lines;
  for (const auto& each : last_) {
    const auto* record = std::get_if<Record>(&each);
    lines.push_back(record == nullptr ? std::get<std::string>(each)
                                      : "  recorded at " + std::to_string(to_ms(record->at)) +
                                            " " + describe(*record));
  }
  return lines;
}

bool Promises::is_alive(const JobId& job) const {
  const auto found = alive_.lower_bound({job, AttemptId{-1}});
  return found != alive_.end() && found->first.first == job;
}

std::set<JobId> Promises::alive_jobs() const {
  std::set<JobId> jobs;
  for (const auto& [key, count] : alive_) jobs.insert(key.first);
  return jobs;
}

}  // namespace muster::sim
