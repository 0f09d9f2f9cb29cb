#include "launcher/data/manifest.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

#include "launcher/data/store_config.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr int manifest_version = 1;
constexpr std::size_t most_path_bytes = 4096 - 256;  // with the directory of a cache: PATH_MAX
constexpr std::size_t most_name_bytes = 255;         // NAME_MAX
// A petabyte in one file: beyond what any of the stores holds.
constexpr std::int64_t most_file_bytes = std::int64_t{1} << 50;

std::string why_not(const std::string& path) {
  if (const std::string reason = unsafe_path_reason(path); !reason.empty()) return reason;
  if (path.size() > most_path_bytes) return "it is too long";
  for (std::string_view rest = path; !rest.empty();) {
    if (take_until(rest, '/').size() > most_name_bytes) return "a part of it is too long";
  }
  return {};
}

bool is_md5(std::string_view text) {
  return text.size() == 32 && is_made_of(text, "0123456789abcdef");
}

Status check_file(const DataFile& file) {
  if (const std::string reason = why_not(file.path); !reason.empty()) {
    return Error{"the store lists a file whose name cannot be used here, " +
                 quoted_text(file.path) + ": " + reason};
  }
  if (file.bytes < 0 || file.bytes > most_file_bytes) {
    return Error{"the store tells no size of " + quoted_text(file.path)};
  }
  if (file.md5.empty() || is_md5(file.md5)) return Done{};
  return Error{"the store tells a wrong MD5 of " + quoted_text(file.path)};
}

std::string text_at(const json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string md5_of(const json& listed) {
  const auto hashes = listed.find("Hashes");
  if (hashes == listed.end() || !hashes->is_object()) return {};
  for (const char* key : {"md5", "MD5"}) {
    if (std::string text = lower_case(text_at(*hashes, key)); !text.empty()) return text;
  }
  return {};
}

// A line of a manifest.
bool read_row(const json& row, DataFile& file) {
  const bool has_shape = row.is_array() && row.size() == 4 && row[0].is_string() &&
                         row[1].is_number_integer() && row[2].is_number_integer() &&
                         row[3].is_string();
  if (!has_shape) return false;
  file = {row[0].get<std::string>(), row[1].get<std::int64_t>(), row[2].get<std::int64_t>(),
          row[3].get<std::string>()};
  return true;
}

bool holds(const std::vector<DataFile>& files, std::string_view path) {
  const auto found = std::ranges::lower_bound(files, path, {}, &DataFile::path);
  return found != files.end() && found->path == path;
}

std::optional<int> digits_at(std::string_view text, std::size_t at, std::size_t count) {
  const std::string_view part = text.substr(std::min(at, text.size()), count);
  if (part.size() != count || !is_made_of(part, "0123456789")) return std::nullopt;
  return static_cast<int>(*read_integer(part));
}

// "Z" or "+02:00", in seconds.
std::optional<std::int64_t> zone_of(std::string_view text) {
  if (text == "Z") return 0;
  const auto hours = digits_at(text, 1, 2);
  const auto minutes = digits_at(text, 4, 2);
  const bool has_sign = text.size() == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':';
  if (!has_sign || !hours || !minutes) return std::nullopt;
  const std::int64_t seconds = *hours * 3600 + *minutes * 60;
  return text[0] == '-' ? -seconds : seconds;
}

}  // namespace

std::optional<std::int64_t> read_rfc3339(std::string_view text) {
  constexpr std::size_t second_end = 19;
  const auto year = digits_at(text, 0, 4), month = digits_at(text, 5, 2),
             day = digits_at(text, 8, 2), hour = digits_at(text, 11, 2),
             minute = digits_at(text, 14, 2), second = digits_at(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second || text.size() <= second_end) {
    return std::nullopt;
  }
  // Whole ns since 1970 fit up to 2262.
  if (*year < 1678 || *year > 2261 || *month < 1 || *month > 12) return std::nullopt;
  std::int64_t fraction_ns = 0;
  std::size_t end = second_end;
  if (text[end] == '.') {
    const std::size_t begin = ++end;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    std::string digits(text.substr(begin, std::min<std::size_t>(end - begin, 9)));
    digits.resize(9, '0');
    fraction_ns = *read_integer(digits);
  }
  const auto zone = zone_of(text.substr(end));
  if (!zone) return std::nullopt;
  std::tm parts{};
  parts.tm_year = *year - 1900;
  parts.tm_mon = *month - 1;
  parts.tm_mday = *day;
  parts.tm_hour = *hour;
  parts.tm_min = *minute;
  parts.tm_sec = *second;
  return (std::int64_t{::timegm(&parts)} - *zone) * 1'000'000'000 + fraction_ns;
}

std::int64_t DataManifest::bytes() const {
  std::int64_t sum = 0;
  for (const DataFile& file : files) sum += file.bytes;
  return sum;
}

Status read_listed(std::string_view line, std::vector<DataFile>& found) {
  line = trimmed(line);
  if (line.ends_with(',')) line.remove_suffix(1);
  if (line.empty() || line == "[" || line == "]") return Done{};
  const json listed = json::parse(line, nullptr, false);
  if (!listed.is_object()) return Error{"rclone's list of files is not as expected"};
  if (const auto is_dir = listed.find("IsDir"); is_dir != listed.end() && *is_dir == true) {
    return Done{};
  }
  const auto size = listed.find("Size");
  DataFile file;
  file.path = name_of_rclone(text_at(listed, "Path"));
  file.bytes = size != listed.end() && size->is_number_integer() ? size->get<std::int64_t>() : -1;
  file.modified_ns = read_rfc3339(text_at(listed, "ModTime")).value_or(0);
  file.md5 = md5_of(listed);
  if (auto fine = check_file(file); !fine) return fine;
  found.push_back(std::move(file));
  return Done{};
}

Status put_in_order(std::vector<DataFile>& files) {
  std::ranges::sort(files, {}, &DataFile::path);
  const auto twice = std::ranges::adjacent_find(files, {}, &DataFile::path);
  if (twice != files.end()) {
    return Error{"the store lists " + quoted_text(twice->path) + " twice"};
  }
  for (const DataFile& file : files) {
    for (std::size_t at = 0; (at = file.path.find('/', at)) != file.path.npos; ++at) {
      const std::string_view directory = std::string_view(file.path).substr(0, at);
      if (!holds(files, directory)) continue;
      return Error{"the store has " + quoted_text(directory) + " as a file and as a directory of " +
                   quoted_text(file.path) + ", which a file system cannot have; rename one"};
    }
  }
  return Done{};
}

std::string data_manifest_text(const DataManifest& manifest) {
  std::string text =
      json{{"manifest", manifest_version}, {"store", manifest.store}, {"root", manifest.root}}.dump(
          -1, ' ', false, json::error_handler_t::replace) +
      "\n";
  for (const DataFile& file : manifest.files) {
    text += json::array({file.path, file.bytes, file.modified_ns, file.md5})
                .dump(-1, ' ', false, json::error_handler_t::replace);
    text += '\n';
  }
  return text;
}

Result<DataManifest> read_data_manifest(std::string_view text) {
  DataManifest manifest;
  const json head = json::parse(take_until(text, '\n'), nullptr, false);
  const auto version = head.find("manifest");
  if (!head.is_object() || version == head.end() || *version != manifest_version) {
    return Error{"the list of the data's files cannot be read: it is of another version of muster"};
  }
  manifest.store = text_at(head, "store");
  manifest.root = text_at(head, "root");
  while (!text.empty()) {
    DataFile file;
    if (!read_row(json::parse(take_until(text, '\n'), nullptr, false), file) ||
        manifest.files.size() >= manifest_limit_files) {
      return Error{"the list of the data's files is damaged"};
    }
    if (auto fine = check_file(file); !fine) return fine.error();
    manifest.files.push_back(std::move(file));
  }
  if (auto fine = put_in_order(manifest.files); !fine) return fine.error();
  return manifest;
}

std::string object_name(const DataManifest& manifest, const DataFile& file) {
  ContentHash hash;
  for (const std::string& part :
       {manifest.store, joined_path(manifest.root, file.path), std::to_string(file.bytes),
        std::to_string(file.modified_ns), file.md5}) {
    hash.add(part);
    hash.add(std::string_view("\0", 1));
  }
  return hash.finish();
}

}  // namespace muster
