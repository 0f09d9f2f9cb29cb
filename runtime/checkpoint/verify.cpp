#include "runtime/checkpoint/verify.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"

namespace muster {
namespace {

// What one chunk of a shard gave.
struct ChunkFacts {
  std::string fault;  // why it could not be read; empty: it could
  std::uint32_t crc32c = 0;
  std::array<TensorStats, flat_planes> vitals;  // of its own elements
};

struct OpenShard {
  std::optional<CheckpointFile> file;  // none: it cannot be opened, or is cut short
  std::vector<ChunkFacts> chunks;
};

struct ChunkPlace {
  std::size_t shard = 0;
  std::uint64_t chunk = 0;
};

std::uint64_t chunk_begin(const ShardRecord& shard, std::uint64_t chunk) {
  return chunk * shard.chunk_bytes;
}

std::uint64_t chunk_length(const ShardRecord& shard, std::uint64_t chunk) {
  return std::min(shard.bytes - chunk_begin(shard, chunk), shard.chunk_bytes);
}

// The vitals of those elements of a plane that lie in the chunk, whose bytes are `values`.
TensorStats stats_in_chunk(const ShardRecord& shard, std::uint64_t chunk, std::size_t plane,
                           std::span<const float> values) {
  const std::uint64_t begin = chunk_begin(shard, chunk);
  const std::uint64_t plane_bytes = shard.range.size() * sizeof(float);
  const std::uint64_t plane_begin = shard.data_offset + plane * plane_bytes;
  const std::uint64_t lo = std::max(begin, plane_begin);
  const std::uint64_t hi = std::min(begin + chunk_length(shard, chunk), plane_begin + plane_bytes);
  if (lo >= hi) return {};
  const std::uint64_t first = shard.range.lo + (lo - plane_begin) / sizeof(float);
  return tensor_stats(plane, first,
                      values.subspan((lo - begin) / sizeof(float), (hi - lo) / sizeof(float)));
}

ChunkFacts look_at_chunk(const CheckpointFile& file, const ShardRecord& shard, std::uint64_t chunk,
                         std::vector<float>& buffer) {
  ChunkFacts facts;
  const std::uint64_t bytes = chunk_length(shard, chunk);
  buffer.resize(bytes / sizeof(float));  // chunks, headers and planes are whole floats
  const auto got = file.read_at(chunk_begin(shard, chunk), buffer.data(), bytes);
  if (!got) {
    facts.fault = got.reason();
    return facts;
  }
  facts.crc32c = crc32c_extend(0, buffer.data(), bytes);
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    facts.vitals[plane] = stats_in_chunk(shard, chunk, plane, buffer);
  }
  return facts;
}

TensorStats joined(const std::vector<ChunkFacts>& chunks, std::size_t plane) {
  TensorStats sum;
  double squares = 0;
  for (const ChunkFacts& chunk : chunks) {
    const TensorStats& part = chunk.vitals[plane];
    sum.nonfinite += part.nonfinite;
    sum.absmax = std::fmax(sum.absmax, part.absmax);
    squares += part.l2 * part.l2;
    sum.hash += part.hash;
  }
  sum.l2 = std::sqrt(squares);
  return sum;
}

// Which of the vitals differ, empty: none.
std::string stats_conflict(const TensorStats& read, const TensorStats& written) {
  constexpr double l2_tolerance = 1e-9;
  std::string differing;
  const auto differ = [&](bool does, const char* name) {
    if (does) differing += (differing.empty() ? "" : ", ") + std::string(name);
  };
  differ(read.hash != written.hash, "hash");
  differ(read.nonfinite != written.nonfinite, "nonfinite");
  differ(read.absmax != written.absmax, "absmax");
  differ(!(std::fabs(read.l2 - written.l2) <= l2_tolerance * written.l2), "l2");
  return differing;
}

std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "bytes " + std::to_string(begin) + " to " + std::to_string(end);
}

class Verification {
 public:
  Verification(std::string path, const Manifest& manifest, const VerifySettings& settings)
      : path_(std::move(path)), manifest_(manifest), settings_(settings) {}

  CheckpointVerdict run() {
    for (const ShardRecord& shard : manifest_.shards) open(shard);
    read_all();
    bool whole = true;
    for (std::size_t i = 0; i < shards_.size(); ++i) whole = judge(i) && whole;
    if (whole) judge_state();
    return std::move(verdict_);
  }

 private:
  void damage(const std::string& file, std::uint64_t offset_bytes, std::string what,
              bool names_range = false) {
    verdict_.damage.push_back({file, offset_bytes, std::move(what), names_range});
  }

  void open(const ShardRecord& shard) {
    OpenShard& held = shards_.emplace_back();
    auto file = CheckpointFile::open_for_reading(path_ + "/" + shard.file);
    const auto size = file ? file.value().size() : Checked<std::uint64_t>(file.fault());
    if (!size) return damage(shard.file, 0, size.reason());
    if (size.value() != shard.bytes) {
      const char* how = size.value() < shard.bytes ? "ends here" : "continues here";
      damage(shard.file, std::min(size.value(), shard.bytes),
             std::string(how) + ": has " + std::to_string(size.value()) +
                 " bytes, the manifest says " + std::to_string(shard.bytes));
    }
    if (size.value() < shard.bytes) return;
    held.file = std::move(file.value());
    held.chunks.resize(shard.chunk_crc32c.size());
    for (std::uint64_t chunk = 0; chunk < held.chunks.size(); ++chunk) {
      places_.push_back({shards_.size() - 1, chunk});
    }
  }

  void read_all() {
    std::atomic<std::size_t> next{0};
    std::mutex telling;
    const auto work = [&] {
      std::vector<float> buffer;
      for (std::size_t at = next++; at < places_.size(); at = next++) {
        const ChunkPlace& place = places_[at];
        const ShardRecord& shard = manifest_.shards[place.shard];
        OpenShard& held = shards_[place.shard];
        held.chunks[place.chunk] = look_at_chunk(*held.file, shard, place.chunk, buffer);
        const std::lock_guard lock(telling);
        verdict_.bytes += chunk_length(shard, place.chunk);
        if (settings_.progress) settings_.progress(chunk_length(shard, place.chunk));
      }
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < settings_.threads && i < places_.size(); ++i)
      others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
  }

  // Whether every byte of the shard is as it was written.
  bool judge_chunks(const ShardRecord& shard, const std::vector<ChunkFacts>& chunks) {
    const std::size_t before = verdict_.damage.size();
    std::uint32_t file_crc = 0;
    for (std::uint64_t chunk = 0; chunk < chunks.size(); ++chunk) {
      const ChunkFacts& facts = chunks[chunk];
      const std::uint64_t begin = chunk_begin(shard, chunk);
      const std::uint64_t bytes = chunk_length(shard, chunk);
      file_crc = crc32c_combine(file_crc, facts.crc32c, bytes);
      if (!facts.fault.empty()) {
        damage(shard.file, begin, facts.fault);
      } else if (facts.crc32c != shard.chunk_crc32c[chunk]) {
        damage(shard.file, begin,
               range_text(begin, begin + bytes) + " do not match their checksum (chunk " +
                   std::to_string(chunk) + ")",
               true);
      }
    }
    if (verdict_.damage.size() == before && file_crc != shard.file_crc32c) {
      damage(shard.file, 0, "the checksum of the whole file does not match those of its chunks");
    }
    return verdict_.damage.size() == before;
  }

  void judge_header(const ShardRecord& shard, const CheckpointFile& file) {
    std::string bytes(shard.data_offset, '\0');
    const auto got = file.read_at(0, bytes.data(), bytes.size());
    if (!got) return damage(shard.file, 0, got.reason());
    const ShardIdentity identity{manifest_.run_id, manifest_.step, manifest_.generation,
                                 layout_hash(manifest_.flat)};
    const auto good = check_shard_header(bytes, identity, shard.range);
    if (!good) damage(shard.file, 0, good.reason());
  }

  bool judge(std::size_t index) {
    const ShardRecord& shard = manifest_.shards[index];
    const OpenShard& held = shards_[index];
    if (!held.file || !judge_chunks(shard, held.chunks)) return false;
    judge_header(shard, *held.file);
    for (std::size_t plane = 0; plane < flat_planes; ++plane) {
      const TensorStats vitals = joined(held.chunks, plane);
      state_hash_ += vitals.hash;
      const std::string differing = stats_conflict(vitals, shard.vitals[plane]);
      if (differing.empty()) continue;
      damage(shard.file, shard.data_offset + plane * shard.range.size() * sizeof(float),
             std::string(flat_plane_names[plane]) +
                 ": not the values that were in memory when it was saved: " + differing);
    }
    return true;
  }

  void judge_state() {
    if (state_hash_ == manifest_.state_hash) return;
    damage(checkpoint_manifest_name, 0, "state_hash: the values of all shards give another one");
  }

  std::string path_;
  const Manifest& manifest_;
  const VerifySettings& settings_;
  std::vector<OpenShard> shards_;
  std::vector<ChunkPlace> places_;
  std::uint64_t state_hash_ = 0;
  CheckpointVerdict verdict_;
};

}  // namespace

CheckpointVerdict verify_checkpoint(const std::string& path, const VerifySettings& settings) {
  const auto manifest = read_manifest_alone(path);
  if (!manifest) return {0, {{checkpoint_manifest_name, 0, manifest.reason()}}};
  CheckpointVerdict verdict = Verification(path, manifest.value(), settings).run();
  const auto certificate = read_certificate(path);
  if (!certificate) verdict.damage.push_back({checkpoint_cert_name, 0, certificate.reason()});
  return verdict;
}

}  // namespace muster
