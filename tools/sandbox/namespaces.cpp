#include "tools/sandbox/namespaces.h"

#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "launcher/os/fd.h"
#include "tools/sandbox/files.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// In the new process: what cannot be done is said in sshd.log, and the host does not come up.
[[noreturn]] void give_up(const std::string& attempt) {
  std::fprintf(stderr, "cannot %s: %s\n", attempt.c_str(), std::strerror(errno));
  ::_exit(1);
}

void must(int outcome, const std::string& attempt) {
  if (outcome != 0) give_up(attempt);
}

void must(const Status& outcome) {
  if (outcome) return;
  std::fprintf(stderr, "%s\n", outcome.error().message.c_str());
  ::_exit(1);
}

void bind_over(const fs::path& shown, const fs::path& at) {
  must(::mount(shown.c_str(), at.c_str(), nullptr, MS_BIND, nullptr),
       "show " + shown.string() + " at " + at.string());
}

void mount_memory(const fs::path& at, const char* mode) {
  must(::mount("tmpfs", at.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, mode),
       "mount memory on " + at.string());
}

// A folder that lies below /tmp, in the /tmp that is being made; any other is there anyhow.
std::optional<fs::path> show_in_tmp(const fs::path& folder, const fs::path& made) {
  const std::string path = folder.string();
  if (!path.starts_with("/tmp/")) return std::nullopt;
  const fs::path inside = made / path.substr(std::strlen("/tmp/"));
  must(make_folder(inside, 0755));
  bind_over(folder, inside);
  return inside;
}

// An own /tmp that still shows the sandbox's folder and, read-only, the programs' checkout.
void mount_tmp(const HostSetting& setting) {
  const fs::path made = setting.place / "tmp";
  must(make_folder(made, 0755));
  mount_memory(made, "mode=1777");
  if (const auto inside = show_in_tmp(setting.checkout, made)) {
    constexpr unsigned long read_only = MS_BIND | MS_REMOUNT | MS_RDONLY;
    must(::mount(nullptr, inside->c_str(), nullptr, read_only, nullptr),
         "show " + setting.checkout.string() + " read-only");
  }
  (void)show_in_tmp(setting.folder, made);
  must(::mount(made.c_str(), "/tmp", nullptr, MS_MOVE, nullptr), "move the host's /tmp in place");
}

// A machine has another boot id after every boot; muster tells by it that a host went down.
void mount_boot_id(const HostSetting& setting) {
  const auto id = read_file_if_there("/proc/sys/kernel/random/uuid");  // another at every reading
  const fs::path file = setting.place / "boot_id";
  if (!id || !*id) return;
  must(write_file(file, **id, 0444));
  bind_over(file, "/proc/sys/kernel/random/boot_id");
}

// The devices that /sys shows are those of the network it was mounted in.
void mount_sys(const HostSetting& setting) {
  const fs::path kept = setting.place / "cgroup";
  must(make_folder(kept, 0755));
  const bool has_groups =
      ::mount("/sys/fs/cgroup", kept.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
  must(::mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), "mount /sys");
  if (has_groups) {
    must(::mount(kept.c_str(), "/sys/fs/cgroup", nullptr, MS_MOVE, nullptr), "keep the cgroups");
  }
}

void mount_everything(const HostSetting& setting) {
  must(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "have mounts of its own");
  // Inherited names of networks would keep those of other hosts alive.
  (void)::umount2("/run/netns", MNT_DETACH);
  must(::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), "mount /proc");
  mount_boot_id(setting);
  mount_sys(setting);
  if (::access("/dev/shm", F_OK) == 0) mount_memory("/dev/shm", "mode=1777");
  must(make_folder(setting.home_of_user, 0755));
  bind_over(setting.home, setting.home_of_user);
  bind_over(setting.hosts_file, "/etc/hosts");
  // No name server is reached from here: one that does not answer costs 10 s at each look-up.
  if (::access("/etc/resolv.conf", F_OK) == 0) bind_over("/dev/null", "/etc/resolv.conf");
  mount_tmp(setting);
}

[[noreturn]] void become_sshd(const HostSetting& setting) {
  must(::sethostname(setting.name.data(), setting.name.size()), "set the host name");
  mount_everything(setting);
  must(bring_up("lo", std::nullopt));
  must(bring_up("eth0", InterfaceAddress{setting.address, Subnet::prefix_bits}));
  must(add_default_route(setting.gateway));
  must(::chdir("/"), "go to /");
  const std::string config = (setting.place / "sshd_config").string();
  ::execl(setting.sshd.c_str(), setting.sshd.c_str(), "-D", "-e", "-f", config.c_str(), nullptr);
  give_up("start " + setting.sshd.string());
}

// Nothing of the caller goes along: no terminal, no file, no blocked signal.
void leave_caller(int log) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close_range(3, ~0u, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  ::umask(022);
}

// Between the caller and the host: only what it forks is in the new process namespace.
[[noreturn]] void enter_and_fork(const HostSetting& setting, int log, int report) {
  const Fd network(::open(setting.network.c_str(), O_RDONLY | O_CLOEXEC));
  if (network.get() < 0 || ::setns(network.get(), CLONE_NEWNET) != 0) {
    ::dup2(log, STDERR_FILENO);
    give_up("enter the network " + setting.network.string());
  }
  if (::unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID) != 0) {
    ::dup2(log, STDERR_FILENO);
    give_up("make namespaces");
  }
  const pid_t init = ::fork();
  if (init == 0) {
    leave_caller(log);
    become_sshd(setting);
  }
  const bool told = init > 0 && ::write(report, &init, sizeof init) == sizeof init;
  ::_exit(told ? 0 : 1);
}

void put_address(sockaddr& place, Address address) {
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_addr.s_addr = htonl(address);
  std::memcpy(&place, &internet, sizeof internet);
}

ifreq request_about(const std::string& interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  return request;
}

Fd control_socket() {
  return Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

Error failed(const std::string& interface) {
  return Error{"cannot set up the interface " + interface + ": " + std::strerror(errno)};
}

}  // namespace

Result<pid_t> start_host(const HostSetting& setting) {
  const fs::path log_file = setting.place / "sshd.log";
  const Fd log(::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) return Error{"cannot write " + log_file.string()};
  std::array<int, 2> line;
  if (::pipe2(line.data(), O_CLOEXEC) != 0) return Error{"cannot make a pipe"};
  const Fd reader(line[0]);
  Fd writer(line[1]);
  const pid_t between = ::fork();
  if (between < 0) return Error{std::string("cannot start a process: ") + std::strerror(errno)};
  if (between == 0) enter_and_fork(setting, log.get(), writer.get());
  writer.reset();
  pid_t init = 0;
  const bool told = ::read(reader.get(), &init, sizeof init) == sizeof init;
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (told) return init;
  return Error{setting.name + " could not be powered on; see " + log_file.string()};
}

Status bring_up(const std::string& interface, const std::optional<InterfaceAddress>& address) {
  const Fd socket = control_socket();
  ifreq request = request_about(interface);
  if (address) {
    put_address(request.ifr_addr, address->address);
    if (::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) return failed(interface);
    put_address(request.ifr_netmask, ~Address{0} << (32 - address->prefix_bits));
    if (::ioctl(socket.get(), SIOCSIFNETMASK, &request) != 0) return failed(interface);
  }
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return failed(interface);
  request.ifr_flags |= IFF_UP;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return failed(interface);
  return Done{};
}

Status add_default_route(Address gateway) {
  const Fd socket = control_socket();
  rtentry route{};
  put_address(route.rt_dst, 0);
  put_address(route.rt_genmask, 0);
  put_address(route.rt_gateway, gateway);
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  if (::ioctl(socket.get(), SIOCADDRT, &route) == 0 || errno == EEXIST) return Done{};
  return Error{"cannot set the route to " + address_text(gateway) + ": " + std::strerror(errno)};
}

Result<bool> is_up(const std::string& interface) {
  const Fd socket = control_socket();
  ifreq request = request_about(interface);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return failed(interface);
  return (request.ifr_flags & IFF_UP) != 0;
}

Status mount_sized(const std::filesystem::path& at, int size_mib) {
  const std::string options = "mode=700,size=" + std::to_string(size_mib) + "m";
  if (::mount("tmpfs", at.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0) {
    return Done{};
  }
  return Error{"cannot mount memory on " + at.string() + ": " + std::strerror(errno)};
}

void unmount(const std::filesystem::path& at) {
  (void)::umount2(at.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

bool is_mounted(const std::filesystem::path& at) {
  struct stat here {
  }, above{};
  return ::stat(at.c_str(), &here) == 0 && ::stat(at.parent_path().c_str(), &above) == 0 &&
         here.st_dev != above.st_dev;
}

Status fill_up(const std::filesystem::path& file) {
  const Fd filled(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  const std::string piece(std::size_t{1} << 16, 'x');
  // Whole pieces, then bytes: the last page of the disk too.
  for (std::size_t size = piece.size(); size > 0; size /= 2) {
    while (filled.get() >= 0 && ::write(filled.get(), piece.data(), size) > 0) {
    }
  }
  if (errno == ENOSPC) return Done{};
  return Error{"cannot fill " + file.parent_path().string() + ": " + std::strerror(errno)};
}

}  // namespace muster
