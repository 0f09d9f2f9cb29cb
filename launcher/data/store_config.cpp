#include "launcher/data/store_config.h"

#include <algorithm>
#include <array>
#include <optional>

#include "scheduler/model/names.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr std::string_view azure = "core.windows.net";

bool is_in_azure_words(const DatastoreSpec& spec) {
  return spec.type != DatastoreType::rclone && spec.type != DatastoreType::local;
}

std::string text_in(const Credentials& credentials, const char* key) {
  const auto found = credentials.find(key);
  return found == credentials.end() ? "" : found->second;
}

std::string blob_host(const DatastoreSpec& spec) {
  if (spec.type == DatastoreType::one_lake) return "onelake.blob.fabric.microsoft.com";
  return spec.account + ".blob." + spec.endpoint;
}

// One for a service principal is a file, which rclone finds as a second one in memory.
std::string principal_text(const Credentials& credentials) {
  std::string text = "{\"appId\":\"" + text_in(credentials, "client_id") + "\",\"password\":\"" +
                     text_in(credentials, "client_secret") + "\",\"tenant\":\"" +
                     text_in(credentials, "tenant_id") + "\"}";
  return "service_principal_file = " + text + "\n";
}

bool is_plain(const std::string& text) {
  return text.find_first_of("\"\\") == text.npos;
}

Result<std::string> azure_config(const DatastoreSpec& spec, const Credentials& credentials) {
  if (spec.type == DatastoreType::azure_file) {
    return Error{
        "azure_file shares are not reached by the rclone that Debian has; mount the share "
        "and use type: local"};
  }
  std::string config = "type = azureblob\naccount = " + spec.account + "\n";
  if (spec.endpoint != azure) config += "endpoint = blob." + spec.endpoint + "\n";
  const std::string key = text_in(credentials, "account_key");
  const std::string sas = text_in(credentials, "sas_token");
  if (!key.empty()) return config + "key = " + key + "\n";
  if (!text_in(credentials, "client_secret").empty()) {
    for (const auto& [name, text] : credentials) {
      if (!is_plain(text)) return Error{"credentials." + name + " holds a quote or a backslash"};
    }
    return config + principal_text(credentials);
  }
  const std::string_view mark = sas.empty() || sas.starts_with('?') ? "" : "?";
  return config + "sas_url = https://" + blob_host(spec) + "/" + spec.container +
         std::string(mark) + sas + "\n";
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
    out += control ? std::string(1, *control) : std::string(path.substr(0, taken));
    path.remove_prefix(taken);
  }
  return out;
}

std::string joined_path(std::string_view first, std::string_view second) {
  std::string path;
  for (std::string_view rest : {first, second}) {
    while (!rest.empty()) {
      const std::string_view part = take_until(rest, '/');
      if (!part.empty()) path += (path.empty() ? "" : "/") + std::string(part);
    }
  }
  return path;
}

Result<std::string> rclone_config(const DatastoreSpec& spec, const Credentials& credentials) {
  std::string config = "[store]\n";
  if (is_in_azure_words(spec)) {
    const auto rest = azure_config(spec, credentials);
    if (!rest) return rest.error();
    return config + *rest;
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
  const bool is_absolute = spec.path.starts_with('/');
  const std::string inside = joined_path(spec.path, path);
  if (!is_in_azure_words(spec)) return "store:" + std::string(is_absolute ? "/" : "") + inside;
  return "store:" + joined_path(spec.container, inside);
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

bool tells_hashes(const DatastoreSpec& spec) {
  constexpr std::array<std::string_view, 4> stores{"azureblob", "s3", "google cloud storage",
                                                   "swift"};
  return is_in_azure_words(spec) || std::ranges::find(stores, spec.remote) != stores.end();
}

}  // namespace muster
