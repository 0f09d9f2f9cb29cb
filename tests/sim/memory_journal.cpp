#include "tests/sim/memory_journal.h"

#include <algorithm>
#include <set>

#include "scheduler/model/record.h"

namespace muster::sim {

namespace {

Error full() { return Error{"cannot write the simulated journal: no space left on device"}; }

// What the newest record of makes older ones void.
std::string kind_and_subject(const Record& record) {
  std::string text = kind_of(record);
  if (const auto* drain = record_as<NodeDrainSet>(record)) text += drain->drained ? "+" : "-";
  if (const auto* opened = record_as<BreakerOpened>(record)) text += opened->target;
  if (const auto* reset = record_as<BreakerReset>(record)) text += reset->target;
  return text;
}

// It counts for weeks, not only until the next one.
bool is_of_remedies(const Record& record) {
  if (const auto* opened = record_as<BreakerOpened>(record)) return opened->is_check;
  if (const auto* seen = record_as<NodeFaultsSeen>(record)) {
    return std::any_of(seen->faults.begin(), seen->faults.end(), [](const NodeFault& fault) {
      return fault.remedy == Remedy::warn && fault.on_recurrence && !fault.code.empty();
    });
  }
  return record_as<NodeFaulted>(record) != nullptr || record_as<RemedyBegun>(record) != nullptr ||
         record_as<RemedyOver>(record) != nullptr;
}

}  // namespace

Status MemoryJournal::append(const std::vector<Record>& records,
                             const std::vector<JobRow>& rows) {
  disk_.records.insert(disk_.records.end(), records.begin(), records.end());
  for (const JobRow& row : rows) disk_.rows[JobId{row.name}] = row;
  return Done{};
}

Result<std::vector<Record>> MemoryJournal::load_live() const {
  const auto is_live = [this](const JobId& job) {
    const auto row = disk_.rows.find(job);
    return row != disk_.rows.end() && (!row->second.ended_at || row->second.unclean);
  };
  const auto& all = disk_.records;
  std::size_t since = all.size();
  for (std::size_t i = 0; i < since; ++i) {
    const JobId* job = job_of(all[i]);
    if (job != nullptr && is_live(*job)) since = i;
  }
  std::set<std::size_t> newest_before;
  std::set<std::pair<NodeId, std::string>> seen;
  for (std::size_t i = since; i-- > 0;) {
    if (job_of(all[i]) != nullptr) continue;
    const NodeId* node = node_of(all[i]);
    const NodeId id = node == nullptr ? NodeId{} : *node;
    const bool is_newest = seen.emplace(id, kind_and_subject(all[i])).second;
    if (is_newest || is_of_remedies(all[i])) newest_before.insert(i);
  }
  std::vector<Record> live;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const JobId* job = job_of(all[i]);
    const bool wanted = job != nullptr ? is_live(*job) : i >= since || newest_before.contains(i);
    if (wanted) live.push_back(all[i]);
  }
  return live;
}

Result<std::vector<Record>> MemoryJournal::records_of(const JobId& id) const {
  std::vector<Record> records;
  for (const Record& record : disk_.records) {
    const JobId* job = job_of(record);
    if (job != nullptr && *job == id) records.push_back(record);
  }
  return records;
}

Result<std::optional<JobRow>> MemoryJournal::job(const JobId& job) const {
  const auto row = disk_.rows.find(job);
  if (row == disk_.rows.end()) return std::optional<JobRow>{};
  return std::optional<JobRow>{row->second};
}

Status FaultyJournal::append(const std::vector<Record>& records, const std::vector<JobRow>& rows) {
  hooks_.before_append();
  if (hooks_.is_full()) return full();
  if (hooks_.forgets()) return Done{};
  if (auto done = inner_->append(records, rows); !done) return done;
  hooks_.appended(records);
  return Done{};
}

Result<std::vector<Record>> FaultyJournal::load_live() const { return inner_->load_live(); }

}  // namespace muster::sim
