#include "launcher/controller/store/home.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace muster {

namespace {

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path home_of_user() {
  if (auto home = variable("HOME"); home.is_absolute()) return home;
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? "" : entry->pw_dir;
}

}  // namespace

Home Home::from_environment() {
  if (const auto home = variable("MUSTER_HOME"); !home.empty()) {
    return Home{std::filesystem::absolute(home)};
  }
  if (const auto state = variable("XDG_STATE_HOME"); state.is_absolute()) {
    return Home{state / "muster"};
  }
  const auto home = home_of_user();
  return home.is_absolute() ? Home{home / ".local/state/muster"} : Home{};
}

}  // namespace muster
