#include "launcher/transport/link/attach_failure.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::array attach_patterns{
    FailurePattern{"GLIBC_", LinkFailureKind::wrong_build,
                   "the node's C library is older than the one this muster was built for: "
                   "build muster on the oldest system of the cluster"},
    FailurePattern{
        "xec format error", LinkFailureKind::wrong_build,
        "muster there is a program for another machine: remove it, or build one for that node"},
    FailurePattern{
        "cannot execute binary file", LinkFailureKind::wrong_build,
        "muster there is a program for another machine: remove it, or build one for that node"},
    FailurePattern{
        "yntax error", LinkFailureKind::wrong_build,
        "muster there is not a program this node can run: remove it, and it is sent again"},
    FailurePattern{"No space left", LinkFailureKind::disk_full, "free some space there"},
    FailurePattern{"quota exceeded", LinkFailureKind::disk_full, "free some space in that account"},
    FailurePattern{"Read-only file system", LinkFailureKind::disk_full,
                   "set remote_home to a directory that can be written"},
    FailurePattern{"belongs to another user", LinkFailureKind::shell,
                   "set remote_home to a directory of your own"},
    FailurePattern{"Permission denied", LinkFailureKind::shell,
                   "check the owner and mode of muster's directory on the node (remote_home)"},
    FailurePattern{"This account is", LinkFailureKind::shell, "the account may not log in there"},
    FailurePattern{
        "not found", LinkFailureKind::shell,
        "a program is missing on the node: it needs a POSIX sh and the usual small commands"},
    FailurePattern{
        "No such file", LinkFailureKind::shell,
        "a file is missing on the node: it needs a POSIX sh and the usual small commands"},
};

constexpr std::array push_patterns{
    FailurePattern{"belongs to another user", LinkFailureKind::shell,
                   "set remote_home to a directory of your own"},
    FailurePattern{"No space left", LinkFailureKind::disk_full,
                   "the disk is full: free some space there"},
    FailurePattern{"uota exceeded", LinkFailureKind::disk_full,
                   "the account's disk quota is used up: free some space there"},
    FailurePattern{
        "Read-only file system", LinkFailureKind::disk_full,
        "the file system is read-only: set remote_home to a directory that can be written"},
    FailurePattern{
        "Permission denied", LinkFailureKind::disk_full,
        "the directory cannot be written: check its owner, or set remote_home to another"},
    FailurePattern{"ot a directory", LinkFailureKind::disk_full,
                   "a file is in the way: set remote_home to a directory"},
};

std::string how_it_ended(const RemoteExit& exit) {
  return exit.status ? "exit code " + std::to_string(*exit.status) : exit.reason;
}

std::string said(std::string_view text) {
  const std::string line = last_line(text);
  return line.empty() ? "" : ", it said: " + line;
}

struct Machine {
  int elf_number;  // e_machine of the ELF header
  std::string_view uname;
};

constexpr std::array machines{Machine{62, "x86_64"}, Machine{183, "aarch64"},
                              Machine{21, "ppc64le"}, Machine{243, "riscv64"},
                              Machine{22, "s390x"}};

// Both are POSIX sh on one line, free of quotes and backslashes that csh or fish would touch.
// $1 home, $2 build id; the home may start with ~/ and is ~/.muster when empty.
constexpr const char* find_home =
    "h=${1:-$HOME/.muster}; "
    "case $h in \"~\") h=$HOME;; \"~/\"*) h=$HOME/${h#??};; esac; "
    "b=$h/bin/muster-$2; ";

// $3 controller, $4 node, $5 attach or relay. A program that somebody else left under our name is
// not run. An empty file is what a power failure makes of a fresh one.
constexpr const char* attach_script =
    "echo MUSTER-SHELL; "
    "if [ -e \"$b\" ] && ! { [ -O \"$h/bin\" ] && [ -O \"$b\" ]; }; then "
    "echo \"muster: $b belongs to another user\" >&2; exit 1; fi; "
    "if [ -x \"$b\" ] && [ -s \"$b\" ]; then "
    "exec \"$b\" agent \"$5\" --home \"$h\" --controller \"$3\" --node \"$4\"; "
    "fi; echo MUSTER-PUSH $(uname -s) $(uname -m)";

// $3 size in bytes. Hosts may share the home: the temporary name is nobody else's. Those that a
// dead host left behind go after a day. The bytes are on the disk before the name is.
constexpr const char* push_script =
    "umask 077; trap \"\" HUP; t=; "
    "mkdir -p \"$h/bin\" && "
    "if [ ! -O \"$h/bin\" ]; then "
    "echo \"muster: $h/bin belongs to another user\" >&2; false; fi && "
    "t=$(mktemp \"$h/bin/.tmp.XXXXXX\") && cat > \"$t\" && s=$(wc -c < \"$t\") && "
    "if [ \"$s\" -ne \"$3\" ]; then echo muster: got $s of $3 bytes >&2; false; fi && "
    "chmod 700 \"$t\" && { sync \"$t\" 2>/dev/null || true; } && mv -f \"$t\" \"$b\" && "
    "{ find \"$h/bin\" -name \".tmp.*\" -mtime +0 -exec rm -f {} + 2>/dev/null; "
    "echo MUSTER-PUSHED; exit 0; }; "
    "[ -z \"$t\" ] || rm -f \"$t\"; exit 1";

std::string word_of(AgentService service) {
  return service == AgentService::relay ? "relay" : "attach";
}

// A tilde stays outside of the quotes; every login shell expands it.
std::string home_word(const std::string& home) {
  if (home.empty()) return "~/.muster";
  if (home == "~") return home;
  if (home.starts_with("~/")) return "~/" + shell_quote(std::string_view(home).substr(2));
  return shell_quote(home);
}

// What the script does where all is in place, in words that bash, csh and fish read alike: it saves
// a shell per node.
std::string attach_at_once(const AgentLaunch& launch, const NodeId& node) {
  const std::string home = home_word(launch.home);
  const std::string binary = home + "/bin/" + shell_quote("muster-" + launch.build_id);
  const std::array<std::string, 2> controller{"--controller", launch.controller_id};
  const std::array<std::string, 2> name{"--node", node.value};
  return "test -O " + home + "/bin && test -O " + binary + " && test -x " + binary +
         " && test -s " + binary + " && exec " + binary + " agent " + word_of(launch.service) +
         " --home " + home + " " + shell_command(controller) + " " + shell_command(name);
}

}  // namespace

const FailurePattern* find_pattern(std::span<const FailurePattern> patterns,
                                   std::string_view text) {
  const auto found = std::ranges::find_if(
      patterns, [&](const FailurePattern& pattern) { return mentions(text, pattern.text); });
  return found == patterns.end() ? nullptr : &*found;
}

void Tail::add(std::string_view text) {
  text_ += text.substr(text.size() - std::min(text.size(), limit_));
  if (text_.size() > limit_) text_.erase(0, text_.size() - limit_);
}

std::string describe(const NodeAddress& node) {
  if (node.host.empty() || node.host == node.id.value) return node.id.value;
  return node.id.value + " (" + node.host + ")";
}

std::string shown_text(std::string_view text, std::size_t longest) {
  std::string line(text);
  std::erase_if(line, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; });
  return line.substr(0, longest);
}

std::string last_line(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return shown_text(text.substr(text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1));
}

LinkFailure attach_failure(const NodeAddress& node, const RemoteExit& exit, bool shell_started,
                           std::string_view output, std::string_view errors) {
  const std::string_view spoken = last_line(errors).empty() ? output : errors;
  if (!exit.status) {
    return {LinkFailureKind::lost,
            describe(node) + ": the connection broke while the agent started: " + exit.reason +
                said(spoken)};
  }
  if (const FailurePattern* pattern = find_pattern(attach_patterns, spoken)) {
    return {pattern->kind, describe(node) + ": muster's agent did not start" + said(spoken) + "; " +
                               std::string(pattern->cure)};
  }
  const std::string what = shell_started ? "muster's agent did not start"
                                         : "the login shell ended before it ran our command";
  const std::string cure = shell_started
                               ? "try `muster agent --help` on that node"
                               : "check that `ssh HOST sh -c true` works without questions";
  return {LinkFailureKind::shell,
          describe(node) + ": " + what + " (" + how_it_ended(exit) + said(spoken) + "); " + cure};
}

std::string attach_end_text(const RemoteExit& exit, std::string_view errors) {
  return (exit.status
              ? "the agent's attach command ended with exit code " + std::to_string(*exit.status)
              : "the connection broke: " + exit.reason) +
         said(errors);
}

LinkFailure push_failure(const NodeAddress& node, const RemoteExit& exit, std::string_view errors) {
  const std::string what = describe(node) + ": could not copy muster to the node";
  if (!exit.status) return {LinkFailureKind::lost, what + ": " + exit.reason + said(errors)};
  if (const FailurePattern* pattern = find_pattern(push_patterns, errors)) {
    return {pattern->kind, what + said(errors) + "; " + std::string(pattern->cure)};
  }
  return {LinkFailureKind::shell, what + " (" + how_it_ended(exit) + said(errors) +
                                      "); check that its home directory can be written"};
}

std::string machine_mismatch(std::string_view binary, std::string_view uname) {
  constexpr std::size_t machine_offset = 18;
  const bool is_elf = binary.size() > machine_offset + 1 && binary.starts_with(
                                                                "\x7f"
                                                                "ELF");
  if (!is_elf) return "";
  const int number = static_cast<unsigned char>(binary[machine_offset]) +
                     256 * static_cast<unsigned char>(binary[machine_offset + 1]);
  const auto ours = std::ranges::find_if(
      machines, [&](const Machine& each) { return each.elf_number == number; });
  if (ours == machines.end()) return "";
  const std::string needed = "Linux " + std::string(ours->uname);
  return uname == needed ? ""
                         : "the node is " + shown_text(uname) + ", this muster is for " + needed;
}

std::string attach_command(const AgentLaunch& launch, const NodeId& node) {
  const std::array<std::string, 9> argv{"sh",
                                        "-c",
                                        std::string(find_home) + attach_script,
                                        "muster-attach",
                                        launch.home,
                                        launch.build_id,
                                        launch.controller_id,
                                        node.value,
                                        word_of(launch.service)};
  return attach_at_once(launch, node) + "; exec " + shell_command(argv);
}

std::string push_command(const AgentLaunch& launch, std::size_t binary_bytes) {
  const std::array<std::string, 7> argv{"sh",
                                        "-c",
                                        std::string(find_home) + push_script,
                                        "muster-push",
                                        launch.home,
                                        launch.build_id,
                                        std::to_string(binary_bytes)};
  return "exec " + shell_command(argv);
}

std::string shell_quote(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) {
    // Inside '…', fish still reads backslashes and csh still reads `!`, so those go outside.
    if (c == '\'' || c == '\\' || c == '!') {
      quoted += "'\\";
      quoted += c;
      quoted += '\'';
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_command(std::span<const std::string> argv) {
  std::string command;
  for (const std::string& word : argv) {
    if (!command.empty()) command += ' ';
    command += shell_quote(word);
  }
  return command;
}

}  // namespace muster
