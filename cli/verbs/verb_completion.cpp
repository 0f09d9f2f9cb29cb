// `muster completion bash|zsh|fish`.
#include <memory>

#include "cli/grammar/verbs.h"
#include "cli/job/check.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/completion.h"

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

// From the cluster files alone: a key that is pressed starts no controller.
int print_nodes(const CommonOptions& common) {
  const auto known = find_targets(common);
  if (!known) return complain(known.error().message, 2, common);
  std::string text;
  for (const ComputeTarget& target : known->targets) {
    for (const NodeAddress& node : target.nodes) text += node.id.value + "\n";
  }
  write_all(Stream::out, text);
  return 0;
}

}  // namespace

void add_completion(CommandLine& line) {
  line.verb({"completion", "Print the completion script of a shell"}, [&line](Arguments& of) {
    auto shell = std::make_shared<std::string>();
    auto nodes = std::make_shared<bool>();
    of.optional_argument("SHELL", *shell, "bash, zsh or fish");
    of.offer("SHELL", {{"bash", "zsh", "fish"}});
    of.flag("--nodes", *nodes, "Print the nodes of the cluster files, as the scripts want them");
    return [shell, nodes, &line](const CommonOptions& common) {
      if (*nodes) return print_nodes(common);
      return print_script(*shell, line.shape(), common);
    };
  });
}

}  // namespace muster
