#include "launcher/image/registry.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/image/name.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "launcher/staging/source_tree.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Json = nlohmann::json;

// As registries name the machine's kind.
std::string platform() {
  utsname names{};
  ::uname(&names);
  const std::string machine = names.machine;
  if (machine == "x86_64") return "amd64";
  return machine == "aarch64" ? "arm64" : machine;
}

std::int64_t size_in(const Json& part) {
  return std::clamp(part.value("size", std::int64_t{0}), std::int64_t{0}, std::int64_t{1} << 50);
}

std::string fitting(const Json& list) {
  for (const Json& each : list) {
    const Json kind = each.value("platform", Json::object());
    const bool fits = kind.value("os", "") == "linux" &&
                      kind.value("architecture", "") == platform() &&
                      is_image_digest(each.value("digest", ""));
    if (fits) return each.value("digest", "");
  }
  return {};
}

Result<std::string> manifest_of(const std::string& name, Milliseconds limit) {
  return run_within({"skopeo", "inspect", "--raw", "docker://" + name}, limit);
}

RegistryAnswer why_not(const std::string& name, const Error& failed) {
  const std::string words = plain_words(failed.message);
  if (is_about_image(words)) {
    return ImageRefused{"the registry " + registry_of(name) + " does not give " + name + ": " +
                        words};
  }
  return RegistryUnknown{words};
}

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

// $REGISTRY_AUTH_FILE alone where it is set, else podman's, then docker's.
std::vector<std::string> login_files() {
  const std::string chosen = environment("REGISTRY_AUTH_FILE");
  if (!chosen.empty()) return {chosen};
  std::string runtime = environment("XDG_RUNTIME_DIR");
  if (runtime.empty()) runtime = "/run/user/" + std::to_string(::getuid());
  std::string docker = environment("DOCKER_CONFIG");
  if (docker.empty()) docker = environment("HOME") + "/.docker";
  return {runtime + "/containers/auth.json", docker + "/config.json"};
}

using BuildArguments = std::map<std::string, std::string>;

void take_argument(const std::vector<std::string_view>& words, BuildArguments& arguments) {
  if (words.size() < 2 || lower_case(words[0]) != "arg") return;
  const std::size_t equals = words[1].find('=');
  if (equals == words[1].npos) return;
  std::string value(words[1].substr(equals + 1));
  std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
  arguments[std::string(words[1].substr(0, equals))] = value;
}

std::string filled_in(std::string text, const BuildArguments& arguments) {
  for (auto at = arguments.rbegin(); at != arguments.rend(); ++at) {  // longer names first
    text = replaced(std::move(text), "${" + at->first + "}", at->second);
    text = replaced(std::move(text), "$" + at->first, at->second);
  }
  return text;
}

// The images that an instruction names, as written: "FROM [--platform=…] IMAGE [AS NAME]",
// "COPY --from=IMAGE …", "RUN --mount=type=bind,from=IMAGE …".
std::vector<std::string> images_of(std::vector<std::string_view> words) {
  if (!words.empty() && lower_case(words[0]) == "onbuild") words.erase(words.begin());
  std::vector<std::string> images;
  const std::string verb = words.empty() ? "" : lower_case(words[0]);
  for (std::string_view word : words) {
    if (verb == "from" && word != words[0] && !word.starts_with("--")) return {std::string(word)};
    const bool is_mount = verb == "run" && word.starts_with("--mount=");
    if (!is_mount && verb != "copy" && verb != "add") continue;
    word.remove_prefix(std::min<std::size_t>(word.size(), is_mount                 ? 8
                                                          : word.starts_with("--") ? 2
                                                                                   : 0));
    for (std::string_view part; !(part = take_until(word, ',')).empty();) {
      if (part.starts_with("from=")) images.emplace_back(part.substr(5));
    }
  }
  return images;
}

// Each instruction, which may have several lines, with the images of others that it names: as they
// are written, and in full.
template <class Visit>
void visit_instructions(std::string_view dockerfile, const Visit& visit) {
  BuildArguments arguments;
  std::set<std::string> stages = {"scratch"};
  while (!dockerfile.empty()) {
    std::string text, whole;  // as it is written; on one line, without remarks
    for (bool goes_on = true; goes_on && !dockerfile.empty();) {
      const std::string_view line = take_until(dockerfile, '\n');
      const std::string_view code = trimmed(line);
      const bool is_first = text.empty();
      text += (is_first ? "" : "\n") + std::string(line);
      if (code.empty() || code.starts_with('#')) {
        if (is_first) break;
        continue;
      }
      goes_on = code.ends_with('\\');
      whole += line.substr(0, line.rfind(code.back()) + (goes_on ? 0 : 1));
    }
    auto words = words_in(whole);
    take_argument(words, arguments);
    std::map<std::string, std::string> images;
    for (const std::string& written : images_of(words)) {
      const std::string image = filled_in(written, arguments);
      const bool is_number = is_made_of(image, "0123456789") && lower_case(words[0]) != "from";
      if (!is_number && !stages.contains(lower_case(image))) images[written] = image;
    }
    visit(text, images);
    std::erase_if(words, [](std::string_view word) { return word.starts_with("--"); });
    const bool is_named = words.size() >= 4 && lower_case(words[0]) == "from";
    if (is_named && lower_case(words[2]) == "as") stages.insert(lower_case(words[3]));
  }
}

Result<std::string> hash_of_file(const std::string& path) {
  const auto file = open_regular_file(path);
  if (!file) return file.error();
  constexpr std::size_t piece_bytes = 1u << 20;
  ContentHash hash;
  std::string piece;
  for (std::int64_t at = 0; read_at(file->get(), at, piece_bytes, piece); at += piece.size()) {
    if (piece.empty()) return hash.finish();
    hash.add(piece);
  }
  return system_error("read " + path);
}

}  // namespace

RegistryAnswer ask_registry(const std::string& name, Milliseconds limit) {
  const auto text = manifest_of(name, limit);
  if (!text) return why_not(name, text.error());
  const auto manifest = read_image_manifest(*text);
  if (!manifest) return RegistryUnknown{manifest.error().message};
  RegistryImage found{"sha256:" + content_hash_of(*text), manifest->bytes};
  if (!manifest->is_list) return found;
  if (manifest->other.empty()) {
    return ImageRefused{name + " has no image for linux/" + platform()};
  }
  const auto chosen = manifest_of(with_digest(name, manifest->other), limit);
  const auto size = chosen ? read_image_manifest(*chosen) : chosen.error();
  if (size) found.bytes = size->bytes;
  return found;
}

Result<ImageManifest> read_image_manifest(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    ImageManifest manifest;
    if (json.contains("manifests")) {
      manifest.is_list = true;
      manifest.other = fitting(json.at("manifests"));
      return manifest;
    }
    if (json.contains("config")) manifest.bytes = size_in(json.at("config"));
    for (const Json& layer : json.value("layers", Json::array())) manifest.bytes += size_in(layer);
    return manifest;
  } catch (const Json::exception&) {
    return Error{"the registry's answer is not a manifest"};
  }
}

bool is_about_image(std::string_view said) {
  constexpr std::string_view signs[] = {"manifest unknown",
                                        "name unknown",
                                        "access denied",
                                        "is denied",
                                        "denied: ",
                                        "unauthorized",
                                        "invalid username/password",
                                        "image not known",
                                        "no image found in",
                                        "no matching manifest",
                                        "invalid reference format",
                                        "no image with name",
                                        "HTTP response to HTTPS client",
                                        "repository does not exist"};
  return std::ranges::any_of(signs, [&](std::string_view sign) { return mentions(said, sign); });
}

bool is_about_connection(std::string_view said) {
  constexpr std::string_view signs[] = {
      "connection refused", "no route to host", "network is unreachable", "no such host",
      "i/o timeout",        "name resolution",  "server misbehaving"};
  return std::ranges::any_of(signs, [&](std::string_view sign) { return mentions(said, sign); });
}

std::string plain_words(std::string_view said) {
  constexpr std::size_t most_lines = 20, most_bytes = 400;
  std::string words;
  for (const std::string& line : last_utf8_lines(said, most_lines)) {
    if (!mentions(line, "level=warning")) words += (words.empty() ? "" : ": ") + line;
  }
  for (std::size_t at = 0; (at = words.find('?', at)) != words.npos; ++at) {
    const std::size_t end = std::min(words.find_first_of(" \"'\\", at), words.size());
    words.erase(at, end - at);
  }
  constexpr std::string_view fatal = "level=fatal msg=\"";
  if (const auto at = words.rfind(fatal); at != words.npos) {
    words.erase(0, at + fatal.size());
    if (words.ends_with('"')) words.pop_back();
  }
  return shortened(without_controls(replaced(words, "\\\"", "'")), most_bytes);
}

Result<std::string> login_in(std::string_view text, const std::string& name, const AskHelper& ask) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::string();
  try {
    const Json helpers = json.value("credHelpers", Json::object());
    if (const auto key = best_key(helpers, name); !key.empty()) {
      return by_helper(helpers.at(key).get<std::string>(), name, ask);
    }
    const Json logins = json.value("auths", Json::object());
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

std::vector<std::string> base_images(std::string_view dockerfile) {
  std::vector<std::string> all;
  visit_instructions(dockerfile, [&](const std::string&, const auto& images) {
    for (const auto& [written, image] : images) {
      if (std::ranges::find(all, image) == all.end()) all.push_back(image);
    }
  });
  return all;
}

std::string with_base_images(std::string_view dockerfile,
                             const std::map<std::string, std::string>& others) {
  std::string all;
  visit_instructions(dockerfile, [&](std::string text, const auto& images) {
    for (const auto& [written, image] : images) {
      const auto other = others.find(image);
      const std::size_t at = text.find(written);
      if (other != others.end() && at != text.npos) text.replace(at, written.size(), other->second);
    }
    all += text + "\n";
  });
  return all;
}

DockerIgnore::DockerIgnore(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = trimmed(take_until(text, '\n'));
    if (line.empty() || line[0] == '#') continue;
    const bool keeps = line[0] == '!';
    if (keeps) line = trimmed(line.substr(1));
    if (line.starts_with("./")) line.remove_prefix(2);
    while (line.starts_with('/')) line.remove_prefix(1);
    while (line.ends_with('/')) line.remove_suffix(1);
    if (!line.empty()) lines_.push_back({Glob(line), keeps});
  }
}

bool DockerIgnore::leaves_out(std::string_view path) const {
  bool is_out = false;
  for (const Line& line : lines_) {
    for (std::size_t end = 0; end != path.npos;) {
      end = path.find('/', end + 1);
      if (!line.glob.matches(path.substr(0, end))) continue;
      is_out = !line.keeps;
      break;
    }
  }
  return is_out;
}

Result<std::string> build_hash(const std::filesystem::path& context, std::string_view dockerfile) {
  const auto tree = walk_source(context, false);
  if (!tree) return tree.error();
  const DockerIgnore ignore(text_of_file(context / ".dockerignore"));
  ContentHash all;
  const auto add = [&all](std::string_view text) {
    all.add(text);
    all.add(std::string_view("\0", 1));
  };
  add(dockerfile);
  for (const SourceEntry& each : tree->entries) {
    if (ignore.leaves_out(each.entry.path)) continue;
    const bool is_file = each.entry.entry_kind == TreeEntry::Kind::file;
    const auto content = is_file ? hash_of_file(each.from) : each.entry.target;
    if (!content) return content.error();
    add(each.entry.path);
    add(std::to_string(static_cast<int>(each.entry.entry_kind)) + " " +
        std::to_string(each.entry.mode));
    add(*content);
  }
  return all.finish();
}

// conda of the image: in its PATH, or where Azure's images have it.
std::string conda_dockerfile(const std::string& image) {
  return "FROM " + image +
         "\n"
         "COPY conda.yml /opt/muster/conda.yml\n"
         "RUN \"$(command -v conda || echo /opt/miniconda/bin/conda)\" env create"
         " -p /opt/muster/env -f /opt/muster/conda.yml\n"
         "ENV PATH=/opt/muster/env/bin:${PATH:-/usr/local/bin:/usr/bin:/bin}\n";
}

}  // namespace muster
