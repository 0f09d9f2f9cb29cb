#include "launcher/data/secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "launcher/data/store_config.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr int secrets_version = 1;
constexpr std::string_view mask = "***";

struct StoredSecrets {
  Credentials credentials;

  MUSTER_FIELDS(credentials)
};

// The text from `at` on that is part of a value in an address, a header or a list of settings.
std::size_t value_end(std::string_view text, std::size_t at) {
  const std::size_t end = text.find_first_of(" \t\r\n&\"'<>,;)", at);
  return end == text.npos ? text.size() : end;
}

void mask_values(std::string& text, std::string_view mark, bool whole_line) {
  for (std::size_t at = 0;;) {
    at = lower_case(text).find(mark, at);
    if (at == text.npos) return;
    at += mark.size();
    at = std::min(text.find_first_not_of(" \"", at), text.size());
    const std::size_t line = std::min(text.find_first_of("\r\n\"", at), text.size());
    const std::size_t end = whole_line ? line : value_end(text, at);
    text.replace(at, end - at, mask);
    at += mask.size();
  }
}

Result<Credentials> secrets_of_text(const std::filesystem::path& file, std::string_view text) {
  auto read = read_versioned_json<StoredSecrets>(text, secrets_version);
  if (!read) return Error{"cannot read " + file.string() + ": " + read.error().message};
  return std::move(read->credentials);
}

}  // namespace

std::filesystem::path secret_file(const std::filesystem::path& home, const DatastoreSpec& spec) {
  const std::string id = content_hash_of(spec.name + "|" + store_identity(spec)).substr(0, 12);
  return home / "secrets" / (spec.name + "-" + id);
}

Status save_secrets(const std::filesystem::path& home, const DatastoreSpec& spec,
                    const Credentials& credentials) {
  const std::filesystem::path file = secret_file(home, spec);
  if (credentials.empty()) {
    if (::unlink(file.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return Done{};
    return system_error("remove " + file.string());
  }
  if (auto made = open_private_directory(file.parent_path().string()); !made) return made.error();
  const std::string text = versioned_json(StoredSecrets{credentials}, secrets_version);
  if (replace_file(file, text, 0600, Durable::on_disk)) return Done{};
  return system_error("write " + file.string());
}

Result<Credentials> load_secrets(const std::filesystem::path& home, const DatastoreSpec& spec) {
  const std::filesystem::path file = secret_file(home, spec);
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
  return secrets_of_text(file, text);
}

std::vector<std::string> secrets_in_config(std::string_view config) {
  std::vector<std::string> secrets;
  while (!config.empty()) {
    const std::string_view line = take_until(config, '\n');
    const std::size_t equals = line.find(" = ");
    if (equals == line.npos) continue;
    const std::string_view name = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 3);
    const bool is_open = name == "type" || name == "account" || name == "endpoint" ||
                         name == "url" || name == "host" || name == "user" || name == "port" ||
                         name == "provider" || name == "vendor" || name == "region";
    if (is_open || value.size() < 6) continue;
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
    mask_values(out, mark, false);
  }
  for (const char* mark : {"authorization:", "authorization\":", "x-ms-copy-source:"}) {
    mask_values(out, mark, true);
  }
  // user:password@ of an address
  for (std::size_t at = 0; (at = out.find("://", at)) != out.npos; at += 3) {
    const std::size_t end = std::min(out.find_first_of("/ \t\n\"'", at + 3), out.size());
    const std::size_t sign = out.rfind('@', end);
    if (sign != out.npos && sign > at && sign < end) out.replace(at + 3, sign - at - 3, mask);
  }
  return out;
}

}  // namespace muster
