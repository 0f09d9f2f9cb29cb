#include "launcher/agent/foreign_checkpoints/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <initializer_list>
#include <limits>
#include <memory>

#include <nlohmann/json.hpp>

#include "launcher/os/fd.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr std::string_view zip_head = "PK\3\4";
constexpr std::string_view zip_end = "PK\5\6";
constexpr std::int64_t zip_end_bytes = 22;
// The pickled number by which PyTorch knows its own files (torch/serialization.py, MAGIC_NUMBER).
constexpr std::string_view pickle_head = "\x80\x02\x8a\x0a";
constexpr std::int64_t header_limit = 32 << 20;  // of safetensors; one of 10,000 tensors has 1 MiB
constexpr std::int64_t index_limit = 64 << 20;

struct OpenFile {
  Fd fd;
  std::int64_t bytes = 0;
};

OpenFile open_plain(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  return {std::move(fd), facts.st_size};
}

// Nothing: it cannot be read, or has become shorter.
std::optional<std::string> bytes_at(const OpenFile& file, std::int64_t offset, std::int64_t count) {
  const auto wanted = static_cast<std::size_t>(count);
  std::string bytes;
  const bool is_all = read_at(file.fd.get(), offset, wanted, bytes) && bytes.size() == wanted;
  return is_all ? std::optional(std::move(bytes)) : std::nullopt;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
    value = value << 8 | static_cast<unsigned char>(*byte);
  }
  return value;
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

Judged unreadable(const std::string& path) {
  return unknown(base_name(path) + " cannot be read");
}

// Of a header of safetensors: where its last tensor ends.
std::optional<std::uint64_t> last_offset(const std::string& header) {
  const auto tensors = read_json(header);
  if (!tensors.is_object()) return std::nullopt;
  std::uint64_t last = 0;
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__") continue;
    const auto& offsets = member_of(tensor, "data_offsets");
    const bool is_pair = offsets.is_array() && offsets.size() == 2;
    if (!is_pair || !offsets[1].is_number_unsigned()) return std::nullopt;
    last = std::max(last, offsets[1].get<std::uint64_t>());
  }
  return last;
}

bool begins_with_any(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](auto begin) { return name.starts_with(begin); });
}

// Of the words for what is no number in JSON.
std::size_t length_of_no_number(std::string_view text) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (text.starts_with(word)) return word.size();
  }
  return 0;
}

constexpr std::size_t entries_limit = 10'000;
constexpr std::size_t names_limit = 1'000'000;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// 0: a time that is still to come says nothing.
std::int64_t change_of(const struct stat& facts) {
  constexpr std::int64_t ns_per_s = 1'000'000'000;
  constexpr std::int64_t clocks_differ_s = 3600;
  const bool is_possible =
      facts.st_mtim.tv_sec >= 0 && facts.st_mtim.tv_sec < ::time(nullptr) + clocks_differ_s;
  return is_possible ? facts.st_mtim.tv_sec * ns_per_s + facts.st_mtim.tv_nsec : 0;
}

// Nothing: it is a link or the like, or went away, or cannot be read.
std::optional<FolderEntry> entry_at(int folder, const std::string& name) {
  struct stat facts {};
  if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return std::nullopt;
  const auto inode = static_cast<std::int64_t>(facts.st_ino);
  return FolderEntry{
      name, S_ISDIR(facts.st_mode), facts.st_size, change_of(facts), inode, facts.st_uid};
}

// Names without a number are few, and tell what the others are.
void keep_newest(std::vector<std::string>& names) {
  if (names.size() <= entries_limit) return;
  const auto rank = [](const std::string& name) {
    return last_number(name).value_or(std::numeric_limits<std::int64_t>::max());
  };
  std::ranges::nth_element(names, names.begin() + entries_limit, std::greater<>{}, rank);
  names.resize(entries_limit);
}

}  // namespace

bool is_companion(std::string_view name) {
  return begins_with_any(
      name, {"training_args", "optimizer", "scheduler", "scaler", "rng_state", "mp_rank_",
             "zero_pp_rank_", "bf16_zero_pp_rank_", "layer_", "model_optim_rng", "random_states_"});
}

// Whatever else is there is somebody's own.
bool is_of_library(std::string_view name) {
  return is_companion(name) || begins_with_any(name, {"model", "pytorch_model", "adapter_",
                                                      "custom_checkpoint_", "meta.pt"});
}

bool is_model(std::string_view name) {
  return begins_with_any(name, {"model", "pytorch_model", "adapter_", "mp_rank_"});
}

bool is_index(std::string_view name) {
  return name.ends_with(".index.json");
}

bool is_part(std::string_view name) {
  return name.find("-of-0") != name.npos;
}

Judged worse(Judged a, Judged b) {
  return b.state > a.state ? std::move(b) : std::move(a);
}

Judged incomplete(std::string why) {
  return {SaveState::incomplete, std::move(why)};
}

Judged unknown(std::string why) {
  return {SaveState::unknown, std::move(why)};
}

TorchFile judge_torch_file(const std::string& path) {
  const OpenFile file = open_plain(path);
  if (!file.fd) return {unreadable(path)};
  const Judged cut = incomplete(base_name(path) + " was not written to its end");
  const auto head_bytes = static_cast<std::int64_t>(zip_head.size());
  if (file.bytes < head_bytes) return {cut};
  const auto head = bytes_at(file, 0, head_bytes);
  if (!head) return {unreadable(path)};
  if (*head == pickle_head) {
    return {unknown(base_name(path) + " has PyTorch's old format, whose end is not known")};
  }
  if (*head != zip_head) return {incomplete(base_name(path) + " holds no tensors"), true};
  if (file.bytes < zip_end_bytes) return {cut};
  const auto end = bytes_at(file, file.bytes - zip_end_bytes, zip_end_bytes);
  if (!end) return {unreadable(path)};
  // Size and place of the archive's directory; larger archives say them elsewhere.
  constexpr std::uint64_t elsewhere = 0xffffffff;
  const std::uint64_t size = little_endian(std::string_view(*end).substr(12, 4));
  const std::uint64_t place = little_endian(std::string_view(*end).substr(16, 4));
  const bool fits = size == elsewhere || place == elsewhere ||
                    place + size <= static_cast<std::uint64_t>(file.bytes - zip_end_bytes);
  return {end->starts_with(zip_end) && fits ? Judged{} : cut};
}

Judged judge_safetensors(const std::string& path) {
  const OpenFile file = open_plain(path);
  if (!file.fd) return unreadable(path);
  constexpr std::int64_t length_bytes = 8;
  const Judged cut = incomplete(base_name(path) + " was not written to its end");
  if (file.bytes < length_bytes) return cut;
  const auto length_text = bytes_at(file, 0, length_bytes);
  if (!length_text) return unreadable(path);
  const std::uint64_t length = little_endian(*length_text);
  if (length > static_cast<std::uint64_t>(file.bytes - length_bytes)) return cut;
  const auto header_bytes = static_cast<std::int64_t>(length);
  if (header_bytes > header_limit) return unknown(base_name(path) + " has too long a header");
  const auto header = bytes_at(file, length_bytes, header_bytes);
  if (!header) return unreadable(path);
  const auto last = last_offset(*header);
  if (!last) return incomplete(base_name(path) + " has no header");
  const auto after_header = static_cast<std::uint64_t>(file.bytes - length_bytes - header_bytes);
  return *last == after_header ? Judged{} : cut;
}

Judged judge_index(const ListedFolder& folder, const FolderEntry& index) {
  const auto text = read_small(folder.path_of(index.name), index_limit);
  if (!text) return unknown(index.name + " cannot be read");
  const auto map = read_json(*text);
  if (map.is_discarded()) return incomplete(index.name + " is not whole");
  const auto& weights = member_of(map, "weight_map");
  std::set<std::string> parts;
  for (const auto& part : weights) {
    if (weights.is_object() && part.is_string()) parts.insert(part.get<std::string>());
  }
  if (parts.empty()) return unknown(index.name + " names no parts");
  Judged judged;
  for (const std::string& part : parts) {
    if (!folder.find(part))
      return incomplete(part + ", which " + index.name + " names, is missing");
    judged = worse(judged, is_safetensors(part) ? judge_safetensors(folder.path_of(part))
                                                : judge_torch_file(folder.path_of(part)).judged);
  }
  return judged;
}

bool has_torch_name(std::string_view name) {
  return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt") ||
         name.ends_with(".bin");
}

bool is_safetensors(std::string_view name) {
  return name.ends_with(".safetensors");
}

Weights judge_weights(const ListedFolder& folder) {
  Weights weights;
  bool has_parts = false;
  bool has_index = false;
  for (const FolderEntry& entry : folder.entries) {
    const bool is_torch = has_torch_name(entry.name) || entry.name.ends_with(".pkl");
    if (entry.is_folder) continue;
    if (is_index(entry.name)) {
      const Judged index = judge_index(folder, entry);
      has_index |= index.state != SaveState::unknown;
      if (is_of_library(entry.name)) weights.judged = worse(weights.judged, index);
    } else if (is_safetensors(entry.name)) {
      weights.models += is_model(entry.name);
      has_parts |= is_part(entry.name);
      weights.judged = worse(weights.judged, judge_safetensors(folder.path_of(entry.name)));
    } else if (is_torch) {
      const TorchFile file = judge_torch_file(folder.path_of(entry.name));
      if (file.is_other && !is_of_library(entry.name)) continue;
      weights.models += is_model(entry.name);
      has_parts |= is_part(entry.name);
      weights.judged = worse(weights.judged, file.judged);
    }
  }
  if (has_parts && !has_index) {
    weights.judged = worse(weights.judged, incomplete("the index of its parts is missing"));
  }
  return weights;
}

nlohmann::json read_json(std::string_view text) {
  constexpr int depth_limit = 64;
  std::string plain;
  plain.reserve(text.size());
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_quoted && c == '\\' && at + 1 < text.size()) {
      plain += c;
      plain += text[++at];
      continue;
    }
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted && (c == '[' || c == '{') && ++depth > depth_limit) {
      return nlohmann::json(nlohmann::json::value_t::discarded);
    }
    if (!is_quoted && (c == ']' || c == '}')) --depth;
    const std::size_t word = is_quoted ? 0 : length_of_no_number(text.substr(at));
    if (word > 0) {
      plain += "null";
      at += word - 1;
      continue;
    }
    plain += c;
  }
  return nlohmann::json::parse(plain, nullptr, false);
}

const nlohmann::json& member_of(const nlohmann::json& object, const char* name) {
  static const nlohmann::json none;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? none : *found;
}

std::set<std::int64_t> numbers_in(const ListedFolder& folder, NumberOfName* number_of) {
  std::set<std::int64_t> numbers;
  for (const FolderEntry& entry : folder.entries) {
    if (const auto number = number_of(entry.name)) numbers.insert(*number);
  }
  return numbers;
}

std::optional<std::string> read_small(const std::string& path, std::int64_t limit) {
  const OpenFile file = open_plain(path);
  if (!file.fd || file.bytes > limit) return std::nullopt;
  return bytes_at(file, 0, file.bytes);
}

std::optional<std::string> read_part(const std::string& path, std::int64_t offset,
                                     std::int64_t limit) {
  const OpenFile file = open_plain(path);
  if (!file.fd) return std::nullopt;
  return bytes_at(file, offset, std::clamp<std::int64_t>(file.bytes - offset, 0, limit));
}

std::string_view ListedFolder::name() const {
  return std::string_view(path).substr(path.rfind('/') + 1);
}

const FolderEntry* ListedFolder::find(std::string_view entry) const {
  const auto found = std::ranges::lower_bound(entries, entry, {}, &FolderEntry::name);
  return found != entries.end() && found->name == entry ? &*found : nullptr;
}

std::optional<ListedFolder> Look::open(const std::string& path) const {
  if (is_over()) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return std::nullopt;
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.emplace_back(name);
    if (names.size() == names_limit || is_over()) break;
  }
  ListedFolder folder{path};
  folder.is_partial = errno != 0 || names.size() > entries_limit;
  keep_newest(names);
  struct stat facts {};
  if (::fstat(::dirfd(directory.get()), &facts) == 0) folder.changed_ns = change_of(facts);
  folder.owner = facts.st_uid;
  for (const std::string& name : names) {
    if (is_over()) return std::nullopt;
    if (auto entry = entry_at(::dirfd(directory.get()), name)) {
      folder.entries.push_back(std::move(*entry));
    } else {
      folder.is_partial = true;
    }
  }
  std::ranges::sort(folder.entries, {}, &FolderEntry::name);
  return folder;
}

std::optional<std::int64_t> last_number(std::string_view name) {
  const auto last = std::find_if(name.rbegin(), name.rend(), is_digit);
  const auto before = std::find_if_not(last, name.rend(), is_digit);
  return read_integer({before.base(), last.base()});
}

std::optional<std::int64_t> step_named(std::string_view stem) {
  const std::size_t before = stem.find_last_not_of("0123456789");
  if (before == stem.npos) return read_integer(stem);
  if (before + 1 == stem.size()) return std::nullopt;
  const std::string_view head = stem.substr(0, before + 1);
  const bool is_apart = head.ends_with('-') || head.ends_with('_') || head.ends_with('=');
  if (!is_apart && !head.ends_with("step") && !head.ends_with("iter")) return std::nullopt;
  return read_integer(stem.substr(before + 1));
}

std::optional<std::int64_t> number_between(std::string_view name, std::string_view prefix,
                                           std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  return std::ranges::all_of(name, is_digit) ? read_integer(name) : std::nullopt;
}

}  // namespace muster
