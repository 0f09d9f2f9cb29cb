#include "cli/health/state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cli/terminal/terminal.h"
#include "health/model/check.h"
#include "launcher/controller/store/home.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

// Histories are bounded; a file of this size is none of ours.
constexpr off_t bytes_max = 64ll << 20;

std::string file_name(const std::string& kind, const std::string& host) {
  std::string name = kind + "-" + host + ".state";
  for (char& c : name) c = c == '/' || static_cast<unsigned char>(c) < ' ' ? '_' : c;
  return name;
}

// Nothing when there is none. An Error: it is no file, too large, or somebody else's.
Result<std::optional<std::string>> read_state(const std::filesystem::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT) return std::optional<std::string>();
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) {
    return Error{"cannot read " + path.string() + ": " + std::strerror(errno)};
  }
  if (!S_ISREG(facts.st_mode)) return Error{path.string() + " is no file"};
  if (facts.st_uid != ::geteuid()) return Error{path.string() + " is somebody else's"};
  if (facts.st_size > bytes_max) return Error{path.string() + " is too large"};
  std::string text;
  if (!read_whole(file.get(), text)) {
    return Error{"cannot read " + path.string() + ": " + std::strerror(errno)};
  }
  return std::optional(std::move(text));
}

// Makes the directory, for its owner alone.
Status write_state(const std::filesystem::path& path, const std::string& text) {
  constexpr mode_t owner_only = 0600;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code failed;
  if (!std::filesystem::exists(folder, failed)) {
    if (auto made = open_private_directory(folder.string()); !made) return made.error();
  }
  if (replace_file(path, text, owner_only, Durable::in_cache)) return Done{};
  return Error{"cannot write " + path.string() + ": " + std::strerror(errno)};
}

template <class State>
Result<std::optional<State>> load(const std::filesystem::path& path) {
  const auto text = read_state(path);
  if (!text) return text.error();
  if (!*text) return std::optional<State>();
  auto state = read_versioned_json<State>(**text, state_version);
  if (!state) return Error{path.string() + ": " + state.error().message};
  return std::optional(std::move(*state));
}

template <class State>
State remembered(const std::optional<std::filesystem::path>& path, const CommonOptions& common) {
  if (!path) return {};
  auto state = load<State>(*path);
  if (!state) notice(state.error().message + "; starting with empty state", common);
  return state && *state ? std::move(**state) : State{};
}

template <class State>
void write_or_say(const std::optional<std::filesystem::path>& path, const State& state,
                  const CommonOptions& common) {
  if (!path) return;
  const auto saved = write_state(*path, versioned_json(state, state_version));
  if (!saved) notice(saved.error().message + ": state not saved", common);
}

}  // namespace

std::optional<std::filesystem::path> usual_state_file(const std::string& host,
                                                      const std::string& kind) {
  constexpr std::array names{"MUSTER_HOME", "XDG_STATE_HOME", "HOME"};
  const bool is_named =
      std::ranges::any_of(names, [](const char* name) { return !environment(name).empty(); });
  const Home home = is_named ? Home::from_environment() : Home{};
  if (!home.root.empty()) return home.root / file_name(kind, host);
  if (::geteuid() != 0) return std::nullopt;
  return std::filesystem::path("/var/lib/muster") / file_name(kind, host);
}

HealthState remembered_health(const std::optional<std::filesystem::path>& path,
                              const std::string& host, const CommonOptions& common) {
  auto state = remembered<HealthState>(path, common);
  return state.host == host ? std::move(state) : HealthState{};
}

FabricState remembered_fabric(const std::optional<std::filesystem::path>& path,
                              const CommonOptions& common) {
  return remembered<FabricState>(path, common);
}

void remember(const std::optional<std::filesystem::path>& path, const HealthState& state,
              const CommonOptions& common) {
  write_or_say(path, state, common);
}

void remember(const std::optional<std::filesystem::path>& path, const FabricState& state,
              const CommonOptions& common) {
  write_or_say(path, state, common);
}

}  // namespace muster
