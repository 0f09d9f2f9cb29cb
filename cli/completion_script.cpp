#include "cli/completion_script.h"

namespace muster {

namespace {

// The newest jobs, asked from muster itself when the key is pressed.
constexpr const char* job_names = "muster list --max-results 200 -o tsv 2>/dev/null | cut -f1";

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<std::string> names_of(const VerbShape& shape) {
  std::vector<std::string> names;
  for (const VerbShape& verb : shape.verbs) names.push_back(verb.name);
  return names;
}

// Verbs that have verbs below them.
std::vector<std::string> groups_of(const VerbShape& shape) {
  std::vector<std::string> names;
  for (const VerbShape& verb : shape.verbs) {
    if (!verb.verbs.empty()) names.push_back(verb.name);
  }
  return names;
}

// One `case` of the shell function: what may follow the verb.
std::string bash_case(const std::string& path, const VerbShape& verb) {
  std::string words = joined(verb.options);
  if (!verb.verbs.empty()) words = joined(names_of(verb)) + " " + words;
  std::string text = "    '" + path + "') choices='" + words + "'";
  if (verb.takes_jobs) text += "; jobs=1";
  if (verb.takes_files) text += "; files=1";
  return text + " ;;\n";
}

}  // namespace

std::string bash_completion(const VerbShape& shape) {
  std::string cases;
  for (const VerbShape& verb : shape.verbs) {
    cases += bash_case(verb.name, verb);
    for (const VerbShape& below : verb.verbs)
      cases += bash_case(verb.name + " " + below.name, below);
  }
  std::string text =
      "# muster completion for bash: source it, or write it to\n"
      "# ~/.local/share/bash-completion/completions/muster\n"
      "_muster() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" choices='' jobs='' files=''\n"
      "  local verb=\"${COMP_WORDS[1]}\"\n"
      "  [[ ' " +
      joined(groups_of(shape)) +
      " ' == *\" $verb \"* && COMP_CWORD -gt 2 && ${COMP_WORDS[2]} != -* ]] && "
      "verb+=\" ${COMP_WORDS[2]}\"\n"
      "  if [[ COMP_CWORD -eq 1 ]]; then verb=''; fi\n"
      "  case \"$verb\" in\n"
      "    '') choices='" +
      joined(names_of(shape)) + "' ;;\n" + cases + "  esac\n";
  text +=
      "  [[ -n $jobs && $current != -* ]] && choices+=\" $(" + std::string(job_names) + ")\"\n";
  text +=
      "  COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
      "  [[ -n $files ]] && COMPREPLY+=($(compgen -f -- \"$current\"))\n"
      "}\n"
      "complete -o filenames -F _muster muster\n";
  return text;
}

// zsh runs bash's function: one script to keep right. Its variables have no name that zsh gives a
// meaning to: `path` is $PATH there, `words` the line that is completed.
std::string zsh_completion(const VerbShape& shape) {
  return "#compdef muster\nautoload -U +X bashcompinit && bashcompinit\n" + bash_completion(shape);
}

std::string fish_completion(const VerbShape& shape) {
  const std::string all = joined(names_of(shape));
  std::string text =
      "# muster completion for fish: write it to ~/.config/fish/completions/muster.fish\n"
      "complete -c muster -f\n"
      "complete -c muster -n '__fish_use_subcommand' -a '" +
      all + "'\n";
  for (const VerbShape& verb : shape.verbs) {
    const std::string seen = "-n '__fish_seen_subcommand_from " + verb.name + "'";
    const std::string begin = "complete -c muster " + seen;
    for (const std::string& option : verb.options) {
      const bool is_long = option.starts_with("--");
      text += begin + (is_long ? " -l " + option.substr(2) : " -s " + option.substr(1)) + "\n";
    }
    if (!verb.verbs.empty()) text += begin + " -a '" + joined(names_of(verb)) + "'\n";
    if (verb.takes_jobs) text += begin + " -a '(" + job_names + ")'\n";
    if (verb.takes_files) text += begin + " -F\n";
  }
  return text;
}

}  // namespace muster
