#include "launcher/data/datastore.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/model/names.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr int secrets_version = 1, job_data_version = 1;
constexpr std::string_view mask = "***";

bool is_in_azure_words(const DatastoreSpec& spec) {
  return spec.type != DatastoreType::rclone && spec.type != DatastoreType::local;
}

std::string text_in(const Credentials& credentials, const char* key) {
  const auto found = credentials.find(key);
  return found == credentials.end() ? "" : found->second;
}

Result<std::string> azure_config(const DatastoreSpec& spec, const Credentials& credentials) {
  if (spec.type == DatastoreType::azure_file) {
    return Error{
        "azure_file shares are not reached by the rclone that Debian has; mount the share "
        "and use type: local"};
  }
  std::string config = "type = azureblob\naccount = " + spec.account + "\n";
  if (spec.endpoint != "core.windows.net") config += "endpoint = blob." + spec.endpoint + "\n";
  const std::string key = text_in(credentials, "account_key");
  const std::string sas = text_in(credentials, "sas_token");
  const std::string secret = text_in(credentials, "client_secret");
  if (!key.empty()) return config + "key = " + key + "\n";
  if (!secret.empty()) {
    for (const auto& [name, text] : credentials) {
      if (text.find_first_of("\"\\") == text.npos) continue;
      return Error{"credentials." + name + " holds a quote or a backslash"};
    }
    // A file, which rclone finds as a second one in memory.
    return config + "service_principal_file = {\"appId\":\"" + text_in(credentials, "client_id") +
           "\",\"password\":\"" + secret + "\",\"tenant\":\"" + text_in(credentials, "tenant_id") +
           "\"}\n";
  }
  const bool is_lake = spec.type == DatastoreType::one_lake;
  const std::string mark = sas.empty() || sas.starts_with('?') ? "" : "?";
  return config + "sas_url = https://" +
         (is_lake ? "onelake.blob.fabric.microsoft.com" : spec.account + ".blob." + spec.endpoint) +
         "/" + spec.container + mark + sas + "\n";
}

constexpr std::string_view quote = "\xe2\x80\x9b";  // U+201B
constexpr std::string_view pictures = "\xe2\x90";   // U+2400 to U+243F, with one more byte
constexpr unsigned char picture_base = 0x80, picture_of_delete = 0xa1;

// The control character that the picture at the start of the text stands for.
std::optional<char> pictured(std::string_view text) {
  if (!text.starts_with(pictures) || text.size() < 3) return std::nullopt;
  const auto last = static_cast<unsigned char>(text[2]);
  if (last == picture_of_delete) return '\x7f';
  if (last < picture_base || last >= picture_base + 0x20) return std::nullopt;
  return static_cast<char>(last - picture_base);
}

// What stands behind each mark, up to one of `ends`.
void mask_values(std::string& text, std::string_view mark, const char* ends) {
  for (std::size_t at = 0; (at = lower_case(text).find(mark, at)) != text.npos; at += mask.size()) {
    at = std::min(text.find_first_not_of(" \"", at + mark.size()), text.size());
    text.replace(at, std::min(text.find_first_of(ends, at), text.size()) - at, mask);
  }
}

struct StoredSecrets {
  Credentials credentials;

  MUSTER_FIELDS(credentials)
};

// Of a key file: names of accounts, and addresses. The tenant and the client are no secrets either.
bool part_is_open(std::string_view name) {
  constexpr std::array<std::string_view, 8> open{"type", "appId",      "tenant",    "displayName",
                                                 "name", "project_id", "client_id", "client_email"};
  return std::ranges::find(open, name) != open.end() || name.ends_with("_uri") ||
         name.ends_with("_url");
}

template <class T>
Result<T> read_stored(const fs::path& file, std::string_view text, int version) {
  auto read = read_versioned_json<T>(text, version);
  if (!read) return Error{"cannot read " + file.string() + ": " + read.error().message};
  return read;
}

}  // namespace

std::string rclone_name(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto byte = static_cast<unsigned char>(path[i]);
    if (byte < 0x20 || byte == 0x7f) {
      out += pictures;
      out += static_cast<char>(byte == 0x7f ? picture_of_delete : picture_base + byte);
      continue;
    }
    if (pictured(path.substr(i))) out += quote;
    out += path[i];
  }
  return out;
}

std::string name_of_rclone(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const bool is_quoted = path.starts_with(quote) && pictured(path.substr(quote.size()));
    if (is_quoted) path.remove_prefix(quote.size());
    const auto control = is_quoted ? std::nullopt : pictured(path);
    const std::size_t taken = control || is_quoted ? 3 : 1;
    out += control ? std::string_view(&*control, 1) : path.substr(0, taken);
    path.remove_prefix(taken);
  }
  return out;
}

std::string joined_path(std::string_view first, std::string_view second) {
  auto parts = words_in(first, "/");
  for (const std::string_view part : words_in(second, "/")) parts.push_back(part);
  return joined(parts, "/");
}

Result<std::string> rclone_config(const DatastoreSpec& spec, const Credentials& credentials) {
  std::string config = "[store]\n";
  if (is_in_azure_words(spec)) {
    const auto rest = azure_config(spec, credentials);
    return rest ? config + *rest : rest;
  }
  config += "type = " + (spec.type == DatastoreType::local ? "local" : spec.remote) + "\n";
  for (const auto* lines : {&spec.options, &credentials}) {
    for (const auto& [name, text] : *lines) {
      if (text.find_first_of("\n\r") != text.npos) return Error{"'" + name + "' has two lines"};
      config += name + " = " + text + "\n";
    }
  }
  return config;
}

std::string rclone_place(const DatastoreSpec& spec, std::string_view path) {
  const std::string inside = joined_path(spec.path, path);
  if (is_in_azure_words(spec)) return "store:" + joined_path(spec.container, inside);
  return (spec.path.starts_with('/') ? "store:/" : "store:") + inside;
}

std::string store_identity(const DatastoreSpec& spec) {
  std::string text(word(spec.type));
  for (const std::string* part :
       {&spec.account, &spec.container, &spec.endpoint, &spec.remote, &spec.path}) {
    text += '|' + *part;
  }
  for (const auto& [name, value] : spec.options) text += '|' + name + '=' + value;
  return text;
}

bool tells_hashes(std::string_view config) {
  constexpr std::array<std::string_view, 4> stores{"azureblob", "s3", "google cloud storage",
                                                   "swift"};
  constexpr std::string_view mark = "\ntype = ";
  std::string_view type = config.substr(std::min(config.find(mark), config.size()));
  type.remove_prefix(std::min(mark.size(), type.size()));
  return std::ranges::find(stores, take_until(type, '\n')) != stores.end();
}

fs::path secret_file(const fs::path& home, const DatastoreSpec& spec) {
  const std::string id = content_hash_of(spec.name + "|" + store_identity(spec)).substr(0, 12);
  return home / "secrets" / (spec.name + "-" + id);
}

Status save_secrets(const fs::path& home, const DatastoreSpec& spec,
                    const Credentials& credentials) {
  const fs::path file = secret_file(home, spec);
  if (credentials.empty()) {
    if (::unlink(file.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return Done{};
    return system_error("remove " + file.string());
  }
  if (auto made = open_private_directory(file.parent_path().string()); !made) return made.error();
  const std::string text = versioned_json(StoredSecrets{credentials}, secrets_version);
  if (replace_file(file, text, 0600, Durable::on_disk)) return Done{};
  return system_error("write " + file.string());
}

Result<Credentials> load_secrets(const fs::path& home, const DatastoreSpec& spec) {
  const fs::path file = secret_file(home, spec);
  const Fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!opened && errno == ENOENT) return Credentials{};
  struct stat facts {};
  if (!opened || ::fstat(opened.get(), &facts) != 0) return system_error("read " + file.string());
  if (!S_ISREG(facts.st_mode) || (facts.st_mode & 077) != 0 || facts.st_uid != ::geteuid()) {
    return Error{file.string() + " is " + owner_and_mode(facts) +
                 "; credentials are read from a file that is yours alone: chmod 600"};
  }
  std::string text;
  if (!read_whole(opened.get(), text)) return system_error("read " + file.string());
  auto read = read_stored<StoredSecrets>(file, text, secrets_version);
  if (!read) return read.error();
  return std::move(read->credentials);
}

std::vector<std::string> secrets_in_config(std::string_view config) {
  constexpr std::array<std::string_view, 10> open{
      "type", "account", "endpoint", "url", "host", "user", "port", "provider", "vendor", "region"};
  std::vector<std::string> secrets;
  while (!config.empty()) {
    const std::string_view line = take_until(config, '\n');
    const std::size_t equals = line.find(" = ");
    if (equals == line.npos) continue;
    const std::string_view value = line.substr(equals + 3);
    const bool is_open = std::ranges::find(open, line.substr(0, equals)) != open.end();
    if (is_open || value.size() < 6) continue;
    // Of a key file in one line, each of its texts is.
    const Json parts = value.starts_with('{') ? Json::parse(value, nullptr, false) : Json();
    for (const auto& [name, part] : parts.items()) {
      const std::string text = part.is_string() ? part.get<std::string>() : "";
      if (text.size() >= 6 && !part_is_open(name)) secrets.push_back(text);
    }
    // Of an address with a signature, what is secret is the signature.
    const std::size_t query = value.find('?');
    secrets.emplace_back(query == value.npos ? value : value.substr(query + 1));
  }
  return secrets;
}

std::string redacted(std::string_view text, const std::vector<std::string>& secrets) {
  std::string out(text);
  for (const std::string& secret : secrets) {
    if (!secret.empty()) out = replaced(std::move(out), secret, mask);
  }
  for (const char* mark : {"sig=", "sharedkey ", "accountkey=", "x-amz-signature=",
                           "x-goog-signature=", "password=", "token="}) {
    mask_values(out, mark, " \t\r\n&\"'<>,;)");
  }
  for (const char* mark : {"authorization:", "authorization\":", "x-ms-copy-source:"}) {
    mask_values(out, mark, "\r\n\"");
  }
  // user:password@ of an address
  for (std::size_t at = 0; (at = out.find("://", at)) != out.npos; at += 3) {
    const std::size_t end = std::min(out.find_first_of("/ \t\n\"'", at + 3), out.size());
    const std::size_t sign = out.rfind('@', end);
    if (sign != out.npos && sign > at && sign < end) out.replace(at + 3, sign - at - 3, mask);
  }
  return out;
}

std::string root_of(const PlaceInStore& place) {
  const std::string path = joined_path(place.path);
  return place.is_file ? std::string(split_last_component(path).first) : path;
}

Status save_job_data(const fs::path& job_directory, const JobData& data) {
  const fs::path file = job_directory / "data.json";
  if (replace_file(file, versioned_json(data, job_data_version), 0600, Durable::on_disk)) {
    return Done{};
  }
  return Error{"cannot write " + file.string() + ": " + std::strerror(errno)};
}

Result<JobData> load_job_data(const fs::path& job_directory) {
  const fs::path file = job_directory / "data.json";
  std::error_code failure;
  if (!fs::exists(file, failure)) {
    if (failure) return system_error("read " + file.string(), failure.value());
    return JobData{};
  }
  return read_stored<JobData>(file, text_of_file(file), job_data_version);
}

Result<std::vector<StagedData>> staged_data(const fs::path& home, const JobData& data) {
  std::vector<StagedData> all;
  const auto add = [&](const std::string& name, const PlaceInStore& place, const std::string& path,
                       const std::string& manifest, const std::string& how) -> Status {
    const auto credentials = load_secrets(home, place.store);
    if (!credentials) return credentials.error();
    const auto config = rclone_config(place.store, *credentials);
    if (!config) return config.error();
    StagedData staged{name, manifest, *config, rclone_place(place.store, path)};
    staged.cache = data.cache.shared.empty() ? data.cache.cache : data.cache.shared;
    staged.size = data.cache.size;
    staged.is_file = place.is_file;
    staged.how = how;
    staged.stage_below = data.cache.stage_below;
    staged.mount_cache = data.mount_cache;
    all.push_back(std::move(staged));
    return Done{};
  };
  Status added = Done{};
  for (const JobInput& input : data.inputs) {
    if (added)
      added = add(input.input, input.place, root_of(input.place), input.manifest, input.how);
  }
  for (const JobOutput& output : data.outputs) {
    if (!added || output.content_files == 0) continue;
    const PlaceInStore& place = output.place;
    added = add(output.output, place, place.path, store_identity(place.store), "output");
  }
  if (!added) return added.error();
  return all;
}

}  // namespace muster
