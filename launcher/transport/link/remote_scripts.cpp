#include "launcher/transport/link/remote_scripts.h"

#include <array>

namespace muster {

namespace {

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

// Inside '…', fish still reads backslashes and csh still reads `!`, so those go outside.
bool needs_backslash(char c) {
  return c == '\'' || c == '\\' || c == '!';
}

}  // namespace

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
    if (needs_backslash(c)) {
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
