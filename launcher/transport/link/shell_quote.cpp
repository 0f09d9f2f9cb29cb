#include "launcher/transport/link/shell_quote.h"

namespace muster {
namespace {

// Inside '…', fish still reads backslashes and csh still reads `!`, so those go outside.
bool needs_backslash(char c) {
  return c == '\'' || c == '\\' || c == '!';
}

}  // namespace

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
