#include "runtime/train/save/background.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/flat_space.h"
#include "runtime/train/save/save.h"

namespace muster {
namespace {

constexpr std::size_t huge_page_bytes = 2 << 20;
constexpr std::size_t page_bytes = 4096;

// First letter of a note.
constexpr char is_done = '+';      // then the rank's part, or the trouble after the commit
constexpr char has_failed = '-';   // then the reason
constexpr char needs_fetch = '?';  // rank 0 does not see all shards

std::string note_of(const Checked<std::string>& result) {
  return result ? result.value() : has_failed + result.reason();
}

// Copied at once: small enough to stay in the second cache between hash and copy.
constexpr std::uint64_t copy_elements = 64 << 10;

// So long a rank waits for its own thread before it asks for the others.
constexpr auto own_thread_pause = std::chrono::milliseconds(5);

constexpr std::uint64_t mib = 1 << 20;

namespace fs = std::filesystem;

// The number after `word` in a file of lines "word number …".
std::optional<std::uint64_t> number_after(const fs::path& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string first; file >> first; file.ignore(1 << 20, '\n')) {
    std::uint64_t number = 0;
    if (first == word && file >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // such as "max"
}

// "0::/path" in /proc/self/cgroup.
std::string cgroup_of_self(const fs::path& proc) {
  std::ifstream file(proc / "self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return "";
}

std::optional<std::uint64_t> left_in(const fs::path& group) {
  const auto limit = number_in(group / "memory.max");
  const auto used = number_in(group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const std::uint64_t cache = number_after(group / "memory.stat", "inactive_file").value_or(0) +
                              number_after(group / "memory.stat", "active_file").value_or(0);
  const std::uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

PageMemory::PageMemory(std::size_t floats)
    : memory_(std::max<std::size_t>(floats * sizeof(float), 1) + huge_page_bytes,
              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1) {
  if (memory_.get() == nullptr) throw std::bad_alloc();
  (void)::madvise(memory_.get(), memory_.bytes(), MADV_HUGEPAGE);  // small pages do as well
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  const std::uintptr_t begin = (address + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  char* first = static_cast<char*>(memory_.get()) + (begin - address);
  for (std::size_t at = 0; at < floats * sizeof(float); at += page_bytes) {
    const_cast<volatile char*>(first)[at] = 0;
  }
  floats_ = {reinterpret_cast<float*>(first), floats};
}

BackgroundSave::BackgroundSave(SaveContext& context, const FlatSpace& space, Communicator& ranks)
    : context_(context),
      space_(space),
      ranks_(ranks),
      rank_(ranks.rank()),
      size_(ranks.size()),
      slot_(flat_planes * owned_elements(space, ranks.rank(), ranks.size()).size()) {}

BackgroundSave::~BackgroundSave() {
  if (work_.valid()) work_.wait();
}

void BackgroundSave::begin(const TrainingState& state) {
  progress_ = state;
  owned_ = state.owned;
  phase_ = Phase::writing;
  since_begin_ = {};
  durable_s_ = 0;
  note_.clear();
  std::promise<void> copied;
  copied_ = copied.get_future();
  work_ = std::async(std::launch::async, [this, &state, copied = std::move(copied)]() mutable {
    return copy_and_write(state, std::move(copied));
  });
}

PlaneSpans BackgroundSave::slot_planes() const {
  const std::span<const float> slot = slot_.floats();
  const std::uint64_t count = owned_.size();
  return {slot.first(count), slot.subspan(count, count), slot.subspan(2 * count, count)};
}

// The hash of the source is taken while its values are on their way.
SourceHashes BackgroundSave::copy(const TrainingState& state,
                                  const std::function<void(std::uint64_t)>& filled) {
  const std::uint64_t count = owned_.size();
  const PlaneSpans sources{state.own(state.weights), state.own(state.exp_avg),
                           state.own(state.exp_avg_sq)};
  SourceHashes hashes;
  hashes.owned.emplace();
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    for (std::uint64_t at = 0; at < count; at += copy_elements) {
      const auto part = sources[plane].subspan(at, std::min(copy_elements, count - at));
      (*hashes.owned)[plane] += plane_hash(plane, owned_.lo + at, part);
      std::copy(part.begin(), part.end(), &slot_.floats()[plane * count + at]);
      filled((plane * count + at + part.size()) * sizeof(float));
    }
  }
  if (state.holds_own_only(state.weights)) return hashes;
  const auto weights = std::span(state.weights);
  hashes.weights = (*hashes.owned)[0] + plane_hash(0, 0, weights.first(owned_.lo)) +
                   plane_hash(0, owned_.hi, weights.subspan(owned_.hi));
  return hashes;
}

// The copy waits for nothing: where opening the file takes long, all of it is written afterwards.
Checked<std::string> BackgroundSave::copy_and_write(const TrainingState& state,
                                                    std::promise<void> copied) {
  auto opening = std::async(std::launch::async, [this] {
    return begin_part(context_, space_, progress_.step, {rank_, size_, owned_}, slot_planes());
  });
  std::optional<Checked<ShardWrite>> shard;
  const SourceHashes source = copy(state, [&](std::uint64_t bytes) {
    if (!shard && is_ready(opening)) shard = opening.get();
    if (shard && shard->ok()) shard->value().filled(bytes);
  });
  copied_s_ = since_begin_.seconds();
  copied.set_value();
  step_back();
  if (!shard) shard = opening.get();
  if (!shard->ok()) return shard->fault();
  const auto part = finish_part(shard->value(), source);
  if (!part) return part;
  if (size_ > 1) return is_done + part.value();
  parts_ = {part.value()};
  const auto manifest = make_manifest(context_, space_, progress_, parts_);
  return manifest ? commit_unless_missing(manifest.value()) : manifest.fault();
}

// The commit, or the wish to fetch shards first.
Checked<std::string> BackgroundSave::commit_unless_missing(const Manifest& manifest) {
  if (given_up_) return CheckpointFault{"was given up"};
  if (!missing_shards(path_of_save(context_, progress_.step), manifest).empty())
    return std::string(1, needs_fetch);
  const auto trouble =
      commit_and_collect(context_, manifest, [this] { durable_s_ = since_begin_.seconds(); });
  return trouble ? is_done + trouble.value() : trouble;
}

std::string BackgroundSave::note() {
  if (is_ready(work_)) note_ = note_of(work_.get());
  return note_;
}

std::optional<SaveOutcome> BackgroundSave::hear(const std::vector<std::string>& notes) {
  if (phase_ == Phase::idle) return std::nullopt;
  if (phase_ == Phase::writing && notes.size() > 1) return hear_parts(notes);
  return hear_commit(notes.front());
}

std::optional<SaveOutcome> BackgroundSave::hear_parts(const std::vector<std::string>& notes) {
  if (std::any_of(notes.begin(), notes.end(), [](const auto& note) { return note.empty(); })) {
    return std::nullopt;
  }
  parts_.clear();
  for (std::size_t r = 0; r < notes.size(); ++r) {
    if (notes[r].front() == has_failed) {
      return end(CheckpointFault{"rank " + std::to_string(r) + ": " + notes[r].substr(1)});
    }
    parts_.push_back(notes[r].substr(1));
  }
  phase_ = Phase::committing;
  note_.clear();
  auto manifest = make_manifest(context_, space_, progress_, parts_);
  if (!manifest) return end(manifest.fault());
  if (rank_ == 0) {
    work_ = std::async(std::launch::async, [this, manifest = std::move(manifest.value())] {
      step_back();
      return commit_unless_missing(manifest);
    });
  }
  return std::nullopt;
}

std::optional<SaveOutcome> BackgroundSave::hear_commit(const std::string& note) {
  if (note.empty()) return std::nullopt;
  if (note.front() == has_failed) return end(CheckpointFault{note.substr(1)});
  if (note.front() == is_done) return end(note.substr(1));
  const auto manifest = make_manifest(context_, space_, progress_, parts_);
  return end(fetch_and_commit(context_, manifest.value(), ranks_,
                              [this] { durable_s_ = since_begin_.seconds(); }));
}

SaveOutcome BackgroundSave::end(const Checked<std::string>& trouble) {
  phase_ = Phase::idle;
  SaveOutcome outcome = conclude_save(context_, progress_.step, trouble);
  outcome.copied_s = copied_s_;
  outcome.durable_s = durable_s_;
  return outcome;
}

SaveOutcome BackgroundSave::finish() {
  while (true) {
    if (work_.valid()) work_.wait();
    if (auto outcome = hear(ranks_.gather_texts(note()))) return std::move(*outcome);
  }
}

std::optional<SaveOutcome> BackgroundSave::finish_within(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    if (work_.valid()) work_.wait_for(own_thread_pause);
    const bool is_late = std::chrono::steady_clock::now() > end;
    std::vector<std::string> notes = ranks_.gather_texts((is_late ? "!" : " ") + note());
    const bool is_over = notes.front().front() == '!';
    for (std::string& note : notes) note.erase(0, 1);
    if (auto outcome = hear(notes)) return outcome;
    if (is_over) return std::nullopt;
  }
}

void BackgroundSave::give_up() {
  given_up_ = true;
  wait_for_copy();
}

std::string lack_of_memory(const std::vector<HostMemory>& ranks) {
  std::map<std::string, HostMemory> hosts;
  for (const HostMemory& rank : ranks) {
    HostMemory& sum = hosts[rank.host];
    sum.slot_bytes += rank.slot_bytes;
    if (!rank.available_bytes) continue;
    sum.available_bytes = std::min(sum.available_bytes.value_or(~0ull), *rank.available_bytes);
  }
  for (const auto& [host, sum] : hosts) {
    if (!sum.available_bytes) continue;
    if (sum.slot_bytes <= *sum.available_bytes - *sum.available_bytes / 20) continue;
    return "saving in the background takes " + std::to_string(sum.slot_bytes / mib) + " MiB on " +
           host + ", where " + std::to_string(*sum.available_bytes / mib) + " MiB are free";
  }
  return "";
}

bool saves_in_background(const TrainOptions& options, const std::string& host,
                         const FlatSpace& space, Communicator& ranks, std::string& warning) {
  const auto bytes_of = [&](std::size_t rank) {
    return owned_elements(space, rank, ranks.size()).size() * flat_planes * sizeof(float);
  };
  const bool wanted =
      options.save_mode == SaveMode::background ||
      (options.save_mode == SaveMode::automatic && bytes_of(0) >= background_save_bytes);
  if (!wanted) return false;
  const HostMemory mine{host, bytes_of(ranks.rank()), available_memory_bytes()};
  const std::string lack = lack_of_memory(gather_values(ranks, mine));
  if (lack.empty()) return true;
  warning = lack + ": training blocks on every checkpoint";
  return false;
}

std::optional<std::uint64_t> available_memory_bytes(const std::string& proc,
                                                    const std::string& cgroups) {
  auto least = number_after(fs::path(proc) / "meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  fs::path group = fs::path(cgroups) / cgroup_of_self(proc);
  while (true) {
    const auto left = left_in(group);
    if (left) least = std::min(least.value_or(*left), *left);
    if (group == fs::path(cgroups) || !group.has_relative_path()) return least;
    group = group.parent_path();
  }
}

}  // namespace muster
