#include "launcher/controller/store/home.h"

#include <pwd.h>
#include <unistd.h>

#include "launcher/os/child.h"
#include "launcher/os/private_directory.h"

namespace muster {

namespace {

std::filesystem::path home_of_user() {
  if (auto home = std::filesystem::path(environment("HOME")); home.is_absolute()) return home;
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? "" : entry->pw_dir;
}

Status usable(const Home& home, const Error& why) {
  if (!home.root.empty()) {
    return Error{"cannot use the state directory: " + why.message +
                 " (set MUSTER_HOME to a directory of your own that can be written)"};
  }
  return Error{"there is no state directory: HOME is not set, and no home is known of the user " +
               std::to_string(::geteuid()) + " (set MUSTER_HOME to a directory of your own)"};
}

}  // namespace

Home Home::from_environment() {
  if (const auto home = std::filesystem::path(environment("MUSTER_HOME")); !home.empty()) {
    return Home{std::filesystem::absolute(home)};
  }
  if (const auto state = std::filesystem::path(environment("XDG_STATE_HOME"));
      state.is_absolute()) {
    return Home{state / "muster"};
  }
  const auto home = home_of_user();
  return home.is_absolute() ? Home{home / ".local/state/muster"} : Home{};
}

Status own_home(const Home& home) {
  if (home.root.empty()) return usable(home, {});
  const auto opened = open_private_directory(home.root.string());
  return opened ? Status(Done{}) : usable(home, opened.error());
}

Status check_home(const Home& home) {
  if (home.root.empty()) return usable(home, {});
  const auto checked = check_private_directory(home.root.string());
  return checked ? checked : usable(home, checked.error());
}

}  // namespace muster
