#include "tests/sim/memory_journal.h"

#include <set>
#include <tuple>

#include "scheduler/model/record.h"

namespace muster::sim {

namespace {

Error full() {
  return Error{"cannot write the simulated journal: no space left on device"};
}

// Which of the records of nodes before the first live job are read back: as Store::load_live says.
class KeptBefore {
 public:
  // From the newest to the oldest.
  bool is_kept(const Record& record) {
    const NodeId* node = node_of(record);
    const NodeId id = node == nullptr ? NodeId{} : *node;
    const std::string key = keep_key_of(record);
    switch (keep_of(record)) {
      case Keep::month:
        return true;  // no simulated run is as long
      case Keep::newest:
        return seen_.insert({id, kind_of(record), key}).second;
      case Keep::while_faulty:
        break;
      case Keep::with_job:
        return false;
    }
    const bool stands = !sound_.contains(id);
    if (key.empty()) sound_.insert(id);
    return stands || key == "recurs";
  }

 private:
  std::set<std::tuple<NodeId, std::string, std::string>> seen_;
  std::set<NodeId> sound_;
};

}  // namespace

Status MemoryJournal::append(const std::vector<Record>& records, const std::vector<JobRow>& rows) {
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
  std::set<std::size_t> kept;
  KeptBefore before;
  for (std::size_t i = since; i-- > 0;) {
    if (before.is_kept(all[i])) kept.insert(i);
  }
  std::vector<Record> live;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const JobId* job = job_of(all[i]);
    const bool wanted = job != nullptr ? is_live(*job) : i >= since || kept.contains(i);
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

Result<std::vector<Record>> FaultyJournal::load_live() const {
  return inner_->load_live();
}

}  // namespace muster::sim
