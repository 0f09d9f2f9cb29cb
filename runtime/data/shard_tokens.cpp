#include "runtime/data/shard_tokens.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace muster {
namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;
#endif

struct Pages {
  char* begin = nullptr;
  std::size_t bytes = 0;
};

Pages pages_around(const Mapping& memory, std::uint64_t offset, std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  return {static_cast<char*>(memory.get()) + begin, offset + bytes - begin};
}

template <class Number>
void widen(const char* from, std::span<std::uint32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Number number;
    std::memcpy(&number, from + i * sizeof number, sizeof number);
    tokens[i] = number;
  }
}

}  // namespace

Checked<MappedFile> MappedFile::open(const std::string& path, std::uint64_t bytes) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return CheckpointFault{path + ": open failed: " + std::strerror(errno)};
  auto file = take(std::move(fd), path, bytes);
  // The mapping stays without it, and a process may have few descriptors.
  if (file) Descriptor(std::move(file.value().fd_));
  return file;
}

Checked<MappedFile> MappedFile::take(Descriptor fd, const std::string& path, std::uint64_t bytes) {
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != bytes) {
    return CheckpointFault{path + ": is not " + std::to_string(bytes) + " bytes long", true};
  }
  Mapping memory(bytes, PROT_READ, MAP_SHARED, fd.get());
  if (memory.get() == nullptr) {
    return CheckpointFault{path + ": mmap failed: " + std::strerror(errno)};
  }
  // Samples lie all over the file: what follows one is not read next.
  ::madvise(memory.get(), bytes, MADV_RANDOM);
  return MappedFile(std::move(fd), path, std::move(memory));
}

void MappedFile::will_need(std::uint64_t offset, std::uint64_t bytes) const {
  const Pages pages = pages_around(memory_, offset, bytes);
  ::madvise(pages.begin, pages.bytes, MADV_WILLNEED);
}

bool MappedFile::load(std::uint64_t offset, std::uint64_t bytes) const {
  const Pages pages = pages_around(memory_, offset, bytes);
  int result = 0;
  do {
    result = ::madvise(pages.begin, pages.bytes, MADV_POPULATE_READ);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL;  // EINVAL: a kernel that does not know the advice
}

ShardTokens::ShardTokens(std::uint64_t vocabulary, Warn warn)
    : vocabulary_(vocabulary), warn_(std::move(warn)) {}

Checked<std::unique_ptr<ShardTokens>> ShardTokens::open(const TokenDataset& dataset,
                                                        std::uint64_t vocabulary, Warn warn) {
  std::unique_ptr<ShardTokens> line(new ShardTokens(vocabulary, std::move(warn)));
  for (const DatasetShard& shard : dataset.shards) {
    auto file = MappedFile::open(shard.path, shard.layout.file_bytes);
    if (!file) return file.fault();
    line->shards_.push_back(std::make_unique<Shard>(shard.layout, std::move(file.value())));
    line->begins_.push_back(line->begins_.back() + shard.layout.tokens);
  }
  return line;
}

ShardTokens::Part ShardTokens::part_at(std::uint64_t at, std::uint64_t count) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), at);
  const auto shard = static_cast<std::size_t>(after - begins_.begin() - 1);
  const std::uint64_t inside = at - begins_[shard];
  return {shard, token_shard_header_bytes + inside * shards_[shard]->layout.token_bytes,
          std::min(count, *after - at)};
}

void ShardTokens::expect(std::uint64_t at, std::uint64_t count) const {
  while (count > 0) {
    const Part part = part_at(at, count);
    current(part.shard)
        .will_need(part.offset, part.tokens * shards_[part.shard]->layout.token_bytes);
    at += part.tokens;
    count -= part.tokens;
  }
}

// The file to read from, its pages in memory.
const MappedFile& ShardTokens::loaded(const Part& part) const {
  const Shard& shard = *shards_[part.shard];
  const std::uint64_t bytes = part.tokens * shard.layout.token_bytes;
  const MappedFile* file = &current(part.shard);
  if (file->load(part.offset, bytes)) return *file;
  if (file != &shard.source) {
    warn_(file->path() + ": cannot be read any more; the tokens come from " + shard.source.path() +
          " again");
    shard.current.store(&shard.source, std::memory_order_release);
    if (shard.source.load(part.offset, bytes)) return shard.source;
  }
  throw DataError(shard.source.path() + ": byte " + std::to_string(part.offset) + ": the " +
                  std::to_string(bytes) +
                  " bytes from here cannot be read: the file became shorter, or its disk fails");
}

void ShardTokens::copy_part(const Part& part, std::span<std::uint32_t> tokens) const {
  const MappedFile& file = loaded(part);
  const std::uint64_t token_bytes = shards_[part.shard]->layout.token_bytes;
  if (token_bytes == 2) widen<std::uint16_t>(file.data() + part.offset, tokens);
  if (token_bytes == 4) widen<std::uint32_t>(file.data() + part.offset, tokens);
  std::uint32_t highest = 0;
  for (const std::uint32_t token : tokens) highest = std::max(highest, token);
  if (highest < vocabulary_) return;
  const auto wrong = std::find_if(tokens.begin(), tokens.end(),
                                  [&](std::uint32_t token) { return token >= vocabulary_; });
  const auto index = static_cast<std::uint64_t>(wrong - tokens.begin());
  throw DataError(file.path() + ": byte " + std::to_string(part.offset + index * token_bytes) +
                  ": token " + std::to_string(*wrong) + " is outside the vocabulary of " +
                  std::to_string(vocabulary_));
}

void ShardTokens::copy(std::uint64_t at, std::span<std::uint32_t> tokens) const {
  while (!tokens.empty()) {
    const Part part = part_at(at, tokens.size());
    copy_part(part, tokens.first(part.tokens));
    at += part.tokens;
    tokens = tokens.subspan(part.tokens);
  }
}

void ShardTokens::use_copy(std::size_t shard, MappedFile copy) {
  Shard& held = *shards_[shard];
  held.copy = std::make_unique<MappedFile>(std::move(copy));
  held.current.store(held.copy.get(), std::memory_order_release);
}

}  // namespace muster
