#include "cli/job/ssh_keys.h"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "launcher/os/child.h"
#include "launcher/os/read_file.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr Milliseconds keygen_limit{10000};

Status make_keys(const fs::path& place, const JobId& job) {
  if (::mkdir(place.c_str(), 0700) != 0) return system_error("make " + place.string());
  for (const char* name : {"identity", "host"}) {
    const auto made = run_within({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C",
                                  "muster-" + job.value, "-f", (place / name).string()},
                                 keygen_limit);
    if (made) continue;
    return Error{"cannot make ssh keys for job " + job.value + ": " + made.error().message +
                 "; ssh-keygen is of the package openssh-client"};
  }
  const std::string known = "muster-" + job.value + " " + text_of_file(place / "host.pub");
  if (replace_file(place / "known_hosts", known, 0600, Durable::in_cache)) return Done{};
  return system_error("write " + (place / "known_hosts").string());
}

}  // namespace

// Whole or not at all, and who comes at the same time takes those of the first.
Result<SshKeys> ssh_keys_of(const Home& home, const JobId& job) {
  const fs::path directory = ssh_directory(home, job);
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) {
    const fs::path made = directory.string() + "." + std::to_string(::getpid());
    const Status keys = make_keys(made, job);
    if (keys) fs::rename(made, directory, ignored);
    fs::remove_all(made, ignored);
    if (!keys) return keys.error();
  }
  SshKeys keys{text_of_file(directory / "host"), text_of_file(directory / "identity.pub")};
  if (!keys.host_key.empty() && !keys.authorized_key.empty()) return keys;
  return Error{"cannot read the ssh keys of job " + job.value + " in " + directory.string()};
}

}  // namespace muster
