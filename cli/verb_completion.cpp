// `muster completion bash|zsh|fish`.
#include <memory>

#include "cli/completion_script.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace muster {

namespace {

int print_script(const std::string& shell, const VerbShape& shape, const CommonOptions& common) {
  if (shell == "bash") {
    write_all(Stream::out, bash_completion(shape));
  } else if (shell == "zsh") {
    write_all(Stream::out, zsh_completion(shape));
  } else if (shell == "fish") {
    write_all(Stream::out, fish_completion(shape));
  } else {
    complain("no completion for '" + shell + "'; there is bash, zsh and fish", common);
    return 2;
  }
  return 0;
}

}  // namespace

void add_completion(CommandLine& line) {
  line.verb({"completion", "Print the completion script of a shell"}, [&line](Arguments& of) {
    auto shell = std::make_shared<std::string>();
    of.argument("SHELL", *shell, "bash, zsh or fish");
    return [shell, &line](const CommonOptions& common) {
      return print_script(*shell, line.shape(), common);
    };
  });
}

}  // namespace muster
