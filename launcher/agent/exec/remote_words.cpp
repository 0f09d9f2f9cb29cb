#include "launcher/agent/exec/remote_words.h"

#include <span>
#include <string_view>

#include "scheduler/text/text.h"

namespace muster {

namespace {

using Words = std::vector<std::string>;

// One letter each; those with a value have it in the same word or in the next.
constexpr std::string_view ssh_switches = "46AaCfGgKkMNnqsTtVvXxYy";
constexpr std::string_view ssh_settings = "BbcDEeFIiJLlmOopQRSWw";
constexpr std::string_view pdsh_switches = "SNqbdi";
constexpr std::string_view pdsh_settings = "wfRltux";

struct OptionLetters {
  std::string_view switches;
  std::string_view settings;
};

// Takes the options at `at` and tells each, with its value; stands at the first other word then.
template <class Tell>
Status take_options(const Words& words, std::size_t& at, const OptionLetters& known,
                    const Tell& tell) {
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    for (std::size_t letter = 1; letter < word.size(); ++letter) {
      const char option = word[letter];
      if (known.switches.find(option) != std::string_view::npos) {
        tell(option, "");
        continue;
      }
      if (known.settings.find(option) == std::string_view::npos) {
        return Error{"the option -" + std::string(1, option) + " is unsupported here"};
      }
      const bool is_inside = letter + 1 < word.size();
      if (!is_inside && at + 1 >= words.size()) {
        return Error{"the option -" + std::string(1, option) + " needs a value"};
      }
      tell(option, is_inside ? word.substr(letter + 1) : words[++at]);
      break;
    }
  }
  return Done{};
}

}  // namespace

Result<RemoteCall> read_ssh_words(const Words& words) {
  const OptionLetters known{ssh_switches, ssh_settings};
  const auto nothing = [](char, const std::string&) {};
  std::size_t at = 0;
  if (Status taken = take_options(words, at, known, nothing); !taken) return taken.error();
  if (at == words.size()) return Error{"HOST and a command are needed"};
  RemoteCall call;
  call.returns_codes = true;
  const std::string& place = words[at++];
  call.hosts.push_back(place.substr(place.rfind('@') + 1));
  if (Status taken = take_options(words, at, known, nothing); !taken) return taken.error();
  call.command = joined(std::span(words).subspan(at), " ");
  if (call.hosts.front().empty() || call.command.empty()) {
    return Error{"HOST and a command are needed"};
  }
  return call;
}

Result<RemoteCall> read_pdsh_words(const Words& words) {
  RemoteCall call;
  call.is_pattern = call.is_labelled = true;
  bool leaves_out = false;
  const auto take = [&](char option, const std::string& value) {
    if (option == 'S') call.returns_codes = true;
    if (option == 'N') call.is_labelled = false;
    leaves_out |= option == 'x';
    if (option != 'w') return;
    for (const std::string_view host : words_in(value, ",")) call.hosts.emplace_back(host);
  };
  std::size_t at = 0;
  Status taken = take_options(words, at, {pdsh_switches, pdsh_settings}, take);
  if (!taken) return taken.error();
  if (leaves_out) return Error{"the option -x is unsupported here"};
  call.command = joined(std::span(words).subspan(at), " ");
  if (call.hosts.empty() || call.command.empty()) return Error{"-w HOSTS and a command are needed"};
  return call;
}

std::string command_for(const RemoteCall& call, std::size_t place, const std::string& user) {
  if (!call.is_pattern) return call.command;
  std::string text;
  for (std::size_t at = 0; at < call.command.size(); ++at) {
    const char letter = call.command[at];
    const char next = at + 1 < call.command.size() ? call.command[at + 1] : ' ';
    if (letter != '%' || std::string_view("hnu%").find(next) == std::string_view::npos) {
      text += letter;
      continue;
    }
    ++at;
    if (next == 'h') text += call.hosts[place];
    if (next == 'n') text += std::to_string(place);
    if (next == 'u') text += user;
    if (next == '%') text += '%';
  }
  return text;
}

std::string with_own_pkill(const std::string& command) {
  constexpr std::string_view other = "pkill -f ";
  if (!command.starts_with(other)) return command;
  return "muster agent pkill " + command.substr(other.size());
}

}  // namespace muster
