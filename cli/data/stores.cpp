#include "cli/data/stores.h"

#include <algorithm>

#include "cli/data/catalogue.h"
#include "cli/terminal/files.h"
#include "launcher/data/secrets.h"
#include "launcher/data/store_config.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/read_options.h"

namespace muster {
namespace {

constexpr std::size_t credentials_limit_bytes = 65536;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// "%20" of an address.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_coded = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
                          hex_digit(text[i + 2]) >= 0;
    out += is_coded ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]))
                    : text[i];
    if (is_coded) i += 2;
  }
  return out;
}

// A name for a store that has none.
std::string name_from(std::string_view address) {
  std::string name;
  for (const char c : address) name += is_word_of(std::string_view(&c, 1), "_.-") ? c : '-';
  while (!name.empty() && (name[0] == '.' || name[0] == '-')) name.erase(0, 1);
  return name.empty() ? "store" : name.substr(0, 200);
}

struct BlobAddress {
  std::string account;
  std::string endpoint;
  std::string container;
  std::string path;
};

std::string_view part_until(std::string_view& text, char end) {
  return take_until(text, end);
}

// "ACCOUNT.blob.ENDPOINT" or "ACCOUNT.dfs.ENDPOINT".
bool read_host(std::string_view host, BlobAddress& address) {
  const std::string_view account = part_until(host, '.');
  const std::string_view kind = part_until(host, '.');
  if (kind != "blob" && kind != "dfs") return false;
  address.account = account;
  address.endpoint = host;
  return is_word_of(account, "-") && is_word_of(host, "-.:");
}

std::optional<BlobAddress> read_blob_address(std::string_view text) {
  BlobAddress address;
  const std::size_t mark = text.find("://");
  if (mark == text.npos) return std::nullopt;
  const std::string scheme = lower_case(text.substr(0, mark));
  text.remove_prefix(mark + 3);
  std::string_view host = part_until(text, '/');
  if (scheme == "https" || scheme == "http") {
    if (!read_host(host, address)) return std::nullopt;
    address.container = part_until(text, '/');
  } else if (scheme == "wasbs" || scheme == "wasb" || scheme == "abfss" || scheme == "abfs") {
    address.container = part_until(host, '@');
    if (!read_host(host, address)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  address.path = percent_decoded(text);
  const bool has_container = is_word_of(address.container, "-._$");
  return has_container ? std::optional(address) : std::nullopt;
}

bool is_of(const DatastoreSpec& spec, const BlobAddress& address) {
  const bool is_blob =
      spec.type == DatastoreType::azure_blob || spec.type == DatastoreType::azure_data_lake_gen2;
  return is_blob && spec.account == address.account && spec.container == address.container &&
         spec.endpoint == address.endpoint;
}

}  // namespace

Result<DatastoreFile> datastore_of_text(const std::string& name, std::string_view text) {
  FindingList findings;
  const auto tree = parse_with_sets(name, text, {}, findings);
  DatastoreFile file;
  if (tree) file = read_datastore(Value(*tree, "", findings));
  const auto said = findings.take_sorted();
  if (tree && !has_errors(said) && !has_unresolved(said)) return file;
  return Error{"datastore " + quoted_text(name) +
               " cannot be read: " + (said.empty() ? "it is empty" : said[0].message)};
}

KnownStores::KnownStores(const Home& home, std::vector<DatastoreFile> of_clusters,
                         std::string default_name)
    : home_(home), stores_(std::move(of_clusters)), default_name_(std::move(default_name)) {
  for (const CatalogueEntry& entry : Catalogue(home, Catalogue::Kind::datastore).newest()) {
    auto file = datastore_of_text(entry.name, entry.text);
    if (file && find(file->spec.name) == nullptr) stores_.push_back(std::move(*file));
  }
}

bool may_hold_secret(std::string_view address) {
  if (address.find('?') != address.npos) return true;
  const std::size_t host = address.find("://");
  if (!address.starts_with("http") || host == address.npos) return false;
  return address.substr(host + 3, address.find('/', host + 3) - host - 3).find('@') != address.npos;
}

const DatastoreFile* KnownStores::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      stores_, [name](const DatastoreFile& file) { return file.spec.name == name; });
  return found == stores_.end() ? nullptr : &*found;
}

std::vector<std::string> KnownStores::names() const {
  std::vector<std::string> names;
  for (const DatastoreFile& file : stores_) names.push_back(file.spec.name);
  return names;
}

std::optional<AddressedPlace> KnownStores::in_azure(std::string_view address) const {
  const auto blob = read_blob_address(address);
  if (!blob) return std::nullopt;
  for (const DatastoreFile& file : stores_) {
    if (is_of(file.spec, *blob)) return AddressedPlace{{file.spec, blob->path}, true};
  }
  DatastoreSpec spec{name_from(blob->account + "-" + blob->container)};
  spec.account = blob->account;
  spec.container = blob->container;
  spec.endpoint = blob->endpoint;
  return AddressedPlace{{spec, blob->path}, false};
}

std::optional<AddressedPlace> KnownStores::in_bucket(std::string_view address) const {
  const bool is_s3 = address.starts_with("s3://");
  if (!is_s3 && !address.starts_with("gs://")) return std::nullopt;
  const std::string path = joined_path(percent_decoded(address.substr(5)), "");
  const std::string remote = is_s3 ? "s3" : "google cloud storage";
  for (const DatastoreFile& file : stores_) {
    const std::string begin = joined_path(file.spec.path, "");
    const bool is_same = file.spec.type == DatastoreType::rclone && file.spec.remote == remote;
    if (!is_same || !(path + "/").starts_with(begin.empty() ? "" : begin + "/")) continue;
    return AddressedPlace{{file.spec, path.substr(std::min(path.size(), begin.size()))}, true};
  }
  std::string_view rest = path;
  DatastoreSpec spec{name_from(take_until(rest, '/')), DatastoreType::rclone};
  spec.remote = remote;
  if (is_s3) spec.options = {{"provider", "AWS"}, {"env_auth", "false"}};
  if (!is_s3) spec.options = {{"anonymous", "true"}};
  return AddressedPlace{{spec, path}, false};
}

std::optional<AddressedPlace> KnownStores::on_web(std::string_view address) const {
  if (!address.starts_with("https://") && !address.starts_with("http://")) return std::nullopt;
  const std::size_t slash = address.rfind('/');
  const std::size_t host = address.find("://") + 3;
  if (slash < host || slash + 1 == address.size()) return std::nullopt;
  DatastoreSpec spec{name_from(address.substr(host, address.find('/', host) - host)),
                     DatastoreType::rclone};
  spec.remote = "http";
  spec.options = {{"url", std::string(address.substr(0, slash + 1))}};
  return AddressedPlace{{spec, percent_decoded(address.substr(slash + 1)), true}, false};
}

std::optional<AddressedPlace> KnownStores::at_address(std::string_view address) const {
  if (auto place = in_azure(address)) return place;
  if (auto place = in_bucket(address)) return place;
  return on_web(address);
}

Status KnownStores::keep_credentials(const DatastoreSpec& spec) const {
  const DatastoreFile* known = find(spec.name);
  // An address may have the name of a store and lead elsewhere.
  const bool is_it = known != nullptr && store_identity(known->spec) == store_identity(spec);
  if (!is_it) return save_secrets(home_.root, spec, {});
  Credentials credentials = known->credentials;
  if (!known->spec.credentials_file.empty()) {
    const auto text = read_input(known->spec.credentials_file, credentials_limit_bytes);
    if (!text) return text.error();
    FindingList findings;
    const auto tree = parse_with_sets(known->spec.credentials_file, *text, {}, findings);
    if (tree) credentials = read_credentials_file(Value(*tree, "", findings));
    const auto said = findings.take_sorted();
    if (!tree || has_errors(said)) {
      return Error{"cannot read " + known->spec.credentials_file + ": " +
                   (said.empty() ? "it is empty" : said[0].message)};
    }
  }
  // Of a store of the catalogue they are there since it was created.
  return credentials.empty() ? Status(Done{}) : save_secrets(home_.root, spec, credentials);
}

}  // namespace muster
