// What the store keeps, in memory: it outlives the controller. Answers as the store does.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "launcher/controller/store/journal.h"

namespace muster::sim {

struct Disk {
  std::vector<Record> records;
  std::map<JobId, JobRow> rows;
};

class MemoryJournal : public Journal {
 public:
  explicit MemoryJournal(Disk& disk) : disk_(disk) {}
  Status append(const std::vector<Record>& records, const std::vector<JobRow>& rows) override;
  Result<std::vector<Record>> load_live() const override;
  Result<std::vector<Record>> records_of(const JobId& job) const override;
  Result<std::optional<JobRow>> job(const JobId& job) const override;

 private:
  Disk& disk_;
};

// Around a journal: fails when the disk is full, and is a place to kill the controller at.
class FaultyJournal : public Journal {
 public:
  struct Hooks {
    std::function<bool()> is_full;
    std::function<void()> before_append;
    std::function<void(const std::vector<Record>&)> appended;
    std::function<bool()> forgets;  // a planted bug: says it is written and writes nothing
  };

  FaultyJournal(std::unique_ptr<Journal> inner, Hooks hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)) {}
  Status append(const std::vector<Record>& records, const std::vector<JobRow>& rows) override;
  Result<std::vector<Record>> load_live() const override;
  Result<std::vector<Record>> records_of(const JobId& job) const override {
    return inner_->records_of(job);
  }
  Result<std::optional<JobRow>> job(const JobId& job) const override { return inner_->job(job); }

 private:
  std::unique_ptr<Journal> inner_;
  Hooks hooks_;
};

}  // namespace muster::sim
