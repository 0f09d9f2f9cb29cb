#include "tools/sandbox/access_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/agent/node_check.h"
#include "tools/sandbox/files.h"
#include "tools/sandbox/run_command.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// "ssh-ed25519 AAAA…", without the comment.
std::string key_without_comment(const std::string& line) {
  const std::size_t kind = line.find(' ');
  return line.substr(0, line.find_first_of(" \n", kind + 1));
}

Command key_command(const fs::path& file, const std::string& comment) {
  return {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", file.string()};
}

std::string address_on(const SandboxState& state, const std::string& host) {
  return address_text(state.address_of(host).value_or(0));
}

Result<std::string> key_text(const fs::path& file) {
  auto text = read_file_if_there(file);
  if (!text) return text.error();
  if (!*text) return Error{"ssh-keygen left no " + file.string()};
  return **text;
}

Status copy_key(const fs::path& from, const fs::path& to, mode_t mode) {
  const auto text = key_text(from);
  return text ? write_file(to, *text, mode) : Status(text.error());
}

Status give_client_key(const SandboxLayout& layout, Owner owner) {
  for (const std::string end : {"", ".pub"}) {
    const std::string path = layout.client_key().string() + end;
    if (::chown(path.c_str(), owner.uid, owner.gid) != 0) {
      return Error{"cannot give " + path + " to its user: " + std::strerror(errno)};
    }
  }
  return Done{};
}

}  // namespace

std::string sshd_config_text(const SandboxLayout& layout, const SandboxState& state,
                             const std::string& host) {
  const std::string place = layout.host(host).string();
  const std::string root = layout.system_root(host).string();
  const std::string gpus =
      state.gpus ? "SetEnv " + std::string(system_root_name) + "=" + root + "\n" : "";
  return "Port 22\nHostKey " + place + "/host_key\nPidFile " + place +
         "/sshd.pid\nAuthorizedKeysFile " + layout.authorized_keys().string() +
         "\n"
         "StrictModes no\n"
         "UsePAM no\n"
         "PasswordAuthentication no\n"
         "KbdInteractiveAuthentication no\n"
         "UseDNS no\n"
         "PrintMotd no\n"
         "PermitRootLogin prohibit-password\n"
         "Subsystem sftp internal-sftp\n" +
         gpus;
}

std::string cluster_file_text(const SandboxLayout& layout, const SandboxState& state) {
  std::string text = "default: " + std::string(sandbox_target) + "\ncompute:\n  " + sandbox_target +
                     ":\n    transport: ssh\n    user: " + state.user +
                     "\n    identity_file: " + layout.client_key().string() + "\n";
  text += "    nodes:\n";
  for (const std::string& host : state.hosts) {
    text += "      - {name: " + host + ", host: " + address_on(state, host) + "}\n";
  }
  return text;
}

std::string ssh_config_text(const SandboxLayout& layout, const SandboxState& state) {
  std::string text;
  for (const std::string& host : state.hosts) {
    const std::string address = address_on(state, host);
    text += "Host " + host + " " + address + "\n  HostName " + address + "\n";
  }
  return text + "Host *\n  User " + state.user + "\n  IdentityFile " +
         layout.client_key().string() + "\n  IdentitiesOnly yes\n  UserKnownHostsFile " +
         layout.known_hosts().string() + "\n  StrictHostKeyChecking yes\n  BatchMode yes\n";
}

std::string hosts_file_text(const SandboxState& state) {
  std::string text = "127.0.0.1 localhost\n";
  for (const std::string& host : state.hosts) text += address_on(state, host) + " " + host + "\n";
  return text;
}

std::string known_hosts_text(const SandboxState& state,
                             const std::map<std::string, std::string>& public_keys) {
  std::string text;
  for (const std::string& host : state.hosts) {
    const auto key = public_keys.find(host);
    if (key == public_keys.end()) continue;
    text += host + "," + address_on(state, host) + " " + key_without_comment(key->second) + "\n";
  }
  return text;
}

Status make_keys(const SandboxLayout& layout, const SandboxState& state) {
  const fs::path kept = fs::path(sandbox_root) / "host_keys";
  if (auto made = make_folder(kept, 0700); !made) return made;
  std::error_code ignored;
  std::vector<Command> commands{key_command(layout.client_key(), layout.prefix())};
  for (const std::string& host : state.hosts) {
    const fs::path key = kept / address_on(state, host);
    if (fs::exists(key.string() + ".pub", ignored)) continue;
    fs::remove(key, ignored);  // half of a pair that was never finished
    commands.push_back(key_command(key, "sandbox"));
  }
  if (auto made = run_commands(commands); !made) return made;
  for (const std::string& host : state.hosts) {
    if (auto made = make_folder(layout.host(host), 0755); !made) return made;
    const fs::path key = kept / address_on(state, host);
    if (auto done = copy_key(key, layout.host(host) / "host_key", 0600); !done) return done;
    const fs::path half = key.string() + ".pub";
    if (auto done = copy_key(half, layout.host(host) / "host_key.pub", 0644); !done) return done;
  }
  return Done{};
}

Status write_access_files(const SandboxLayout& layout, const SandboxState& state, Owner owner) {
  std::map<std::string, std::string> public_keys;
  for (const std::string& host : state.hosts) {
    auto key = key_text(layout.host(host) / "host_key.pub");
    if (!key) return key.error();
    public_keys[host] = std::move(*key);
    const auto config = layout.host(host) / "sshd_config";
    const std::string text = sshd_config_text(layout, state, host);
    if (auto done = write_file(config, text, 0644); !done) return done;
  }
  const auto client = key_text(layout.client_key().string() + ".pub");
  if (!client) return client.error();
  const std::map<fs::path, std::string> texts{
      {layout.authorized_keys(), *client},
      {layout.hosts_file(), hosts_file_text(state)},
      {layout.known_hosts(), known_hosts_text(state, public_keys)},
      {layout.ssh_config(), ssh_config_text(layout, state)},
      {layout.cluster_file(), cluster_file_text(layout, state)},
  };
  for (const auto& [path, text] : texts) {
    if (auto done = write_file(path, text, 0644); !done) return done;
  }
  return give_client_key(layout, owner);
}

}  // namespace muster
