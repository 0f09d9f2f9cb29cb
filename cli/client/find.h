// From what a person types to one job: its full name, or a prefix that fits no other.
#pragma once

#include <memory>
#include <string>

#include "launcher/controller/store/home.h"
#include "launcher/controller/store/store.h"
#include "scheduler/model/result.h"

namespace muster {

// The Error says which names it could have been, or what is nearest.
Result<JobRow> find_job(const Store& store, const std::string& typed);

// The store of a home, and the job in it.
struct FoundJob {
  std::unique_ptr<Store> store;
  JobRow row;
  JobId id() const { return JobId{row.name}; }
};
Result<FoundJob> open_job(const Home& home, const std::string& typed);

// All that the journal has about a job: its own records, and how its nodes were reached meanwhile.
struct JobHistory {
  std::vector<Record> records;
  std::vector<Record> links;
};
Result<JobHistory> history_of(const FoundJob& found);

// Of a job's records; null: it is not among them.
const JobSubmitted* submission_in(const std::vector<Record>& records);

// What a verb returns when its job is not there.
inline constexpr int no_such_job = 1;

// For verbs: without one it ends with that, or with 99 where the store cannot be read.
FoundJob job_or_end(const Home& home, const std::string& typed);

}  // namespace muster
