#include "tools/sandbox/sandbox.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "launcher/os/child.h"
#include "tools/sandbox/account.h"
#include "tools/sandbox/fake_gpus.h"
#include "tools/sandbox/files.h"
#include "tools/sandbox/host_processes.h"
#include "tools/sandbox/namespaces.h"
#include "tools/sandbox/network.h"
#include "tools/sandbox/requirements.h"
#include "tools/sandbox/state.h"

namespace muster {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// 256 sshd start within seconds; on a machine that is busy otherwise it has taken twenty.
constexpr std::chrono::seconds boot_limit{60};
constexpr std::chrono::milliseconds boot_pause{5};

Error interruption() {
  return Error{"interrupted; nothing is left of it"};
}

// A folder of somebody else could be full of links to where root should not write.
Status claim_folder(const SandboxLayout& layout, Owner owner) {
  const fs::path& folder = layout.folder();
  if (auto made = make_folder(folder.parent_path(), 0755); !made && !fs::exists(folder)) {
    return made;
  }
  struct stat facts {};
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return Error{"cannot make " + folder.string() + ": " + std::strerror(errno)};
  }
  const bool is_folder = ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
  if (is_folder && (facts.st_uid == 0 || facts.st_uid == owner.uid)) return Done{};
  return Error{folder.string() + " belongs to somebody else; choose another folder with --dir"};
}

Error no_sandbox(const SandboxLayout& layout) {
  return Error{"there is no sandbox in " + layout.folder().string()};
}

Result<SandboxState> state_of(const SandboxLayout& layout) {
  auto state = read_state(layout);
  if (!state) return state.error();
  if (!*state) return no_sandbox(layout);
  return std::move(**state);
}

Status require_host(const SandboxState& state, const std::string& host) {
  if (state.address_of(host)) return Done{};
  return Error{"there is no host '" + host + "': the sandbox has " + state.hosts.front() + " to " +
               state.hosts.back()};
}

Status make_homes(const SandboxLayout& layout, const SandboxState& state, const Account& account,
                  std::optional<int> size_mib) {
  for (const std::string& host : state.hosts) {
    const fs::path home = layout.home(host, state.private_home);
    if (auto made = make_folder(home, 0700); !made) return made;
    // In this machine's mounts, so that it survives a crash of the host, as a disk does.
    if (size_mib) {
      if (auto mounted = mount_sized(home, *size_mib); !mounted) return mounted;
    }
    if (::chown(home.c_str(), account.uid, account.gid) != 0) {
      return Error{"cannot give " + home.string() + " to " + account.name};
    }
    if (!state.private_home) break;
  }
  return make_folder(layout.shared(), 01777);
}

// What hosts are shown in its place needs a file that is there; the smallest installations have
// none.
Status make_hosts_file() {
  const fs::path file = "/etc/hosts";
  std::error_code ignored;
  if (fs::exists(file, ignored)) return Done{};
  return write_file(file, "127.0.0.1 localhost\n", 0644);
}

fs::path filler(const SandboxLayout& layout, const std::string& host) {
  return layout.home(host, true) / ".filled";
}

HostSetting setting_of(const SandboxLayout& layout, const SandboxState& state,
                       const Account& account, const std::string& host) {
  HostSetting setting;
  setting.name = host;
  setting.address = state.address_of(host).value_or(0);
  setting.gateway = state.subnet.gateway();
  setting.folder = layout.folder();
  setting.place = layout.host(host);
  setting.network = layout.network(host);
  setting.home = layout.home(host, state.private_home);
  setting.home_of_user = account.home;
  setting.hosts_file = layout.hosts_file();
  setting.sshd = sshd_program();
  setting.checkout = own_checkout();
  return setting;
}

fs::path listening_file(const SandboxLayout& layout, const std::string& host) {
  return layout.host(host) / "sshd.pid";
}

// What the host said last, when it did not come up.
Error host_failed(const SandboxLayout& layout, const std::string& host) {
  const fs::path log = layout.host(host) / "sshd.log";
  const auto text = read_file_if_there(log);
  std::string said = text && *text ? **text : "";
  while (!said.empty() && said.back() == '\n') said.pop_back();
  said = said.substr(said.rfind('\n') + 1);
  return Error{host + " did not come up" +
               (said.empty() ? "; " + log.string() + " is empty" : ": " + said)};
}

Status wait_until_on(const SandboxLayout& layout, const std::vector<std::string>& hosts,
                     const Interrupted& interrupted) {
  const auto deadline = Clock::now() + boot_limit;
  std::error_code ignored;
  for (const std::string& host : hosts) {
    while (!fs::exists(listening_file(layout, host), ignored)) {
      if (interrupted()) return interruption();
      if (!running_init(layout, host)) return host_failed(layout, host);
      if (Clock::now() > deadline) {
        return Error{host + " is silent after " + std::to_string(boot_limit.count()) + " s; see " +
                     (layout.host(host) / "sshd.log").string()};
      }
      std::this_thread::sleep_for(boot_pause);
    }
  }
  return Done{};
}

Status power_on(const SandboxLayout& layout, const SandboxState& state,
                const std::vector<std::string>& hosts, const Interrupted& interrupted) {
  const auto account = find_account(state.user);
  if (!account) return Error{"the account " + state.user + " is gone; take the sandbox down"};
  for (const std::string& host : hosts) {
    if (interrupted()) return interruption();
    std::error_code ignored;
    fs::remove(listening_file(layout, host), ignored);
    const auto init = start_host(setting_of(layout, state, *account, host));
    if (!init) return init.error();
    if (!remember_init(layout, host, *init)) return host_failed(layout, host);
  }
  return wait_until_on(layout, hosts, interrupted);
}

// The parts that several sandboxes of this machine share, under the machine's lock.
Result<Account> take_shared_parts(const SandboxLayout& layout, SandboxState& state) {
  const auto lock = take_lock(fs::path(sandbox_root) / "lock");
  if (!lock) return lock.error();
  auto account = take_account(state.user, layout);
  if (!account) return account;
  const auto subnet = choose_subnet(layout.tag(), addresses_in_use());
  if (!subnet) return subnet.error();
  state.subnet = *subnet;
  if (auto noted = write_state(layout, state); !noted) return noted.error();
  if (auto made = make_network(layout, state); !made) return made.error();
  return account;
}

Status build(const SandboxLayout& layout, SandboxState& state, const SandboxRequest& request,
             const Interrupted& interrupted) {
  const auto account = take_shared_parts(layout, state);
  if (!account) return account.error();
  if (interrupted()) return interruption();
  if (auto made = make_keys(layout, state); !made) return made;
  if (auto made = write_access_files(layout, state, request.owner); !made) return made;
  if (auto made = make_fake_gpus(layout, state); !made) return made;
  if (auto made = make_homes(layout, state, *account, request.home_mib); !made) return made;
  if (auto made = make_folder("/run/sshd", 0755); !made) return made;
  if (auto made = make_hosts_file(); !made) return made;
  if (auto on = power_on(layout, state, state.hosts, interrupted); !on) return on;
  state.is_up = true;
  return write_state(layout, state);
}

void remove_files(const SandboxLayout& layout, const SandboxState& state) {
  for (const std::string& host : state.hosts) {
    unmount(layout.home(host, true));
    remove_folder(layout.host(host));
  }
  remove_folder(layout.home("", false));
  remove_folder(layout.shared());
  std::error_code ignored;
  for (const fs::path& file : {layout.client_key(), fs::path(layout.client_key().string() + ".pub"),
                               layout.authorized_keys(), layout.known_hosts(), layout.ssh_config(),
                               layout.hosts_file(), layout.cluster_file(), layout.state()}) {
    fs::remove(file, ignored);
  }
}

// With the sandbox's lock, or without one when its folder is gone.
Status take_down(const SandboxLayout& layout) {
  const auto state = read_state(layout);
  std::vector<std::string> hosts = hosts_with_network(layout);
  if (state && *state) hosts.insert(hosts.end(), (*state)->hosts.begin(), (*state)->hosts.end());
  if (auto dead = kill_hosts(layout, hosts); !dead) return dead;
  remove_network(layout);
  if (auto made = make_folder(sandbox_root, 0755); !made) return made;
  const auto lock = take_lock(fs::path(sandbox_root) / "lock");
  if (!lock) return lock.error();
  release_accounts(layout);
  if (!state) return Error{state.error().message + "; remove the folder by hand"};
  if (*state) remove_files(layout, **state);
  return Done{};
}

// Its folder may be gone and the rest not.
bool is_nothing_left(const SandboxLayout& layout) {
  const auto state = read_state(layout);
  return state && !*state && !has_bridge(layout) && hosts_with_network(layout).empty() &&
         !has_accounts(layout);
}

bool is_in_use(const SandboxLayout& layout) {
  const auto state = read_state(layout);
  return state && *state && (*state)->is_up && has_bridge(layout);
}

struct OpenedHost {
  Fd lock;
  SandboxState state;
};

Result<OpenedHost> open_host(const SandboxLayout& layout, const std::string& host) {
  auto state = state_of(layout);
  if (!state) return state.error();
  if (auto known = require_host(*state, host); !known) return known.error();
  auto lock = take_lock(layout.folder());
  if (!lock) return lock.error();
  return OpenedHost{std::move(*lock), std::move(*state)};
}

HostLink link_of(const SandboxLayout& layout, const std::string& host, bool runs) {
  if (!runs) return HostLink::off;
  return is_plugged(layout, host) ? HostLink::on : HostLink::cut_off;
}

}  // namespace

fs::path default_sandbox(unsigned uid) {
  return fs::path(sandbox_root) / std::to_string(uid);
}

fs::path own_checkout() {
  const fs::path program = self_exe();
  std::error_code ignored;
  for (fs::path folder = program.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "CMakePresets.json", ignored)) return folder;
  }
  return program.parent_path();
}

const char* word(HostLink link) {
  switch (link) {
    case HostLink::on:
      return "on";
    case HostLink::cut_off:
      return "cut off";
    case HostLink::off:
      break;
  }
  return "off";
}

Status sandbox_up(const SandboxLayout& layout, const SandboxRequest& request,
                  const Interrupted& interrupted) {
  if (auto can = check_requirements(); !can) return can;
  if (auto made = make_folder(sandbox_root, 0755); !made) return made;
  if (auto claimed = claim_folder(layout, request.owner); !claimed) return claimed;
  const auto lock = take_lock(layout.folder());
  if (!lock) return lock.error();
  if (is_in_use(layout)) {
    return Error{"there is a sandbox in " + layout.folder().string() +
                 "; take it down first, or choose another folder with --dir"};
  }
  if (auto clean = take_down(layout); !clean) return clean;  // what a crash or a reboot left
  SandboxState state;
  state.user = request.user;
  state.private_home = request.private_home || request.home_mib.has_value();
  state.hosts = sandbox_host_names(request.hosts);
  state.gpus = request.gpus;
  if (auto noted = write_state(layout, state); !noted) return noted;
  auto built = build(layout, state, request, interrupted);
  if (!built && take_down(layout)) ::rmdir(layout.folder().c_str());
  return built;
}

Status sandbox_down(const SandboxLayout& layout) {
  const bool has_folder = fs::exists(layout.folder());
  if (has_folder && !fs::is_directory(layout.folder())) {
    return Error{layout.folder().string() + " is no sandbox: it is no directory"};
  }
  if (is_nothing_left(layout)) return no_sandbox(layout);
  if (!has_folder) return take_down(layout);
  const auto lock = take_lock(layout.folder());
  if (!lock) return lock.error();
  auto down = take_down(layout);
  if (down) ::rmdir(layout.folder().c_str());  // only when nothing else is in it
  return down;
}

Result<std::vector<SandboxHost>> sandbox_hosts(const SandboxLayout& layout) {
  const auto state = state_of(layout);
  if (!state) return state.error();
  std::vector<SandboxHost> hosts;
  for (const std::string& name : state->hosts) {
    const auto init = running_init(layout, name);
    SandboxHost host{name, address_text(state->address_of(name).value_or(0)),
                     link_of(layout, name, init.has_value()), std::nullopt, state->gpus};
    if (init) host.pid = init->pid;
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Status partition_host(const SandboxLayout& layout, const std::string& host) {
  const auto opened = open_host(layout, host);
  return opened ? set_cable(layout, host, false) : opened.error();
}

Status heal_host(const SandboxLayout& layout, const std::string& host) {
  const auto opened = open_host(layout, host);
  return opened ? set_cable(layout, host, true) : opened.error();
}

Status crash_host(const SandboxLayout& layout, const std::string& host) {
  const auto opened = open_host(layout, host);
  if (!opened) return opened.error();
  // First the cable: a kernel that outlives the host would say goodbye on its connections.
  if (auto cut = set_cable(layout, host, false); !cut) return cut;
  return kill_hosts(layout, {host});
}

Status boot_host(const SandboxLayout& layout, const std::string& host) {
  const auto opened = open_host(layout, host);
  if (!opened) return opened.error();
  if (running_init(layout, host)) return Error{host + " is on already"};
  if (auto plugged = set_cable(layout, host, true); !plugged) return plugged;
  return power_on(layout, opened->state, {host}, [] { return false; });
}

Status fill_disk(const SandboxLayout& layout, const std::string& host) {
  const auto opened = open_host(layout, host);
  if (!opened) return opened.error();
  if (!is_mounted(layout.home(host, true))) {
    return Error{"the home of " + host + " has no size of its own; make it with --home-size"};
  }
  return fill_up(filler(layout, host));
}

Status empty_disk(const SandboxLayout& layout, const std::string& host) {
  const auto opened = open_host(layout, host);
  if (!opened) return opened.error();
  std::error_code ignored;
  fs::remove(filler(layout, host), ignored);
  return Done{};
}

Result<Command> inside_host(const SandboxLayout& layout, const std::string& host,
                            const Command& command) {
  const auto state = state_of(layout);
  if (!state) return state.error();
  if (auto known = require_host(*state, host); !known) return known.error();
  const auto init = running_init(layout, host);
  if (!init) return Error{host + " is off; muster-sandbox boot " + host};
  Command whole{"nsenter", "--target", std::to_string(init->pid),
                "--mount", "--uts",    "--ipc",
                "--net",   "--pid",    "--wd=/",
                "--"};
  whole.insert(whole.end(), command.begin(), command.end());
  return whole;
}

}  // namespace muster
