#include "runtime/data/token_verify.h"

#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/protocol/crc32c.h"

namespace muster {
namespace {

constexpr const char* advice = ": the file was changed or its disk fails; copy or make it again";

// Number of the first chunk of each shard, and the end.
std::vector<std::uint64_t> first_chunks(const TokenDataset& dataset) {
  std::vector<std::uint64_t> firsts{0};
  for (const DatasetShard& shard : dataset.shards) {
    firsts.push_back(firsts.back() + shard.layout.chunks());
  }
  return firsts;
}

template <class Number>
std::optional<std::uint64_t> first_above(std::string_view bytes, std::uint64_t vocabulary) {
  const std::size_t count = bytes.size() / sizeof(Number);
  std::uint32_t highest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    highest = std::max<std::uint32_t>(highest, number);
  }
  if (highest < vocabulary) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    if (number >= vocabulary) return i * sizeof number;
  }
  return std::nullopt;
}

// Where in `bytes`, which begin at byte `begin` of the file, the first impossible token stands.
std::optional<std::uint64_t> impossible_token(const TokenShardLayout& layout,
                                              std::string_view bytes, std::uint64_t begin,
                                              std::uint64_t vocabulary) {
  const std::uint64_t tokens_end = token_shard_header_bytes + layout.tokens * layout.token_bytes;
  const std::uint64_t lo = std::max(begin, token_shard_header_bytes);
  const std::uint64_t hi = std::min(begin + bytes.size(), tokens_end);
  if (lo >= hi) return std::nullopt;
  const std::string_view tokens = bytes.substr(lo - begin, hi - lo);
  const auto at = layout.token_bytes == 2 ? first_above<std::uint16_t>(tokens, vocabulary)
                                          : first_above<std::uint32_t>(tokens, vocabulary);
  if (!at) return std::nullopt;
  return lo + *at;
}

// One thread's work; the results of all lie beside each other.
class ChunkReader {
 public:
  ChunkReader(const TokenDataset& dataset, std::uint64_t vocabulary)
      : dataset_(dataset), vocabulary_(vocabulary), buffer_(token_chunk_bytes, '\0') {}

  Checked<std::uint32_t> read(std::size_t shard_number, std::uint64_t chunk) {
    if (auto opened = open(shard_number); !opened) return opened.fault();
    const DatasetShard& shard = dataset_.shards[shard_number];
    const std::uint64_t begin = chunk * token_chunk_bytes;
    const std::uint64_t bytes = std::min(token_chunk_bytes, shard.layout.file_bytes - begin);
    if (auto got = file_->read_at(begin, buffer_.data(), bytes); !got) return got.fault();
    const std::string_view content(buffer_.data(), bytes);
    const std::uint32_t crc = crc32c(content);
    if (differs(shard, chunk, content, crc)) {
      return damaged_token_file(shard.path, begin,
                                std::string("the checksum of the MiB from here is wrong") + advice);
    }
    const auto wrong = impossible_token(shard.layout, content, begin, vocabulary_);
    if (!wrong) return crc;
    return damaged_token_file(shard.path, *wrong,
                              "the token here is outside the vocabulary of " +
                                  std::to_string(vocabulary_) + ": give a larger --vocabulary");
  }

 private:
  Checked<NoValue> open(std::size_t shard_number) {
    if (file_ && shard_number == open_shard_) return NoValue{};
    const DatasetShard& shard = dataset_.shards[shard_number];
    auto file = CheckpointFile::open_for_reading(shard.path);
    if (!file) return file.fault();
    inside_.clear();
    if (shard.chunk_crc32c.empty() && shard.layout.version == 2) {
      auto checksums = read_token_shard_checksums(shard.path, shard.layout);
      if (!checksums) return checksums.fault();
      inside_ = std::move(checksums.value());
    }
    file_ = std::move(file.value());
    open_shard_ = shard_number;
    return NoValue{};
  }

  // The checksums inside a file end where they begin.
  bool differs(const DatasetShard& shard, std::uint64_t chunk, std::string_view content,
               std::uint32_t crc) const {
    if (!shard.chunk_crc32c.empty()) return crc != shard.chunk_crc32c[chunk];
    if (chunk >= inside_.size()) return false;
    const std::uint64_t covered = shard.layout.checksums_offset - chunk * token_chunk_bytes;
    return crc32c(content.substr(0, covered)) != inside_[chunk];
  }

  const TokenDataset& dataset_;
  std::uint64_t vocabulary_;
  std::string buffer_;
  std::optional<CheckpointFile> file_;
  std::size_t open_shard_ = 0;
  std::vector<std::uint32_t> inside_;
};

bool lies_on_shared_storage(const std::string& path) {
  struct statfs facts {};
  if (::statfs(path.c_str(), &facts) != 0) return false;
  constexpr std::uint32_t shared[] = {0x6969,       // NFS
                                      0xFE534D42,   // SMB 2
                                      0xFF534D42,   // CIFS
                                      0x0BD00BD0,   // Lustre
                                      0x00C36400,   // Ceph
                                      0x47504653,   // GPFS
                                      0x19830326};  // BeeGFS
  return std::find(std::begin(shared), std::end(shared),
                   static_cast<std::uint32_t>(facts.f_type)) != std::end(shared);
}

}  // namespace

ChunkRange share_of_chunks(std::uint64_t chunks, std::size_t party, std::size_t parties) {
  return {chunks * party / parties, chunks * (party + 1) / parties};
}

Checked<std::vector<std::uint32_t>> verify_chunks(const TokenDataset& dataset, ChunkRange range,
                                                  std::uint64_t vocabulary, std::size_t threads) {
  const std::vector<std::uint64_t> firsts = first_chunks(dataset);
  std::vector<std::uint32_t> checksums(range.hi - range.lo);
  std::atomic<std::uint64_t> next = range.lo;
  std::mutex mutex;
  std::uint64_t first_fault = std::numeric_limits<std::uint64_t>::max();
  CheckpointFault fault;
  const auto work = [&] {
    ChunkReader reader(dataset, vocabulary);
    for (std::uint64_t chunk = next++; chunk < range.hi; chunk = next++) {
      const auto after = std::upper_bound(firsts.begin(), firsts.end(), chunk);
      const auto shard = static_cast<std::size_t>(after - firsts.begin() - 1);
      const auto crc = reader.read(shard, chunk - firsts[shard]);
      if (crc) {
        checksums[chunk - range.lo] = crc.value();
        continue;
      }
      next = range.hi;  // chunks before this one are being read already
      const std::lock_guard lock(mutex);
      if (chunk >= first_fault) continue;
      first_fault = chunk;
      fault = crc.fault();
    }
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (first_fault < range.hi) return fault;
  return checksums;
}

std::string name_of_files(const TokenDataset& dataset, const std::string& host) {
  std::uint32_t crc = 0;
  bool shared = true;
  for (const DatasetShard& shard : dataset.shards) {
    struct stat facts {};
    if (::stat(shard.path.c_str(), &facts) != 0) continue;
    const std::uint64_t numbers[] = {facts.st_ino, static_cast<std::uint64_t>(facts.st_size),
                                     static_cast<std::uint64_t>(facts.st_mtim.tv_sec),
                                     static_cast<std::uint64_t>(facts.st_mtim.tv_nsec)};
    crc = crc32c_extend(crc, numbers, sizeof numbers);
    shared = shared && lies_on_shared_storage(shard.path);
  }
  return std::to_string(crc) + (shared ? "" : "@" + host);
}

}  // namespace muster
