// `muster completion SHELL` and `muster version`.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/client/start.h"
#include "cli/client/targets.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// The newest jobs, asked from muster itself when the key is pressed.
constexpr const char* job_names = "muster list --max-results 200 -o tsv 2>/dev/null | cut -f1";
constexpr const char* unfinished_job_names =
    "muster list --all-results -o tsv --query \"[?!ended_at].name\" 2>/dev/null";
constexpr const char* node_names = "muster completion --nodes 2>/dev/null";

const char* job_names_of(const VerbShape& verb) {
  return verb.unfinished_jobs ? unfinished_job_names : job_names;
}

// With `groups` those alone that have verbs below them.
std::string names_of(const VerbShape& shape, bool groups = false) {
  std::vector<std::string> names;
  for (const VerbShape& verb : shape.verbs) {
    if (!groups || !verb.verbs.empty()) names.push_back(verb.name);
  }
  return joined(names, " ");
}

// One `case` of the shell function: what may follow the verb.
std::string bash_case(const std::string& path, const VerbShape& verb) {
  std::string text = "    '" + path + "') opts='" + joined(verb.options, " ") + "'";
  std::string words = joined(verb.words, " ");
  if (!verb.verbs.empty()) words += (words.empty() ? "" : " ") + names_of(verb);
  if (verb.takes_jobs) words += std::string(" $(") + job_names_of(verb) + ")";
  if (verb.takes_nodes) words += std::string(" $(") + node_names + ")";
  if (!words.empty()) text += "; [[ $current == -* ]] || choices=\"" + words + "\"";
  if (verb.takes_files) text += "; files=1";
  return text + " ;;\n";
}

using PlacesByWords = std::map<std::string, std::vector<std::string>>;

// Where the same words may follow: `list -o`, `list --output`.
void collect_option_words(const std::string& path, const VerbShape& verb, PlacesByWords& places) {
  for (const auto& [option, words] : verb.option_words) {
    places[joined(words, " ")].push_back("'" + path + " " + option + "'");
  }
}

std::string bash_option_words(const PlacesByWords& places) {
  std::string text = "  case \"$verb $before\" in\n";
  for (const auto& [words, where] : places) {
    text += "    " + joined(where, "|") + ") choices='" + words + "'; files='' ;;\n";
  }
  return text + "    *) [[ $current == -* || -z $choices$files ]] && choices=$opts ;;\n  esac\n";
}

int print_script(const std::string& shell, const VerbShape& shape) {
  const std::map<std::string, std::string (*)(const VerbShape&)> scripts{
      {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
  const auto script = scripts.find(shell);
  if (script == scripts.end()) {
    throw VerbEnd(usage_error, "no completion for '" + shell + "'; there is bash, zsh and fish");
  }
  write_all(Stream::out, script->second(shape));
  return 0;
}

// From the cluster files alone: a key that is pressed starts no controller.
int print_nodes(const CommonOptions& common) {
  const auto known = or_end(find_targets(common), usage_error);
  for (const std::string& node : all_node_names(known.targets)) write_all(Stream::out, node + "\n");
  return 0;
}

}  // namespace

std::string bash_completion(const VerbShape& shape) {
  std::string cases;
  PlacesByWords places;
  for (const VerbShape& verb : shape.verbs) {
    cases += bash_case(verb.name, verb);
    collect_option_words(verb.name, verb, places);
    for (const VerbShape& below : verb.verbs) {
      cases += bash_case(verb.name + " " + below.name, below);
      collect_option_words(verb.name + " " + below.name, below, places);
    }
  }
  return "# muster completion for bash: source it, or write it to\n"
         "# ~/.local/share/bash-completion/completions/muster\n"
         "_muster() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  local verb=\"${COMP_WORDS[1]}\" choices='' opts='' files=''\n"
         "  [[ ' " +
         names_of(shape, true) +
         " ' == *\" $verb \"* && COMP_CWORD -gt 2 && ${COMP_WORDS[2]} != -* ]] && "
         "verb+=\" ${COMP_WORDS[2]}\"\n"
         "  if [[ COMP_CWORD -eq 1 ]]; then verb=''; fi\n"
         "  case \"$verb\" in\n" +
         bash_case("", shape) + cases + "  esac\n" + bash_option_words(places) +
         "  COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
         "  [[ -n $files ]] && COMPREPLY+=($(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F _muster muster\n";
}

// zsh runs bash's function: one script to keep right. Its variables have no name that zsh gives a
// meaning to: `path` is $PATH there, `words` the line that is completed.
std::string zsh_completion(const VerbShape& shape) {
  return "#compdef muster\nautoload -U +X bashcompinit && bashcompinit\n" + bash_completion(shape);
}

std::string fish_completion(const VerbShape& shape) {
  std::string text =
      "# muster completion for fish: write it to ~/.config/fish/completions/muster.fish\n"
      "complete -c muster -f\n"
      "complete -c muster -n '__fish_use_subcommand' -a '" +
      names_of(shape) + "'\n";
  for (const VerbShape& verb : shape.verbs) {
    const std::string begin =
        "complete -c muster -n '__fish_seen_subcommand_from " + verb.name + "'";
    for (const std::string& option : verb.options) {
      const bool is_long = option.starts_with("--");
      text += begin + (is_long ? " -l " + option.substr(2) : " -s " + option.substr(1));
      const auto words = verb.option_words.find(option);
      if (words != verb.option_words.end()) text += " -xa '" + joined(words->second, " ") + "'";
      text += "\n";
    }
    if (!verb.verbs.empty()) text += begin + " -a '" + names_of(verb) + "'\n";
    if (!verb.words.empty()) text += begin + " -a '" + joined(verb.words, " ") + "'\n";
    if (verb.takes_jobs) text += begin + " -a '(" + job_names_of(verb) + ")'\n";
    if (verb.takes_nodes) text += begin + " -a '(" + node_names + ")'\n";
    if (verb.takes_files) text += begin + " -F\n";
  }
  return text;
}

void add_completion(CommandLine& line) {
  line.verb({"completion", "Print the completion script of a shell"}, [&line](Arguments& of) {
    auto shell = std::make_shared<std::string>();
    auto nodes = std::make_shared<bool>();
    of.optional_argument("SHELL", *shell, "bash, zsh or fish");
    of.offer("SHELL", {{"bash", "zsh", "fish"}});
    of.flag("--nodes", *nodes, "Print the nodes of the cluster files, as the scripts want them");
    return [shell, nodes, &line](const CommonOptions& common) {
      return *nodes ? print_nodes(common) : print_script(*shell, line.shape());
    };
  });
}

void add_version(CommandLine& line) {
  line.verb({"version", "Print which build this is"}, [](Arguments&) {
    return [](const CommonOptions& common) {
      const std::string build = own_build_id();
      return print_result(Document{{"version", MUSTER_VERSION}, {"build_id", build}},
                          "muster " MUSTER_VERSION " (build " + build + ")\n", common);
    };
  });
}

}  // namespace muster
