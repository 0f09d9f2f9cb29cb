#include "launcher/controller/store/own_home.h"

#include <unistd.h>

#include "launcher/os/private_directory.h"

namespace muster {

namespace {

Status usable(const Home& home, const Error& why) {
  if (!home.root.empty()) {
    return Error{"cannot use the state directory: " + why.message +
                 " (set MUSTER_HOME to a directory of your own that can be written)"};
  }
  return Error{"there is no state directory: HOME is not set, and no home is known of the user " +
               std::to_string(::geteuid()) + " (set MUSTER_HOME to a directory of your own)"};
}

}  // namespace

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
