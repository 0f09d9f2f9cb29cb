#include "launcher/data/manifest.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

#include "launcher/data/datastore.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr int manifest_version = 1;
constexpr std::size_t most_path_bytes = 4096 - 256;  // with the directory of a cache: PATH_MAX
constexpr std::size_t most_name_bytes = 255;         // NAME_MAX
// A petabyte in one file: beyond what any of the stores holds.
constexpr std::int64_t most_file_bytes = std::int64_t{1} << 50;
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

std::string why_not(const std::string& path) {
  if (const std::string reason = unsafe_path_reason(path); !reason.empty()) return reason;
  if (path.size() > most_path_bytes) return "it is too long";
  for (std::string_view rest = path; !rest.empty();) {
    if (take_until(rest, '/').size() > most_name_bytes) return "a part of it is too long";
  }
  return {};
}

Status check_file(const DataFile& file) {
  if (const std::string reason = why_not(file.path); !reason.empty()) {
    return Error{"the store lists a file whose name cannot be used here, " +
                 quoted_text(file.path) + ": " + reason};
  }
  if (file.bytes < 0 || file.bytes > most_file_bytes) {
    return Error{"the store tells no size of " + quoted_text(file.path)};
  }
  const bool is_md5 = file.md5.size() == 32 && is_made_of(file.md5, "0123456789abcdef");
  if (file.md5.empty() || is_md5) return Done{};
  return Error{"the store tells a wrong MD5 of " + quoted_text(file.path)};
}

// What rclone tells of a file.
struct ListedFile {
  std::string path, modified;
  std::int64_t size = -1;
  bool is_dir = false;
  std::map<std::string, std::string> hashes;

  MUSTER_FIELDS((Path, path), (ModTime, modified), (Size, size), (IsDir, is_dir), (Hashes, hashes))
};

std::string line_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::optional<std::int64_t> read_rfc3339(const std::string& text) {
  std::tm parts{}, zone{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  // Whole ns since 1970 fit up to 2262.
  if (rest == nullptr || parts.tm_year < 1678 - 1900 || parts.tm_year > 2261 - 1900) {
    return std::nullopt;
  }
  std::int64_t fraction_ns = 0, unit_ns = 100'000'000;
  if (*rest == '.') {
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit_ns /= 10) {
      fraction_ns += (*rest - '0') * unit_ns;
    }
  }
  rest = ::strptime(rest, "%z", &zone);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  return (std::int64_t{::timegm(&parts)} - zone.tm_gmtoff) * 1'000'000'000 + fraction_ns;
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
  ListedFile listed;
  try {
    read_json(Json::parse(line), listed);
  } catch (const std::exception&) {
    return Error{"rclone's list of files is not as expected"};
  }
  if (listed.is_dir) return Done{};
  const std::string& md5 = listed.hashes["md5"];
  const auto modified = read_rfc3339(listed.modified);
  DataFile file{name_of_rclone(listed.path), listed.size, modified.value_or(0),
                lower_case(md5.empty() ? listed.hashes["MD5"] : md5)};
  if (auto fine = check_file(file); !fine) return fine;
  if (!modified && file.md5.empty()) {
    return Error{"the store tells neither a hash nor a usable time of " + quoted_text(file.path)};
  }
  found.push_back(std::move(file));
  return Done{};
}

Status put_in_order(std::vector<DataFile>& files) {
  std::ranges::sort(files, {}, &DataFile::path);
  const auto twice = std::ranges::adjacent_find(files, {}, &DataFile::path);
  if (twice != files.end()) {
    return Error{"the store lists " + quoted_text(twice->path) + " twice"};
  }
  std::int64_t bytes = 0;
  for (const DataFile& file : files) {
    if (file.bytes > most_bytes - bytes) return Error{"the store lists more than an exabyte"};
    bytes += file.bytes;
    for (std::size_t at = 0; (at = file.path.find('/', at)) != file.path.npos; ++at) {
      const std::string_view directory = std::string_view(file.path).substr(0, at);
      if (!std::ranges::binary_search(files, directory, {}, &DataFile::path)) continue;
      return Error{"the store has " + quoted_text(directory) + " as a file and as a directory of " +
                   quoted_text(file.path) + ", which a file system cannot have; rename one"};
    }
  }
  return Done{};
}

std::string data_manifest_text(const DataManifest& manifest) {
  std::string text =
      line_of({{"manifest", manifest_version}, {"store", manifest.store}, {"root", manifest.root}});
  for (const DataFile& file : manifest.files) {
    text += line_of(Json::array({file.path, file.bytes, file.modified_ns, file.md5}));
  }
  return text;
}

Result<DataManifest> read_data_manifest(std::string_view text) {
  DataManifest manifest;
  const Json head = Json::parse(take_until(text, '\n'), nullptr, false);
  if (!head.is_object() || head.value("manifest", Json()) != manifest_version) {
    return Error{"the list of the data's files cannot be read: it is of another version of muster"};
  }
  try {
    manifest.store = head.value("store", "");
    manifest.root = head.value("root", "");
    while (!text.empty()) {
      const Json row = Json::parse(take_until(text, '\n'));
      if (row.size() != 4 || manifest.files.size() >= manifest_limit_files) {
        throw std::runtime_error("too long");
      }
      manifest.files.push_back({row.at(0).get<std::string>(), whole<std::int64_t>(row.at(1)),
                                whole<std::int64_t>(row.at(2)), row.at(3).get<std::string>()});
      if (auto fine = check_file(manifest.files.back()); !fine) return fine.error();
    }
  } catch (const std::exception&) {
    return Error{"the list of the data's files is damaged"};
  }
  if (auto fine = put_in_order(manifest.files); !fine) return fine.error();
  return manifest;
}

std::string object_name(const DataManifest& manifest, const DataFile& file) {
  std::string text;
  for (const std::string& part :
       {manifest.store, joined_path(manifest.root, file.path), std::to_string(file.bytes),
        std::to_string(file.modified_ns), file.md5}) {
    text += part + '\0';
  }
  return content_hash_of(text);
}

}  // namespace muster
