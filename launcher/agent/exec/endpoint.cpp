#include "launcher/agent/exec/endpoint.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "launcher/agent/node/spawn.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t terminal_name_limit = 64;

unsigned short cells(int count) {
  return static_cast<unsigned short>(std::clamp(count, 0, 0xffff));
}

// It becomes part of a path where programs look up what the terminal can do.
std::string terminal_name(const std::string& given) {
  return given.size() <= terminal_name_limit && is_word_of(given, "-_.+") ? given : "dumb";
}

Result<Fd> connecting(int family, const void* address, socklen_t size, const std::string& name) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int begun = ::connect(socket.get(), static_cast<const sockaddr*>(address), size);
  if (begun != 0 && errno != EINPROGRESS) return system_error("connect to " + name);
  return socket;
}

Result<Fd> dial_port(const std::string& name) {
  const auto port = read_integer(name).value_or(0);
  if (port < 1 || port > 0xffff) {
    return Error{"'" + name + "' is neither a port nor the absolute path of a socket"};
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connecting(AF_INET, &address, sizeof address, "127.0.0.1:" + name);
}

// The socket itself is held while it is looked at, so that no other can take its name meanwhile.
Result<Fd> dial_path(const std::string& name, const std::string& directory) {
  const Fd found(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!found) return system_error("connect to " + name);
  const std::string held = "/proc/self/fd/" + std::to_string(found.get());
  std::error_code failure;
  const std::string real = fs::read_symlink(held, failure).string();
  const std::string root = fs::canonical(directory, failure).string() + "/";
  struct stat facts {};
  const bool is_ours = !failure && real.starts_with(root) && ::fstat(found.get(), &facts) == 0 &&
                       S_ISSOCK(facts.st_mode) && facts.st_uid == ::geteuid();
  if (!is_ours) {
    return Error{name + " is refused: only a socket of the job's account in the job's directory " +
                 directory + " can be reached"};
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  held.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return connecting(AF_UNIX, &address, sizeof address, name);
}

// A login shell's profile sets PATH anew; the rank's is what people come for. These words mean the
// same in every shell.
void become_login_shell(ExecStart& request, Environment& environment) {
  const passwd* account = ::getpwuid(::geteuid());
  const bool has_shell =
      account != nullptr && account->pw_shell != nullptr && *account->pw_shell != '\0';
  environment["SHELL"] = has_shell ? account->pw_shell : "/bin/sh";
  environment["MUSTER_RANK_PATH"] = environment["PATH"];
  request.argv = {environment["SHELL"], "-l", "-c",
                  R"(exec env PATH="$MUSTER_RANK_PATH" "$SHELL" -i)"};
}

std::string in_quotes(const std::string& path) {
  return "\"" + replaced(path, "%", "%%") + "\"";
}

// In one line: of several sshd takes the first. What its file cannot hold is left out, and what it
// sets itself.
std::string variables_line(const Environment& environment) {
  constexpr std::string_view own[] = {"HOME", "LOGNAME", "MAIL", "SHELL", "TERM", "USER"};
  std::string line = "SetEnv";
  for (const auto& [name, value] : environment) {
    const auto is_unfit = [](unsigned char c) { return c < ' ' || c == '"' || c == '\\'; };
    if (std::ranges::count(own, name) > 0 || std::ranges::any_of(value, is_unfit)) continue;
    line += " \"" + name + "=" + value + "\"";
  }
  return line + "\n";
}

std::string sshd_settings(const std::string& directory, const Environment& environment) {
  return "HostKey " + in_quotes(directory + "/host_key") + "\nAuthorizedKeysFile " +
         in_quotes(directory + "/authorized_keys") +
         (::geteuid() == 0 ? "\nAllowUsers root" : "") +  // any other can only let itself in
         "\nPermitRootLogin prohibit-password\nPubkeyAuthentication yes\n"
         "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"
         "StrictModes no\nPidFile none\nPrintMotd no\nLogLevel ERROR\n"
         "Subsystem sftp internal-sftp\n" +
         variables_line(environment);
}

Status become_sshd(ExecStart& request, const Environment& environment,
                   const std::string& attempt_directory) {
  const auto sshd = find_program("sshd", "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin");
  if (!sshd) {
    return Error{"there is no sshd on this node: install the package openssh-server there"};
  }
  const std::string directory = attempt_directory + "/ssh";
  const auto write = [&](const char* name, const std::string& text) {
    return replace_file(directory + name, text, 0600, Durable::in_cache);
  };
  const bool is_written = (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) &&
                          write("/host_key", request.channel->ssh->host_key) &&
                          write("/authorized_keys", request.channel->ssh->authorized_key) &&
                          write("/sshd_config", sshd_settings(directory, environment));
  if (!is_written) return system_error("write the files of sshd to " + directory);
  // Root's sshd shuts itself in there; the package's service makes it, and may not have run.
  if (::geteuid() == 0) ::mkdir("/run/sshd", 0755);
  request.argv = {*sshd, "-i", "-e", "-f", directory + "/sshd_config"};
  return Done{};
}

}  // namespace

Result<TerminalEnds> open_terminal(const TerminalShape& shape) {
  TerminalEnds ends;
  ends.master = Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.master || ::grantpt(ends.master.get()) != 0 || ::unlockpt(ends.master.get()) != 0) {
    return system_error("open a terminal on this node");
  }
  resize_terminal(ends.master.get(), shape.rows, shape.columns);
  ends.slave = Fd(::ioctl(ends.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.slave) return system_error("open a terminal on this node");
  return ends;
}

void resize_terminal(int terminal, int rows, int columns) {
  const winsize size{cells(rows), cells(columns), 0, 0};
  if (rows > 0 && columns > 0) ::ioctl(terminal, TIOCSWINSZ, &size);
}

Result<Fd> dial(const std::string& name, const std::string& directory) {
  return name.starts_with('/') ? dial_path(name, directory) : dial_port(name);
}

Status complete(ExecStart& request, Environment& environment, const std::string& directory) {
  if (!request.channel) return Done{};
  if (request.channel->ssh) return become_sshd(request, environment, directory);
  if (!request.channel->terminal) return Done{};
  environment["TERM"] = terminal_name(request.channel->terminal->name);
  if (request.argv.empty()) become_login_shell(request, environment);
  return Done{};
}

}  // namespace muster
