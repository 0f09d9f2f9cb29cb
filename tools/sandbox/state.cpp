#include "tools/sandbox/state.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/sandbox/files.h"

namespace muster {

namespace {

using nlohmann::ordered_json;

constexpr int version = 1;

// A name goes into paths and commands.
bool is_host_name(const std::string& name) {
  return name.size() >= 3 && name.size() <= 5 && name[0] == 'h' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<Address> SandboxState::address_of(const std::string& host) const {
  const auto found = std::find(hosts.begin(), hosts.end(), host);
  if (found == hosts.end()) return std::nullopt;
  return subnet.host(static_cast<int>(found - hosts.begin()));
}

std::string encode_state(const SandboxState& state) {
  ordered_json out;
  out["version"] = version;
  out["user"] = state.user;
  out["private_home"] = state.private_home;
  out["subnet"] = address_text(state.subnet.base());
  out["is_up"] = state.is_up;
  out["hosts"] = state.hosts;
  if (state.gpus) out["gpus"] = *state.gpus;
  return out.dump() + "\n";
}

Result<SandboxState> decode_state(const std::string& text) {
  try {
    const auto in = ordered_json::parse(text);
    if (in.at("version") != version) return Error{"it was made by another version of muster"};
    SandboxState state;
    state.user = in.at("user").get<std::string>();
    state.private_home = in.at("private_home").get<bool>();
    const auto base = parse_address(in.at("subnet").get<std::string>());
    if (!base) return Error{"its subnet is no address"};
    state.subnet = Subnet(*base);
    state.is_up = in.at("is_up").get<bool>();
    state.hosts = in.at("hosts").get<std::vector<std::string>>();
    if (!std::all_of(state.hosts.begin(), state.hosts.end(), is_host_name)) {
      return Error{"its hosts have other names than muster gives"};
    }
    if (in.contains("gpus")) state.gpus = in.at("gpus").get<int>();
    return state;
  } catch (const nlohmann::json::exception&) {
    return Error{"it is damaged"};
  }
}

Result<std::optional<SandboxState>> read_state(const SandboxLayout& layout) {
  const auto text = read_file_if_there(layout.state());
  if (!text) return text.error();
  if (!*text) return std::optional<SandboxState>();
  auto state = decode_state(**text);
  if (!state) return Error{"cannot use " + layout.state().string() + ": " + state.error().message};
  return std::optional(std::move(*state));
}

Status write_state(const SandboxLayout& layout, const SandboxState& state) {
  return write_file(layout.state(), encode_state(state), 0644);
}

Result<Fd> take_lock(const std::filesystem::path& path) {
  Fd file(::open(path.c_str(), O_RDONLY));
  if (file.get() < 0 && errno == ENOENT) {
    file = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0644));
  }
  while (file.get() >= 0 && ::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) file.reset();
  }
  if (file.get() >= 0) return file;
  return Error{"cannot lock " + path.string() + ": " + std::strerror(errno)};
}

}  // namespace muster
