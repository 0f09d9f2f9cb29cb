#include "cli/checkpoint/subject.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/client/find.h"
#include "runtime/checkpoint/choose.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "scheduler/explain/summary.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// `ckpt@40`: the part before it, and the step.
struct TypedSubject {
  std::string base;
  std::optional<std::uint64_t> step;
};

bool is_directory(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

TypedSubject split(const std::string& typed) {
  const std::size_t at = typed.rfind('@');
  if (at == std::string::npos || is_directory(typed)) return {typed, std::nullopt};
  const auto step = read_integer(std::string_view(typed).substr(at + 1));
  if (!step || *step < 0) return {typed, std::nullopt};
  return {typed.substr(0, at), static_cast<std::uint64_t>(*step)};
}

CheckpointSubject subject_of_job(const Home& home, const std::string& typed) {
  const auto found = or_end(open_job(home, typed), no_such_job);
  const JobSummary summary = summarize(or_end(history_of(found), no_such_job).records);
  const std::string job = "job " + found.row.name;
  const auto foreign = foreign_subject(home, typed);
  const bool is_foreign = foreign || (summary.checkpoint && summary.checkpoint->is_foreign());
  if (is_foreign) {
    throw VerbEnd(no_such_job, "the checkpoints of " + job + " are another program's (" +
                                   (foreign ? foreign->kind : summary.checkpoint->kind) +
                                   "): see muster checkpoint list " + found.row.name +
                                   "; all else is for those of muster-train");
  }
  const std::string newest = last_checkpoint_directory(summary);
  if (newest.empty()) throw VerbEnd(no_such_job, job + " has committed no checkpoint yet");
  const std::string root = fs::path(newest).parent_path().string();
  if (is_directory(root)) return {root, std::nullopt};
  const std::string nodes = summary.attempts.empty() ? "" : joined(summary.attempts.back().nodes);
  throw VerbEnd(no_such_job,
                "the checkpoints of " + job + " are in " + root + " on its nodes (" + nodes +
                    "), not on this machine: type the command there, with that directory");
}

// "holds no checkpoint of step 7; there are 5, 10", the newest of them when there are many.
std::string no_such_step(const std::string& root, std::uint64_t step, std::set<std::uint64_t> all) {
  constexpr std::size_t steps_shown = 20;
  const bool more = all.size() > steps_shown;
  while (all.size() > steps_shown) all.erase(all.begin());
  std::vector<std::string> known;
  for (const std::uint64_t each : all) known.push_back(std::to_string(each));
  return root + " holds no checkpoint of step " + std::to_string(step) +
         (known.empty() ? "" : "; there are " + std::string(more ? "…, " : "") + joined(known));
}

std::set<std::uint64_t> usable_steps(const CheckpointSearch& search) {
  std::set<std::uint64_t> steps;
  for (const FoundCheckpoint& found : search.usable) steps.insert(found.step);
  return steps;
}

// The one of that step which a resume would take; else any, the highest generation first.
std::string name_of_step(const std::string& root, std::uint64_t step) {
  const CheckpointSearch search = search_checkpoints(root);
  if (!search.trouble.empty()) throw VerbEnd(no_such_job, search.trouble);
  for (const FoundCheckpoint& found : search.usable) {
    if (found.step == step) return found.directory;
  }
  std::set<std::uint64_t> steps = usable_steps(search);
  std::optional<CheckpointName> highest;
  for (const RejectedCheckpoint& rejected : search.rejected) {
    const auto name = parse_checkpoint_directory_name(rejected.directory);
    if (name) steps.insert(name->step);
    if (name && name->step == step) highest = std::max(highest.value_or(*name), *name);
  }
  if (highest) return checkpoint_directory_name(*highest);
  throw VerbEnd(no_such_job, no_such_step(root, step, std::move(steps)));
}

CheckpointSubject subject_of_path(const TypedSubject& typed) {
  const std::string path = normal_path(typed.base);
  if (!is_directory(path)) throw VerbEnd(no_such_job, path + ": no such directory");
  const std::string name = fs::path(path).filename().string();
  if (!parse_checkpoint_directory_name(name)) return {path, std::nullopt};
  if (!typed.step) return {fs::path(path).parent_path().string(), name};
  throw VerbEnd(no_such_job, path + " is one checkpoint already: leave @" +
                                 std::to_string(*typed.step) + " away");
}

// ---- checkpoints of other programs

const char* state_text(SaveState state) {
  if (state == SaveState::complete) return "COMPLETE";
  return state == SaveState::incomplete ? "INCOMPLETE" : "UNKNOWN";
}

Time changed_at(const ForeignCheckpoint& one) {
  return Time(std::chrono::duration_cast<Milliseconds>(std::chrono::nanoseconds(one.changed_ns)));
}

std::string name_of(const ForeignCheckpoint& one) {
  return std::filesystem::path(one.path).filename().string();
}

// Of those that may be resumed from: the first in the list.
bool is_newest(const ForeignCheckpoint& one, const std::vector<ForeignCheckpoint>& found) {
  const auto first = std::ranges::find(found, SaveState::complete, &ForeignCheckpoint::state);
  return first != found.end() && &one == &*first;
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
  std::erase_if(places, [](const std::string& place) { return !is_directory(place); });
  return places;
}

}  // namespace

CheckpointSubject checkpoint_subject(const Home& home, const std::string& typed) {
  const TypedSubject parts = split(typed);
  const bool is_path = parts.base.find('/') != std::string::npos || is_directory(parts.base);
  auto subject = is_path ? subject_of_path(parts) : subject_of_job(home, parts.base);
  if (parts.step) subject.name = name_of_step(subject.root, *parts.step);
  return subject;
}

CheckpointSubject single_checkpoint(const Home& home, const std::string& typed) {
  auto subject = checkpoint_subject(home, typed);
  if (subject.name) return subject;
  const CheckpointSearch search = search_checkpoints(subject.root);
  if (!search.trouble.empty()) throw VerbEnd(no_such_job, search.trouble);
  if (const FoundCheckpoint* newest = search.newest()) return {subject.root, newest->directory};
  throw VerbEnd(no_such_job,
                subject.root + " holds no usable checkpoint" +
                    (search.rejected.empty() ? "" : "; `muster checkpoint list` says why"));
}

std::string last_checkpoint_directory(const JobSummary& job) {
  if (job.checkpoint && !job.checkpoint->directory.empty()) return job.checkpoint->directory;
  for (auto attempt = job.attempts.rbegin(); attempt != job.attempts.rend(); ++attempt) {
    const auto& newest = attempt->newest_checkpoint;
    if (newest && !newest->directory.empty()) return newest->directory;
  }
  return "";
}

Status check_usable_step(const std::string& root, std::uint64_t step) {
  const CheckpointSearch search = search_checkpoints(root);
  std::set<std::uint64_t> steps = usable_steps(search);
  if (!search.trouble.empty() || steps.contains(step)) return Done{};
  for (const RejectedCheckpoint& rejected : search.rejected) {
    const auto name = parse_checkpoint_directory_name(rejected.directory);
    if (name && name->step == step) return Error{rejected.directory + ": " + rejected.reason};
  }
  return Error{no_such_step(root, step, std::move(steps))};
}

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
  return list_of(found, [&](const ForeignCheckpoint& one) {
    return Document{{"name", name_of(one)},
                    {"path", one.path},
                    {"kind", one.kind},
                    {"step", value_or_null(one.step)},
                    {"state", state_text(one.state)},
                    {"usable", one.state == SaveState::complete},
                    {"newest", is_newest(one, found)},
                    {"reason", value_or_null(one.why)},
                    {"bytes", one.bytes},
                    {"created_at", utc_text(changed_at(one))}};
  });
}

Table foreign_table(const std::vector<ForeignCheckpoint>& found) {
  Table table({"CHECKPOINT", "KIND", "STEP", "STATE", "SIZE", "WHEN", "REMARK"});
  for (const ForeignCheckpoint& one : found) {
    table.add({name_of(one), one.kind, one.step ? std::to_string(*one.step) : "",
               state_text(one.state), bytes_text(static_cast<std::uint64_t>(one.bytes)),
               local_text(changed_at(one)), is_newest(one, found) ? "newest usable" : one.why});
  }
  return table;
}

}  // namespace muster
