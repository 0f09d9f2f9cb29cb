#include "launcher/image/login.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launcher/image/name.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Json = nlohmann::json;

// docker's own name of its hub, under which its logins are.
constexpr const char* hub = "https://index.docker.io/v1/";

// "https://host/v1/" and "host" are the same.
std::string plain_key(std::string key) {
  if (key == hub) return "docker.io";
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme))
      return key.substr(scheme.size(), key.find('/', scheme.size()) - scheme.size());
  }
  return key;
}

// A key is a registry, or the beginning of a name in it: the longest counts.
std::string best_key(const Json& entries, const std::string& name) {
  std::string best, best_plain;
  for (const auto& [key, value] : entries.items()) {
    const std::string plain = plain_key(key);
    const bool fits = repository_of(name) == plain || name.starts_with(plain + "/");
    if (!fits || plain.empty() || plain.size() <= best_plain.size()) continue;
    best = key;
    best_plain = plain;
  }
  return best;
}

Json object_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

std::string login_text(const std::string& registry, const Json& entry) {
  Json logins = {{registry, entry}};
  if (registry == "docker.io") logins[hub] = entry;  // docker asks for that
  return Json{{"auths", logins}}.dump();
}

Result<std::string> by_helper(const std::string& helper, const std::string& name,
                              const AskHelper& ask) {
  const std::string registry = registry_of(name);
  const auto answer = ask(helper, registry == "docker.io" ? hub : registry);
  if (!answer) return answer.error();
  const Json json = Json::parse(*answer, nullptr, false);
  if (!json.is_object()) return Error{"docker-credential-" + helper + " gave no JSON"};
  const std::string user = json.value("Username", ""), secret = json.value("Secret", "");
  if (secret.empty()) return std::string();
  if (user == "<token>") return login_text(registry, {{"identitytoken", secret}});
  return login_text(registry, {{"auth", encode_base64(user + ":" + secret)}});
}

}  // namespace

std::vector<std::string> login_files() {
  const std::string chosen = environment("REGISTRY_AUTH_FILE");
  if (!chosen.empty()) return {chosen};
  std::string runtime = environment("XDG_RUNTIME_DIR");
  if (runtime.empty()) runtime = "/run/user/" + std::to_string(::getuid());
  std::string docker = environment("DOCKER_CONFIG");
  if (docker.empty()) docker = environment("HOME") + "/.docker";
  return {runtime + "/containers/auth.json", docker + "/config.json"};
}

Result<std::string> login_in(std::string_view text, const std::string& name, const AskHelper& ask) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::string();
  try {
    const Json helpers = object_in(json, "credHelpers");
    if (const auto key = best_key(helpers, name); !key.empty()) {
      return by_helper(helpers.at(key).get<std::string>(), name, ask);
    }
    const Json logins = object_in(json, "auths");
    const auto key = best_key(logins, name);
    const Json entry = key.empty() ? Json::object() : logins.at(key);
    if (entry.contains("auth") || entry.contains("identitytoken")) {
      return login_text(plain_key(key), entry);
    }
    const std::string store = json.value("credsStore", "");
    return store.empty() ? std::string() : by_helper(store, name, ask);
  } catch (const Json::exception&) {
    return std::string();
  }
}

Result<std::string> login_for(const std::string& name, Milliseconds limit) {
  const AskHelper ask = [limit](const std::string& helper,
                                const std::string& server) -> Result<std::string> {
    if (!is_word_of(helper, "-_.")) return Error{"credential helper: not a name"};
    return run_within({"docker-credential-" + helper, "get"}, limit, server);
  };
  for (const std::string& file : login_files()) {
    auto login = login_in(text_of_file(file), name, ask);
    if (!login || !login->empty()) return login;
  }
  return std::string();
}

}  // namespace muster
