// The grammar of the command line: every verb with its options, read into plain structs that the
// verbs own. The only place that sees the parsing library. A verb registers itself with `add_…`
// (cli/verbs/verbs.h) and is run by main after parsing; nothing happens while arguments are read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "scheduler/text/clock.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace muster {

// What a verb does once its arguments are known; returns the exit code.
using Action = std::function<int(const CommonOptions&)>;

// What the completion scripts offer for a value.
struct Offered {
  std::vector<std::string> words;
  bool unfinished_jobs = false;  // of a JOB: no others
};
using OfferedByOption = std::map<const CLI::Option*, Offered>;

// Declares the arguments of one verb. The referenced values must outlive parsing: verbs keep them
// in a shared_ptr that their action holds.
class Arguments {
 public:
  Arguments(CLI::App& app, OfferedByOption& offered) : app_(&app), offered_(&offered) {}

  void flag(const std::string& names, bool& value, const std::string& help);
  // `--name` or `--name=TEXT`: "true", or the text.
  void flag(const std::string& names, std::string& value, const std::string& help);
  void option(const std::string& names, std::string& value, const std::string& help);
  void option(const std::string& names, std::optional<std::string>& value, const std::string& help);
  // One that exists.
  void folder(const std::string& names, std::string& value, const std::string& help);
  void option(const std::string& names, std::optional<std::int64_t>& value,
              const std::string& help);
  // A duration as job files write it: `90`, `45s`, `1h30m`.
  void option(const std::string& names, std::optional<Milliseconds>& value,
              const std::string& help);
  // Once per value (`--set a=1 --set b=2`).
  void repeated(const std::string& names, std::vector<std::string>& values,
                const std::string& help);
  // Once, with any number of values, and again (`--set a=1 b=2`, as `az` has it).
  void several(const std::string& names, std::vector<std::string>& values, const std::string& help);
  // `--set a.b=value`, as `repeated`, or with `any_number` as `several`: one that no file could
  // take is wrong usage.
  void settings(std::vector<std::string>& values, const std::string& help, bool any_number = false);
  void choice(const std::string& names, std::string& value, const std::vector<std::string>& words,
              const std::string& help);
  // Accepted for hands that know other tools or earlier versions; a note says that it has no
  // effect.
  void ignored(const std::string& names, const std::string& help);
  void ignored_flag(const std::string& names, const std::string& help);

  // JOB; completion offers all of them, or those that have not ended.
  void job(std::string& value, bool unfinished = false);
  void argument(const std::string& name, std::string& value, const std::string& help);
  void optional_argument(const std::string& name, std::string& value, const std::string& help);
  void arguments(const std::string& name, std::vector<std::string>& values,
                 const std::string& help);
  void optional_arguments(const std::string& name, std::vector<std::string>& values,
                          const std::string& help);

  // Of an argument that came before.
  void offer(const std::string& name, Offered offered);

  // The options that came before must be given.
  void require(const std::string& name);

 private:
  CLI::App* app_;
  OfferedByOption* offered_;
};

struct VerbTexts {
  std::string name;
  std::string summary;             // one line of the list of verbs
  bool own_output_option = false;  // `-o` means something else here: no shared output options
  std::string footer = "";         // after the options in the verb's help
  bool azure_scope = true;         // a verb of a group accepts `-g` and `-w`, to no effect
  bool monitor_outputs = false;    // `-o` also takes the forms that monitors read
};

// One option or verb, for the completion scripts.
struct VerbShape {
  std::string name;
  std::vector<std::string> options;
  std::map<std::string, std::vector<std::string>> option_words;  // by the option
  std::vector<std::string> words;                                // of its arguments
  bool takes_files = false;                                      // FILE arguments
  bool takes_jobs = false;                                       // JOB arguments
  bool unfinished_jobs = false;                                  // no others
  bool takes_nodes = false;                                      // NODE arguments
  std::vector<VerbShape> verbs;
};

struct ParsedLine {
  std::string verb;   // `run`, `job create`
  Action action;      // empty: nothing to run, `text` is all
  int exit_code = 0;  // with `text`: 0 for help, 2 for a usage error
  std::string text;
  std::vector<std::string> ignored;  // options that were given and mean nothing here
};

struct ProgramTexts {
  std::string name;
  std::string summary;
  std::string footer;  // the end of the help without a verb
};

class CommandLine {
 public:
  CommandLine();  // of `muster`
  explicit CommandLine(const ProgramTexts& program);
  ~CommandLine();

  // `declare` names the verb's arguments and returns what it does.
  using Declare = std::function<Action(Arguments&)>;
  void verb(const VerbTexts& texts, const Declare& declare) { verb_of("", texts, declare); }
  // Verbs below another one, a group or a verb that does something by itself: `job create`.
  void verb_of(const std::string& group, const VerbTexts& texts, const Declare& declare);
  void group(const VerbTexts& texts);

  // For a verb whose arguments fill one value: `declare(of, options)` names them, and
  // `run(options, common)` does it.
  template <class Options, class Run, class DeclareOptions>
  void verb(const VerbTexts& texts, Run run, DeclareOptions declare) {
    verb_of<Options>("", texts, run, declare);
  }
  template <class Options, class Run, class DeclareOptions>
  void verb_of(const std::string& group, const VerbTexts& texts, Run run, DeclareOptions declare) {
    verb_of(group, texts, [=](Arguments& of) -> Action {
      auto options = std::make_shared<Options>();
      declare(of, *options);
      return [=](const CommonOptions& common) { return run(*options, common); };
    });
  }

  ParsedLine parse(std::vector<std::string> arguments);
  const CommonOptions& common() const;
  VerbShape shape() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// The words of a command line with each name that an option or verb had before replaced by the
// present one: still accepted, not listed. Words after `--` belong to a program and stay.
std::vector<std::string> with_present_names(std::vector<std::string> words);

}  // namespace muster
