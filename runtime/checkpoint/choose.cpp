#include "runtime/checkpoint/choose.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Directories of `root` whose name is that of a checkpoint, in order of name.
std::vector<CheckpointName> checkpoint_names(const std::string& root, std::string& trouble) {
  std::vector<CheckpointName> names;
  std::error_code code;
  for (fs::directory_iterator at(root, code), end; !code && at != end; at.increment(code)) {
    const auto name = parse_checkpoint_directory_name(at->path().filename().string());
    if (name) names.push_back(*name);
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    trouble = root + ": cannot be listed: " + code.message();
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string shard_fault(const std::string& path, const ShardRecord& shard) {
  std::error_code code;
  const std::uint64_t bytes = fs::file_size(path + "/" + shard.file, code);
  if (code) return shard.file + ": " + code.message();
  if (bytes == shard.bytes) return "";
  return shard.file + ": has " + std::to_string(bytes) + " bytes, the manifest says " +
         std::to_string(shard.bytes);
}

// What the log and the newest manifest know about where generations began. Both are used: a log
// that lost lines can then only make the rule stricter, never wrong.
std::vector<GenerationFork> known_forks(const ResumeLog& log,
                                        const std::vector<GenerationFork>& lineage) {
  std::map<std::uint64_t, std::uint64_t> forks;
  const auto note = [&forks](std::uint64_t generation, std::uint64_t step) {
    const auto [place, fresh] = forks.try_emplace(generation, step);
    if (!fresh) place->second = std::min(place->second, step);
  };
  for (const GenerationLine& line : log.generations) note(line.generation, line.fork_step);
  for (const GenerationFork& fork : lineage) note(fork.generation, fork.fork_step);
  std::vector<GenerationFork> sorted;
  for (const auto& [generation, step] : forks) sorted.push_back({generation, step});
  return sorted;
}

std::uint64_t highest_generation(const std::vector<CheckpointName>& names,
                                 const std::vector<GenerationFork>& forks) {
  std::uint64_t highest = forks.empty() ? 0 : forks.back().generation;
  for (const CheckpointName& name : names) highest = std::max(highest, name.generation);
  return highest;
}

bool is_newer(const FoundCheckpoint& a, const FoundCheckpoint& b) {
  return std::tie(a.step, a.generation) > std::tie(b.step, b.generation);
}

}  // namespace

bool is_on_lineage(std::uint64_t step, std::uint64_t generation,
                   const std::vector<GenerationFork>& forks) {
  return std::all_of(forks.begin(), forks.end(), [&](const GenerationFork& fork) {
    return fork.generation <= generation || fork.fork_step >= step;
  });
}

const FoundCheckpoint* CheckpointSearch::newest(CheckpointGrade at_least) const {
  for (const FoundCheckpoint& found : usable) {
    if (found.grade >= at_least) return &found;
  }
  return nullptr;
}

Checked<Manifest> read_manifest_alone(const std::string& path) {
  auto content = read_checkpoint_text(path + "/" + checkpoint_manifest_name, manifest_limit_bytes);
  if (!content) return content.fault();
  auto manifest = parse_manifest(content.value());
  if (!manifest) return manifest;
  const CheckpointName name{manifest.value().step, manifest.value().generation};
  if (fs::path(path).filename().string() != checkpoint_directory_name(name)) {
    return CheckpointFault{"the manifest belongs to " + checkpoint_directory_name(name)};
  }
  return manifest;
}

Checked<Manifest> read_manifest(const std::string& path) {
  auto manifest = read_manifest_alone(path);
  if (!manifest) return manifest;
  for (const ShardRecord& shard : manifest.value().shards) {
    const std::string fault = shard_fault(path, shard);
    if (!fault.empty()) return CheckpointFault{fault};
  }
  return manifest;
}

CheckpointSearch search_checkpoints(const std::string& root) {
  CheckpointSearch search;
  const ResumeLog log = read_resume_log(root);
  search.trouble = log.unreadable;
  const std::vector<CheckpointName> names = checkpoint_names(root, search.trouble);
  std::vector<GenerationFork> lineage;
  std::uint64_t lineage_generation = 0;
  std::vector<FoundCheckpoint> valid;
  for (const CheckpointName& name : names) {
    const std::string directory = checkpoint_directory_name(name);
    const std::string path = root + "/" + directory;
    const auto manifest = read_manifest(path);
    if (!manifest) {
      std::error_code code;
      const bool committed = fs::exists(path + "/" + checkpoint_manifest_name, code) || code;
      search.rejected.push_back({directory, manifest.reason(), committed});
      continue;
    }
    if (name.generation >= lineage_generation) {
      lineage = manifest.value().lineage;
      lineage_generation = name.generation;
    }
    const CheckpointStanding standing = standing_in(log, path);
    if (const auto* bad = std::get_if<CheckpointQuarantine>(&standing)) {
      search.rejected.push_back({directory, "is quarantined", true, *bad});
    } else {
      const auto grade = std::get<CheckpointGrade>(standing);
      valid.push_back(
          {name.step, name.generation, directory, path, grade, manifest.value().train.loss_ema});
    }
  }
  search.forks = known_forks(log, lineage);
  search.highest_generation = highest_generation(names, search.forks);
  for (FoundCheckpoint& found : valid) {
    if (is_on_lineage(found.step, found.generation, search.forks)) {
      search.usable.push_back(std::move(found));
    } else {
      search.rejected.push_back(
          {found.directory, "a later generation began before this step", true});
    }
  }
  std::sort(search.usable.begin(), search.usable.end(), is_newer);
  return search;
}

}  // namespace muster
