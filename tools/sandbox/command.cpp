// The verbs of simulated hosts: `muster-sandbox up` and what is done to them.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/client/follow.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "launcher/os/read_file.h"
#include "tools/sandbox/account.h"
#include "tools/sandbox/fake_gpus.h"
#include "tools/sandbox/requirements.h"
#include "tools/sandbox/sandbox.h"
#include "tools/verbs.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

unsigned number_from(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  unsigned number = otherwise;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

// Who typed it, also behind sudo.
Owner person() {
  if (!is_administrator()) return {::getuid(), ::getgid()};
  return {number_from("SUDO_UID", ::getuid()), number_from("SUDO_GID", ::getgid())};
}

SandboxLayout layout_in(const std::string& folder) {
  if (folder.empty()) return SandboxLayout(default_sandbox(person().uid));
  std::string path = fs::absolute(folder).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return SandboxLayout(path);
}

// The line as it was typed, for hands that copy it.
std::string typed_line() {
  const std::string line = text_of_file("/proc/self/cmdline");
  std::string words;
  for (const char c : line.substr(line.find('\0') + 1)) words += c == '\0' ? ' ' : c;
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return "sudo " + fs::read_symlink("/proc/self/exe").string() + " " + words;
}

int told(const Status& outcome, const CommonOptions& common) {
  if (outcome) return 0;
  print_error(outcome.error().message, common);
  return plain_failure;
}

// Every verb but `list` is for root.
bool may_act(const CommonOptions& common) {
  widen_path();
  if (is_administrator()) return true;
  print_error("network namespaces need root; run: " + typed_line(), common);
  return false;
}

Document document_of(const std::vector<SandboxHost>& hosts) {
  Document out = Document::array();
  for (const SandboxHost& host : hosts) {
    Document one;
    one["name"] = host.name;
    one["address"] = host.address;
    one["link"] = word(host.link);
    one["pid"] = host.pid ? Document(*host.pid) : Document(nullptr);
    one["gpus"] = host.gpus ? Document(*host.gpus) : Document(nullptr);
    out.push_back(std::move(one));
  }
  return out;
}

int list_hosts(const SandboxLayout& layout, const CommonOptions& common) {
  const auto hosts = sandbox_hosts(layout);
  if (!hosts) return told(hosts.error(), common);
  if (!wants_table(common)) return print_document(document_of(*hosts), common);
  const bool simulates = !hosts->empty() && hosts->front().gpus;
  std::vector<std::string> headings{"HOST", "ADDRESS", "LINK", "PID"};
  if (simulates) headings.push_back("GPUS");
  Table table(headings);
  for (const SandboxHost& host : *hosts) {
    const std::string pid = host.pid ? std::to_string(*host.pid) : "";
    std::vector<std::string> cells{host.name, host.address, word(host.link), pid};
    if (simulates) cells.push_back(std::to_string(*host.gpus));
    table.add(cells);
  }
  const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
  write_all(Stream::out, table.text(width, wants_color(common.color, Stream::out)));
  return 0;
}

struct UpOptions {
  std::string folder;
  std::optional<std::int64_t> hosts;
  std::optional<std::int64_t> home_mib;
  std::optional<std::int64_t> gpus;
  SandboxRequest request;
};

// Of the sandbox that is where nobody said where, jobs need no cluster file.
void say_how_to_use(const SandboxLayout& layout, const SandboxRequest& request,
                    const CommonOptions& common) {
  const std::string count =
      std::to_string(request.hosts) + (request.hosts == 1 ? " host is up" : " hosts are up");
  const int number = request.gpus.value_or(0);
  const std::string gpus = number == 0 ? ""
                                       : " with " + std::to_string(number) +
                                             (number == 1 ? " simulated GPU" : " simulated GPUs") +
                                             (request.hosts == 1 ? "" : " each");
  const bool is_known = layout.folder() == default_sandbox(person().uid);
  notice(count + gpus + "; muster run JOB.yml --set compute=sandbox" +
             (is_known ? "" : " --cluster " + layout.cluster_file().string()),
         common);
  const auto account = find_account(request.user);
  const std::string checkout = own_checkout().string();
  notice("hosts have /tmp, /dev/shm and " +
             (account ? account->home.string() : "the account's home") +
             " of their own; programs and files there are not those of this machine" +
             (checkout.starts_with("/tmp/") ? "; " + checkout + " is shown there, read-only" : ""),
         common);
  notice("ssh -F " + layout.ssh_config().string() + " h01 goes there by hand", common);
}

bool is_within(const char* option, std::int64_t number, int least, int most,
               const CommonOptions& common) {
  if (number >= least && number <= most) return true;
  print_error(std::string(option) + ": expected " + std::to_string(least) + " to " +
                  std::to_string(most) + ", got " + std::to_string(number),
              common);
  return false;
}

int up(const UpOptions& options, const CommonOptions& common) {
  const std::int64_t hosts = options.hosts.value_or(options.request.hosts);
  if (!is_within("--hosts", hosts, 1, max_sandbox_hosts, common) ||
      !is_within("--gpus", options.gpus.value_or(0), 0, max_fake_gpus, common)) {
    return 2;
  }
  if (!may_act(common)) return plain_failure;
  const SandboxLayout layout = layout_in(options.folder);
  SandboxRequest request = options.request;
  request.hosts = static_cast<int>(hosts);
  if (options.home_mib)
    request.home_mib = static_cast<int>(std::max<std::int64_t>(1, *options.home_mib));
  if (options.gpus) request.gpus = static_cast<int>(*options.gpus);
  request.owner = person();
  InterruptWatch interrupts;
  const auto outcome = sandbox_up(layout, request, [&] { return interrupts.take(); });
  if (!outcome) return told(outcome, common);
  say_how_to_use(layout, request, common);
  if (wants_table(common)) return 0;
  const auto made = sandbox_hosts(layout);
  if (!made) return told(made.error(), common);
  Document out;
  out["folder"] = layout.folder().string();
  out["cluster_file"] = layout.cluster_file().string();
  out["ssh_config"] = layout.ssh_config().string();
  out["user"] = request.user;
  out["gpus"] = request.gpus ? Document(*request.gpus) : Document(nullptr);
  out["hosts"] = document_of(*made);
  return print_document(out, common);
}

struct HostOptions {
  std::string folder;
  std::string host;
  std::vector<std::string> command;
};

int run_inside(const HostOptions& options, const CommonOptions& common) {
  if (!may_act(common)) return plain_failure;
  const auto command = inside_host(layout_in(options.folder), options.host, options.command);
  if (!command) return told(command.error(), common);
  std::vector<char*> words;
  for (const std::string& word : *command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  print_error("cannot start nsenter: " + std::string(std::strerror(errno)) + "; install util-linux",
              common);
  return plain_failure;
}

void add_folder(Arguments& of, std::string& folder) {
  of.option("--dir", folder, "Folder of the sandbox (default: one below /var/lib for each user)");
}

void add_host_verb(CommandLine& line, const char* name, const char* summary,
                   Status (*act)(const SandboxLayout&, const std::string&)) {
  const auto run = [act](const HostOptions& options, const CommonOptions& common) {
    if (!may_act(common)) return plain_failure;
    return told(act(layout_in(options.folder), options.host), common);
  };
  line.verb<HostOptions>({name, summary}, run, [](Arguments& of, HostOptions& options) {
    of.argument("HOST", options.host, "Host, such as h01");
    add_folder(of, options.folder);
  });
}

void add_up(CommandLine& line) {
  const VerbTexts texts{"up", "Make the hosts and start their sshd"};
  line.verb<UpOptions>(texts, up, [](Arguments& of, UpOptions& options) {
    of.option("--hosts", options.hosts, "How many, h01 to … (default 2)");
    of.option("--user", options.request.user,
              "Account to log in to, created if missing (default sandbox)");
    of.flag("--private-home", options.request.private_home,
            "A home directory for each host (default: all see the same one)");
    of.option("--home-size", options.home_mib,
              "A home in memory of so many MiB for each host, for `fill` (jobs need 1024 free)");
    of.option("--gpus", options.gpus,
              "Simulated GPUs of each host, 0 to 64, to be counted (default: this machine's)");
    add_folder(of, options.folder);
  });
}

void add_whole_verb(CommandLine& line, const char* name, const char* summary,
                    int (*act)(const SandboxLayout&, const CommonOptions&)) {
  const auto run = [act](const std::string& folder, const CommonOptions& common) {
    return act(layout_in(folder), common);
  };
  line.verb<std::string>({name, summary}, run, add_folder);
}

int down(const SandboxLayout& layout, const CommonOptions& common) {
  return may_act(common) ? told(sandbox_down(layout), common) : plain_failure;
}

void add_sandbox_exec(CommandLine& line) {
  const VerbTexts texts{"exec", "Run a command on a host as root: exec HOST -- CMD"};
  line.verb<HostOptions>(texts, run_inside, [](Arguments& of, HostOptions& options) {
    of.argument("HOST", options.host, "Host, such as h01");
    of.arguments("COMMAND", options.command, "Program and its arguments, after --");
    add_folder(of, options.folder);
  });
}

}  // namespace

void add_sandbox_verbs(CommandLine& line) {
  add_up(line);
  add_whole_verb(line, "down", "Remove the sandbox, whatever is left of it", down);
  add_whole_verb(line, "list", "Show the hosts", list_hosts);
  add_whole_verb(line, "status", "The same as list", list_hosts);
  add_sandbox_exec(line);
  add_host_verb(line, "partition", "Disconnect a host from the network", partition_host);
  add_host_verb(line, "heal", "Reconnect a host", heal_host);
  add_host_verb(line, "fill", "Fill the disk of a host's home", fill_disk);
  add_host_verb(line, "empty", "Empty the disk of a host's home again", empty_disk);
  add_host_verb(line, "crash", "Power a host off without notice", crash_host);
  add_host_verb(line, "boot", "Power a host on again", boot_host);
}

}  // namespace muster
