#include "runtime/checkpoint/choose.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"

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
      const bool committed = may_exist(path + "/" + checkpoint_manifest_name);
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

CheckpointReader::CheckpointReader(std::string path, const Manifest& manifest)
    : path_(std::move(path)), manifest_(manifest), header_checked_(manifest.shards.size(), false) {}

Checked<NoValue> CheckpointReader::load_chunk(std::size_t shard_index, std::uint64_t chunk) {
  if (chunk_shard_ == shard_index && chunk_index_ == chunk) return NoValue{};
  const ShardRecord& shard = manifest_.shards[shard_index];
  const std::string path = path_ + "/" + shard.file;
  auto file = CheckpointFile::open_for_reading(path);
  if (!file) return file.fault();
  const std::uint64_t begin = chunk * shard.chunk_bytes;
  const std::uint64_t end = std::min(shard.bytes, begin + shard.chunk_bytes);
  chunk_shard_ = ~std::size_t{0};
  chunk_.resize(end - begin);
  if (auto got = file.value().read_at(begin, chunk_.data(), chunk_.size()); !got)
    return got.fault();
  if (crc32c_extend(0, chunk_.data(), chunk_.size()) != shard.chunk_crc32c[chunk]) {
    return CheckpointFault{path + ": bytes " + std::to_string(begin) + " to " +
                               std::to_string(end) + " do not match their checksum",
                           true};
  }
  chunk_shard_ = shard_index;
  chunk_index_ = chunk;
  return NoValue{};
}

Checked<NoValue> CheckpointReader::read_from_shard(std::size_t shard_index,
                                                   std::uint64_t offset_bytes,
                                                   std::span<float> out) {
  if (!header_checked_[shard_index]) {
    if (auto loaded = load_chunk(shard_index, 0); !loaded) return loaded.fault();
    header_checked_[shard_index] = true;
  }
  const std::uint64_t chunk_bytes = manifest_.shards[shard_index].chunk_bytes;
  char* target = reinterpret_cast<char*>(out.data());
  std::uint64_t left = out.size_bytes();
  while (left > 0) {
    const std::uint64_t chunk = offset_bytes / chunk_bytes;
    if (auto loaded = load_chunk(shard_index, chunk); !loaded) return loaded.fault();
    const std::uint64_t inside = offset_bytes - chunk * chunk_bytes;
    const std::uint64_t piece = std::min<std::uint64_t>(left, chunk_.size() - inside);
    std::memcpy(target, chunk_.data() + inside, piece);
    target += piece;
    offset_bytes += piece;
    left -= piece;
  }
  return NoValue{};
}

Checked<NoValue> CheckpointReader::read(std::size_t plane, std::uint64_t first,
                                        std::span<float> out) {
  const std::uint64_t last = first + out.size();
  if (plane >= flat_planes || last > manifest_.flat.numel) {
    return CheckpointFault{path_ + ": values outside the flat space requested"};
  }
  for (std::size_t index = 0; index < manifest_.shards.size(); ++index) {
    const ShardRecord& shard = manifest_.shards[index];
    const std::uint64_t lo = std::max(first, shard.range.lo);
    const std::uint64_t hi = std::min(last, shard.range.hi);
    if (lo >= hi) continue;
    const std::uint64_t element = plane * shard.range.size() + (lo - shard.range.lo);
    const std::uint64_t offset = shard.data_offset + element * sizeof(float);
    auto got = read_from_shard(index, offset, out.subspan(lo - first, hi - lo));
    if (!got) return got.fault();
  }
  return NoValue{};
}

std::string normal_path(const std::string& path) {
  std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.string();
}

}  // namespace muster
