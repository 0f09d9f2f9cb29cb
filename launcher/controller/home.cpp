#include "launcher/controller/home.h"

#include <cstdlib>

namespace muster {

Home Home::from_environment() {
  const auto value = [](const char* name) {
    const char* found = std::getenv(name);
    return std::string(found == nullptr ? "" : found);
  };
  if (const auto home = value("MUSTER_HOME"); !home.empty()) {
    return Home{std::filesystem::absolute(home)};
  }
  if (const auto state = value("XDG_STATE_HOME"); !state.empty()) {
    return Home{std::filesystem::path(state) / "muster"};
  }
  const auto user_home = value("HOME");
  return Home{std::filesystem::path(user_home.empty() ? "/tmp" : user_home) /
              ".local/state/muster"};
}

}  // namespace muster
