#include "launcher/transport/ssh/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

namespace muster {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

SshSettings ssh_settings_from_environment(const std::string& muster_home) {
  SshSettings settings;
  std::string home = environment("HOME");
  if (const passwd* account = ::getpwuid(::getuid())) {
    settings.user = account->pw_name;
    if (home.empty()) home = account->pw_dir;
  }
  settings.key_folder = home + "/.ssh";
  settings.host_keys.files = {home + "/.ssh/known_hosts", home + "/.ssh/known_hosts2",
                              "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"};
  settings.own_known_hosts = muster_home + "/known_hosts";
  settings.agent_socket = environment("SSH_AUTH_SOCK");
  settings.jitter_seed = std::random_device{}();
  return settings;
}

}  // namespace muster
