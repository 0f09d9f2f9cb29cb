#include "cli/checkpoint/foreign.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/terminal/terminal.h"
#include "scheduler/explain/summary.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

const char* state_text(SaveState state) {
  switch (state) {
    case SaveState::complete:
      return "COMPLETE";
    case SaveState::incomplete:
      return "INCOMPLETE";
    case SaveState::unknown:
      return "UNKNOWN";
  }
  return "UNKNOWN";
}

Time changed_at(const ForeignCheckpoint& one) {
  return Time(std::chrono::duration_cast<Milliseconds>(std::chrono::nanoseconds(one.changed_ns)));
}

std::string name_of(const ForeignCheckpoint& one) {
  return std::filesystem::path(one.path).filename().string();
}

std::vector<ForeignCheckpoint>::const_iterator newest_of(
    const std::vector<ForeignCheckpoint>& found) {
  return std::ranges::find(found, SaveState::complete, &ForeignCheckpoint::state);
}

// As it was submitted or resumed last.
template <class Take>
void take_submission(const std::vector<Record>& records, Take take) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (const auto* submitted = record_as<JobSubmitted>(*record)) return take(*submitted);
    if (const auto* resumed = record_as<ResumeRequested>(*record)) return take(*resumed);
  }
}

std::vector<std::string> places_of(const Home& home, const JobId& id, const JobSpec& spec,
                                   const ComputeTarget& target) {
  const std::string shared = shared_directory(target, id);
  std::vector<std::string> places{home.job(id).string() + "/ckpt", home.outputs(id).string(),
                                  spec.muster.checkpoint_path};
  if (!shared.empty()) places.insert(places.end(), {shared + "/ckpt", shared + "/outputs"});
  for (const auto& [name, output] : spec.outputs) {
    if (output.is_written_at_path()) places.push_back(output.path);
  }
  std::erase_if(places, [](const std::string& place) {
    std::error_code failed;
    return place.empty() || !std::filesystem::is_directory(place, failed);
  });
  return places;
}

}  // namespace

std::optional<ForeignSubject> foreign_subject(const Home& home, const std::string& typed) {
  if (typed.find('/') != std::string::npos) return std::nullopt;
  const auto found = open_job(home, typed);
  if (!found) return std::nullopt;
  const auto history = history_of(*found);
  if (!history) return std::nullopt;
  const auto newest = summarize(history->records).checkpoint;
  if (newest && !newest->is_foreign()) return std::nullopt;
  ForeignSubject subject;
  take_submission(history->records, [&](const auto& record) {
    const MusterSettings& settings = record.spec.muster;
    subject.settings = {settings.checkpoint_format, settings.checkpoint_marker};
    subject.roots = places_of(home, record.job, record.spec, record.target);
  });
  const auto all = foreign_checkpoints(subject.roots, subject.settings);
  if (all.empty()) return std::nullopt;
  subject.kind = all.front().kind;
  return subject;
}

Document foreign_document(const std::vector<ForeignCheckpoint>& found) {
  Document list = Document::array();
  const auto newest = newest_of(found);
  for (auto one = found.begin(); one != found.end(); ++one) {
    list.push_back(Document{{"name", name_of(*one)},
                            {"path", one->path},
                            {"kind", one->kind},
                            {"step", value_or_null(one->step)},
                            {"state", state_text(one->state)},
                            {"usable", one->state == SaveState::complete},
                            {"newest", one == newest},
                            {"reason", value_or_null(one->why)},
                            {"bytes", one->bytes},
                            {"created_at", utc_text(changed_at(*one))}});
  }
  return list;
}

Table foreign_table(const std::vector<ForeignCheckpoint>& found) {
  Table table({"CHECKPOINT", "KIND", "STEP", "STATE", "SIZE", "WHEN", "REMARK"});
  const auto newest = newest_of(found);
  for (auto one = found.begin(); one != found.end(); ++one) {
    table.add({name_of(*one), one->kind, one->step ? std::to_string(*one->step) : "",
               state_text(one->state), bytes_text(static_cast<std::uint64_t>(one->bytes)),
               local_text(changed_at(*one)), one == newest ? "newest usable" : one->why});
  }
  return table;
}

}  // namespace muster
