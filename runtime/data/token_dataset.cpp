#include "runtime/data/token_dataset.h"

#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"
#include "scheduler/text/number.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

template <class Number>
std::uint64_t sum_over(const std::vector<DatasetShard>& shards, Number number) {
  return std::accumulate(
      shards.begin(), shards.end(), std::uint64_t{0},
      [&](std::uint64_t sum, const DatasetShard& shard) { return sum + number(shard.layout); });
}

std::string first_bytes(const std::string& path) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return {};
  const auto file = CheckpointFile::open_for_reading(path);
  std::string begin(4, '\0');
  return file && file.value().read_at(0, begin.data(), begin.size()) ? begin : std::string();
}

std::string layout_text(const TokenShardLayout& layout) {
  return "version " + std::to_string(layout.version) + ", " + std::to_string(layout.tokens) +
         " tokens of " + std::to_string(layout.token_bytes) + " bytes, " +
         std::to_string(layout.file_bytes) + " bytes in all";
}

// A shard that differs from its index was replaced, or belongs to another dataset.
Checked<NoValue> check_shard_files(const DatasetIndex& index, const std::string& index_path) {
  for (const DatasetShard& shard : index.dataset.shards) {
    auto found = read_token_shard_layout(shard.path);
    if (!found) return found.fault();
    found.value().vocabulary = shard.layout.vocabulary;  // that of the dataset may be larger
    if (found.value() == shard.layout) continue;
    return damaged_token_file(shard.path, 8,
                              "is another file than " + index_path +
                                  " names: " + layout_text(found.value()) + ", expected " +
                                  layout_text(shard.layout));
  }
  return NoValue{};
}

bool is_unfinished(const fs::path& directory) {
  std::error_code code;
  return fs::exists(directory / dataset_unfinished_name, code) &&
         !fs::exists(directory / dataset_index_name, code);
}

// The tokens that one path of --data leads to; none for text.
Checked<std::optional<TokenDataset>> dataset_at(const std::string& path) {
  std::error_code code;
  std::string directory = path;
  std::vector<std::string> files;
  if (fs::path(path).filename() == dataset_index_name) {
    directory = fs::path(path).parent_path().string();
    if (directory.empty()) directory = ".";
  } else if (!fs::is_directory(path, code)) {
    if (!looks_like_token_shard(first_bytes(path))) return std::optional<TokenDataset>();
    files = {path};
  } else if (!fs::exists(directory + "/" + dataset_index_name, code)) {
    files = find_token_shards(path);
    if (files.empty()) return std::optional<TokenDataset>();
  }
  if (!files.empty()) {
    auto dataset = dataset_of_files(files);
    if (!dataset) return dataset.fault();
    return std::optional(std::move(dataset.value()));
  }
  auto index = read_dataset_index(directory);
  if (!index) return index.fault();
  if (auto same = check_shard_files(index.value(), directory + "/" + dataset_index_name); !same) {
    return same.fault();
  }
  return std::optional(std::move(index.value().dataset));
}

Checked<NoValue> append(TokenDataset& line, const TokenDataset& more, const std::string& path) {
  if (!line.shards.empty()) {
    if (line.tokenizer_hash != more.tokenizer_hash) {
      return CheckpointFault{path + ": its tokens come from another tokenizer than those before"};
    }
    const bool known = line.vocabulary > 0 && more.vocabulary > 0;
    line.vocabulary = known ? std::max(line.vocabulary, more.vocabulary) : 0;
  } else {
    line.vocabulary = more.vocabulary;
    line.tokenizer_hash = more.tokenizer_hash;
  }
  line.shards.insert(line.shards.end(), more.shards.begin(), more.shards.end());
  return NoValue{};
}

using namespace fields;

constexpr const char* index_format = "muster-dataset";
constexpr std::uint64_t index_version = 1;
constexpr std::uint64_t vocabulary_limit = 1ull << 31;

Json shard_json(const DatasetShard& shard) {
  return {{"file", shard.path},
          {"version", shard.layout.version},
          {"token_bytes", shard.layout.token_bytes},
          {"tokens", shard.layout.tokens},
          {"documents", shard.layout.documents},
          {"bytes", shard.layout.file_bytes},
          {"chunk_crc32c", base64_of_u32(shard.chunk_crc32c)}};
}

DatasetShard shard_of(const Json& json, std::uint64_t vocabulary) {
  DatasetShard shard;
  shard.path = text(json, "file");
  require_plain_name(shard.path);
  const std::uint64_t version = whole_number(json, "version");
  const std::uint64_t token_bytes = whole_number(json, "token_bytes");
  const std::uint64_t tokens = whole_number(json, "tokens");
  const std::uint64_t documents = whole_number(json, "documents");
  require(version == 1 || version == 2, shard.path + ": expected version 1 or 2");
  require(token_bytes == 2 || (token_bytes == 4 && version == 2),
          shard.path + ": token_bytes does not fit the version");
  require(tokens > 0 && tokens <= token_count_limit && documents <= tokens,
          shard.path + ": tokens and documents are impossible");
  shard.layout =
      plan_token_shard(static_cast<std::uint32_t>(version), static_cast<std::uint32_t>(token_bytes),
                       vocabulary, tokens, documents);
  require(whole_number(json, "bytes") == shard.layout.file_bytes,
          shard.path + ": bytes does not match tokens and documents");
  auto checksums = u32_of_base64(text(json, "chunk_crc32c"));
  require(checksums && checksums->size() == shard.layout.chunks(),
          shard.path + ": chunk_crc32c: not one checksum per MiB");
  shard.chunk_crc32c = std::move(*checksums);
  return shard;
}

DatasetIndex index_of(const Json& json) {
  require(text(json, "format") == index_format, "format: expected muster-dataset");
  require(whole_number(json, "version") == index_version, "version: expected 1");
  DatasetIndex index;
  index.dataset.vocabulary = whole_number(json, "vocabulary");
  require(index.dataset.vocabulary > 0 && index.dataset.vocabulary <= vocabulary_limit,
          "vocabulary: expected 1 to 2147483648");
  index.dataset.tokenizer_hash = text(json, "tokenizer");
  index.documents = whole_number(json, "documents");
  std::uint64_t tokens = 0;
  for (const Json& shard : list(json, "shards")) {
    index.dataset.shards.push_back(shard_of(shard, index.dataset.vocabulary));
    tokens += index.dataset.shards.back().layout.tokens;
    require(tokens <= token_count_limit, "shards: too many tokens");
  }
  require(!index.dataset.shards.empty(), "shards: none");
  require(whole_number(json, "tokens") == tokens, "tokens: not the sum over the shards");
  return index;
}

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
                                "the checksum of the MiB from here is wrong: the file was changed "
                                "or its disk fails; copy or make it again");
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

std::uint64_t TokenDataset::tokens() const {
  return sum_over(shards, [](const TokenShardLayout& layout) { return layout.tokens; });
}

std::uint64_t TokenDataset::bytes() const {
  return sum_over(shards, [](const TokenShardLayout& layout) { return layout.file_bytes; });
}

std::uint64_t TokenDataset::chunks() const {
  return sum_over(shards, [](const TokenShardLayout& layout) { return layout.chunks(); });
}

bool TokenDataset::has_checksums() const {
  return std::all_of(shards.begin(), shards.end(), [](const DatasetShard& shard) {
    return shard.chunk_crc32c.size() == shard.layout.chunks();
  });
}

std::vector<std::string> find_token_shards(const std::string& directory) {
  std::vector<std::string> files;
  bool any = false;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, code)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".bin") || name.starts_with('.')) continue;
    files.push_back(entry.path().string());
    any = any || looks_like_token_shard(first_bytes(files.back()));
  }
  if (!any) return {};
  std::sort(files.begin(), files.end());
  return files;
}

Checked<TokenDataset> dataset_of_files(const std::vector<std::string>& files) {
  TokenDataset dataset;
  for (const std::string& file : files) {
    if (is_unfinished(fs::path(file).parent_path())) {
      return CheckpointFault{file +
                             ": belongs to tokens that are not whole: muster-train tokenize is "
                             "writing them, or was ended: run it again"};
    }
    const auto layout = read_token_shard_layout(file);
    if (!layout) return layout.fault();
    dataset.shards.push_back({file, layout.value(), {}});
    dataset.vocabulary = std::max(dataset.vocabulary, layout.value().vocabulary);
  }
  const bool all_say = std::all_of(dataset.shards.begin(), dataset.shards.end(),
                                   [](const auto& shard) { return shard.layout.vocabulary > 0; });
  if (!all_say) dataset.vocabulary = 0;
  return dataset;
}

void set_checksums(TokenDataset& dataset, std::span<const std::uint32_t> chunk_crc32c) {
  for (DatasetShard& shard : dataset.shards) {
    const auto own = chunk_crc32c.first(shard.layout.chunks());
    shard.chunk_crc32c.assign(own.begin(), own.end());
    chunk_crc32c = chunk_crc32c.subspan(own.size());
  }
}

Checked<DatasetIndex> read_dataset_index(const std::string& directory) {
  constexpr std::uint64_t limit_bytes = 1ull << 30;  // the checksums of 150 TB of tokens
  const std::string path = directory + "/" + dataset_index_name;
  const auto text = read_checkpoint_text(path, limit_bytes);
  if (!text) return text.fault();
  auto index = parse_dataset_index(text.value(), path);
  if (!index) return index.fault();
  for (DatasetShard& shard : index.value().dataset.shards) {
    shard.path = directory + "/" + shard.path;
  }
  return index;
}

Checked<std::optional<TokenDataset>> find_token_dataset(const std::vector<std::string>& paths) {
  TokenDataset line;
  std::string text_path;
  for (const std::string& path : paths) {
    auto found = dataset_at(path);
    if (!found) return found.fault();
    if (!found.value()) {
      text_path = path;
    } else if (auto joined = append(line, *found.value(), path); !joined) {
      return joined.fault();
    }
  }
  if (line.shards.empty()) return std::optional<TokenDataset>();
  if (!text_path.empty()) {
    return CheckpointFault{text_path + " is text, " + line.shards.front().path +
                           " holds tokens: name either, or tokenize the text first"};
  }
  return std::optional(std::move(line));
}

std::uint32_t dataset_identity(const TokenDataset& dataset) {
  std::uint32_t crc = 0;
  for (const DatasetShard& shard : dataset.shards) {
    const std::string sizes = layout_text(shard.layout);
    crc = crc32c_extend(crc, sizes.data(), sizes.size());
    crc = crc32c_extend(crc, shard.chunk_crc32c.data(), shard.chunk_crc32c.size() * 4);
  }
  return crc;
}

std::string format_dataset_index(const DatasetIndex& index) {
  Json shards = Json::array();
  for (const DatasetShard& shard : index.dataset.shards) shards.push_back(shard_json(shard));
  const Json document = {{"format", index_format},
                         {"version", index_version},
                         {"vocabulary", index.dataset.vocabulary},
                         {"tokenizer", index.dataset.tokenizer_hash},
                         {"documents", index.documents},
                         {"tokens", index.dataset.tokens()},
                         {"shards", std::move(shards)}};
  return seal_json(document.dump());
}

Checked<DatasetIndex> parse_dataset_index(std::string_view text, const std::string& path) {
  if (!is_committed_json(text)) {
    return damaged_token_file(path, text.size(),
                              "the text does not end in a checksum that fits it: it was changed or "
                              "cut off");
  }
  if (nests_too_deeply(text)) return CheckpointFault{path + ": is nested too deeply", true};
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return CheckpointFault{path + ": is not JSON", true};
  try {
    return index_of(json);
  } catch (const FieldError& error) {
    return CheckpointFault{path + ": " + error.what(), true};
  }
}

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
