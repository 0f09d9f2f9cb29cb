#include "launcher/wire/mpi_daemon.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

namespace muster {

namespace {

// With 4,096 hosts the longest word, the list of their names, has some 100 KiB.
constexpr std::size_t command_limit_bytes = 120u << 10;

bool has_only(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [others](unsigned char c) {
    return std::isalnum(c) != 0 || others.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// What a shell would take for more than a character has no place in any word, quoted or not.
bool is_harmless(std::string_view word) {
  return has_only(word, "_-+./:;,=@%^[]()* ");
}

bool is_directory(std::string_view text) {
  return text.starts_with('/') && has_only(text, "_-+./") &&
         text.find("..") == std::string_view::npos;
}

bool are_directories(std::string_view list) {
  for (std::size_t colon = 0; colon != std::string_view::npos;) {
    colon = list.find(':');
    if (!is_directory(list.substr(0, colon))) return false;
    list.remove_prefix(colon == std::string_view::npos ? list.size() : colon + 1);
  }
  return true;
}

// The words of the daemon's own part: bare, or in double quotes as a whole.
Result<std::vector<std::string>> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    const bool is_quoted = text[at] == '"';
    if (is_quoted) ++at;
    const std::size_t end = std::min(text.find(is_quoted ? '"' : ' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (is_quoted && end == text.size()) return Error{"a quote is not closed"};
    if (!is_harmless(word) ||
        (!is_quoted && word.find_first_of(";()*[]") != std::string_view::npos)) {
      return Error{"'" + std::string(word) + "' is no word of mpirun's"};
    }
    words.emplace_back(word);
    at = end + 1;
    if (is_quoted && at < text.size() && text[at] != ' ') {
      return Error{"a word goes on after a quote"};
    }
  }
  return words;
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

constexpr std::array searched_names{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"};

// "NAME=DIRS:$NAME", "NAME=DIRS:${NAME:-}" or "OPAL_PREFIX=DIR"; the name, or nothing.
std::optional<std::string> take_assignment(std::string_view text, MpiDaemon& daemon) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string name(text.substr(0, equals));
  std::string_view value = text.substr(equals + 1);
  if (name == "OPAL_PREFIX" || name == "PRTE_PREFIX") {
    daemon.settings[name] = value;
    return is_directory(value) ? std::optional(name) : std::nullopt;
  }
  if (std::ranges::count(searched_names, name) == 0) return std::nullopt;
  for (const std::string& rest : {":$" + name, ":${" + name + ":-}"}) {
    if (!value.ends_with(rest)) continue;
    value.remove_suffix(rest.size());
    daemon.in_front[name] = value;
    return are_directories(value) ? std::optional(name) : std::nullopt;
  }
  return std::nullopt;
}

// What Open MPI writes for users whose login shell is sh or ksh: their profile, in a subshell. No
// profile is read here.
std::string_view without_profile(std::string_view command) {
  constexpr std::string_view profile = "( test ! -r ./.profile || . ./.profile;";
  const std::string_view whole = without_blanks(command);
  if (!whole.starts_with(profile) || !whole.ends_with(')')) return command;
  return whole.substr(profile.size(), whole.size() - profile.size() - 1);
}

// Parameters that name what is loaded or run. mpirun's own remote shell is always passed on.
bool is_dangerous(const std::string& name, const std::string& value) {
  if (name == "plm_rsh_agent") return value != mpi_remote_shell;
  if (name == "plm_ssh_agent") return value != mpi_remote_shell_of_prte;
  for (const char* part : {"_agent", "component_path", "param_files", "_script", "_command"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

bool is_name(const std::string& text) {
  return !text.empty() && has_only(text, "_");
}

constexpr std::array switches{"--tree-spawn", "--daemonize", "--leave-session-attached",
                              "--allow-run-as-root"};
constexpr std::array setters{"-mca", "--mca", "--prtemca", "--pmixmca"};

Status check_options(const std::vector<std::string>& argv) {
  for (std::size_t at = 1; at < argv.size(); ++at) {
    if (std::ranges::count(switches, argv[at]) > 0) continue;
    if (std::ranges::count(setters, argv[at]) == 0) {
      return Error{"'" + argv[at] + "' is no option that mpirun gives to its daemon"};
    }
    if (at + 2 >= argv.size() || !is_name(argv[at + 1])) {
      return Error{argv[at] + " needs a name and a value"};
    }
    if (is_dangerous(argv[at + 1], argv[at + 2])) {
      return Error{"the parameter " + argv[at + 1] + " = '" + argv[at + 2] +
                   "' would load or run something of the asking node's"};
    }
    at += 2;
  }
  return Done{};
}

bool is_daemon(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  return (name == "orted" || name == "prted") && (name == program || is_directory(program));
}

Error refused(const std::string& why) {
  return Error{"only mpirun's daemon (orted, prted) is started on another node: " + why};
}

}  // namespace

Result<MpiDaemon> read_mpi_daemon(const std::string& command) {
  if (command.size() > command_limit_bytes) return refused("the command is too long");
  MpiDaemon daemon;
  std::string_view left = without_profile(command);
  // Quotes begin with the daemon's own arguments: a semicolon before them ends an assignment.
  while (true) {
    const std::size_t semicolon = left.substr(0, left.find('"')).find(';');
    if (semicolon == std::string_view::npos) break;
    const auto name = take_assignment(without_blanks(left.substr(0, semicolon)), daemon);
    left.remove_prefix(semicolon + 1);
    const std::size_t next = left.find(';');
    if (!name || without_blanks(left.substr(0, next)) != "export " + *name ||
        next == std::string_view::npos) {
      return refused("it does not begin with the paths that mpirun sets");
    }
    left.remove_prefix(next + 1);
  }
  auto words = words_of(left);
  if (!words) return refused(words.error().message);
  if (words->empty() || !is_daemon(words->front())) return refused("this is another program");
  if (const Status right = check_options(*words); !right) return refused(right.error().message);
  daemon.argv = std::move(*words);
  return daemon;
}

}  // namespace muster
