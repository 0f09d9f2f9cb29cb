#include "cli/grammar/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "cli/query/query.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/read_options.h"

namespace muster {

namespace {

const std::map<std::string, OutputFormat> output_words{{"table", OutputFormat::table},
                                                       {"json", OutputFormat::json},
                                                       {"yaml", OutputFormat::yaml},
                                                       {"tsv", OutputFormat::tsv},
                                                       {"none", OutputFormat::none}};
const std::map<std::string, OutputFormat> monitor_output_words{
    {"table", OutputFormat::table},   {"json", OutputFormat::json},
    {"yaml", OutputFormat::yaml},     {"tsv", OutputFormat::tsv},
    {"none", OutputFormat::none},     {"jsonl", OutputFormat::jsonl},
    {"nagios", OutputFormat::nagios}, {"prometheus", OutputFormat::prometheus}};
const std::map<std::string, ColorChoice> color_words{{"auto", ColorChoice::automatic},
                                                     {"always", ColorChoice::always},
                                                     {"never", ColorChoice::never}};

template <class Enum>
void add_words(CLI::App& app, OfferedByOption& offered, const std::string& names, Enum& value,
               const std::map<std::string, Enum>& words, const std::string& help) {
  Offered known;
  for (const auto& [name, unused] : words) known.words.push_back(name);
  const std::string list = joined(known.words);
  const auto set = [&value, &words, list, names](const std::string& text) {
    const auto found = words.find(folded(text));
    if (found == words.end()) {
      throw CLI::ValidationError(names + ": '" + text + "': expected one of: " + list);
    }
    value = found->second;
  };
  const CLI::Option* option = app.add_option_function<std::string>(names, set, help + ": " + list)
                                  ->type_name("CHOICE")
                                  ->group("Shared options");
  offered[option] = std::move(known);
}

// `--set a=1 --set b=2`.
void once_for_each(CLI::Option* option) {
  option->expected(1)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

// Told before anything is done, not after the job.
std::string query_problem(const std::string& text) {
  const auto query = parse_query(text);
  return query ? "" : quoted_text(text) + ": " + query.error().message;
}

// The one table of exit codes, as the end of the help text.
std::string footer() {
  const auto row = [](std::string_view code, std::string_view meaning) {
    return "  " + std::string(code) + std::string(15 - code.size(), ' ') + std::string(meaning) +
           "\n";
  };
  std::string text = "Exit codes:\n" + row("0", exit_code_meaning(ExitCode::done)) +
                     row("1-89, 100-127", "the first failed rank's own code") +
                     row("128+n", "that rank was killed by signal n") +
                     row("1, 2", "also from muster itself: job not found; wrong usage");
  for (const ExitCode code :
       {ExitCode::invalid_job, ExitCode::no_nodes, ExitCode::launch, ExitCode::gave_up,
        ExitCode::health_gate, ExitCode::hang, ExitCode::preempted_saved,
        ExitCode::preempted_unsaved, ExitCode::time_limit, ExitCode::internal}) {
    text += row(std::to_string(static_cast<int>(code)), exit_code_meaning(code));
  }
  return text + row("130", "interrupted by Ctrl-C or SIGTERM: the job continues") +
         row("143", exit_code_meaning(ExitCode::canceled)) +
         "State is stored in $MUSTER_HOME (default ~/.local/state/muster).";
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr || parent->get_parent() == nullptr) return app.get_name();
  return full_name(*parent) + " " + app.get_name();
}

struct Renamed {
  std::string_view verb;  // how the command line begins
  std::string_view old;
  std::string_view now;
};

constexpr Renamed renamed[] = {
    {"health", "active", "benchmark"},
    {"health", "--beside-ranks", "--during-job"},
    {"health", "--forget", "--no-state"},
    {"health", "--profile-alone", "--no-base-profile"},
    {"health", "--quick", "--once"},
    {"health", "--golden", "--baseline"},
    {"health", "--save-golden", "--save-baseline"},
    {"health", "--leaves", "--topology"},
    {"nodes", "--rearm", "--reset-breaker"},
};

// `--old` or `--old=value`; of a verb below another one, which comes second, only the whole word.
bool is_old(const Renamed& name, std::string_view word, std::size_t place) {
  if (!name.old.starts_with("--")) return place == 1 && word == name.old;
  return word.starts_with(name.old) &&
         (word.size() == name.old.size() || word[name.old.size()] == '=');
}

}  // namespace

void Arguments::flag(const std::string& names, bool& value, const std::string& help) {
  app_->add_flag(names, value, help);
}

void Arguments::flag(const std::string& names, std::string& value, const std::string& help) {
  app_->add_flag(names, value, help);
}

void Arguments::option(const std::string& names, std::string& value, const std::string& help) {
  app_->add_option(names, value, help)->type_name("TEXT");
}

void Arguments::option(const std::string& names, std::optional<std::string>& value,
                       const std::string& help) {
  const auto set = [&value](const std::string& text) { value = text; };
  app_->add_option_function<std::string>(names, set, help)->type_name("TEXT");
}

void Arguments::folder(const std::string& names, std::string& value, const std::string& help) {
  app_->add_option(names, value, help)->type_name("DIR")->check(CLI::ExistingDirectory);
}

void Arguments::option(const std::string& names, std::optional<std::int64_t>& value,
                       const std::string& help) {
  const auto set = [&value, names](const std::string& text) {
    value = read_integer(text);
    if (!value || *value < 0) {
      throw CLI::ValidationError(names + ": expected a number, 0 or more, got '" + text + "'");
    }
  };
  app_->add_option_function<std::string>(names, set, help)->type_name("NUMBER");
}

void Arguments::option(const std::string& names, std::optional<Milliseconds>& value,
                       const std::string& help) {
  const auto set = [&value, names](const std::string& text) {
    value = parse_duration(text);
    if (!value) {
      throw CLI::ValidationError(names + ": invalid duration '" + text +
                                 "'; write 90, 45s or 1h30m");
    }
  };
  app_->add_option_function<std::string>(names, set, help)->type_name("DURATION");
}

void Arguments::repeated(const std::string& names, std::vector<std::string>& values,
                         const std::string& help) {
  once_for_each(app_->add_option(names, values, help)->type_name("TEXT"));
}

void Arguments::several(const std::string& names, std::vector<std::string>& values,
                        const std::string& help) {
  app_->add_option(names, values, help)->type_name("TEXT");
}

void Arguments::settings(std::vector<std::string>& values, const std::string& help,
                         bool any_number) {
  if (any_number) {
    several("--set", values, help);
  } else {
    repeated("--set", values, help);
  }
  app_->get_option("--set")->check([](const std::string& text) {
    const std::string problem = set_option_problem(text);
    return problem.empty() ? "" : quoted_text(text) + ": " + problem;
  });
}

void Arguments::choice(const std::string& names, std::string& value,
                       const std::vector<std::string>& words, const std::string& help) {
  const std::string list = joined(words);
  const auto known = [words, list](const std::string& text) {
    const bool is_known = std::ranges::count(words, folded(text), folded) > 0;
    return is_known ? "" : "'" + text + "': expected one of: " + list;
  };
  app_->add_option(names, value, help + ": " + list)->type_name("CHOICE")->check(known);
  offer(names.substr(names.rfind(',') + 1), {words});
}

void Arguments::ignored(const std::string& names, const std::string& help) {
  app_->add_option_function<std::string>(
          names, [](const std::string&) {}, help + " (ignored)")
      ->type_name("TEXT")
      ->group("Ignored options");
}

void Arguments::ignored_flag(const std::string& names, const std::string& help) {
  const auto ignore = [](std::int64_t) {};
  app_->add_flag_function(names, ignore, help + " (ignored)")->group("Ignored options");
}

void Arguments::job(std::string& value, bool unfinished) {
  argument("JOB", value, "Job name, or the beginning of one");
  offer("JOB", {.words = {}, .unfinished_jobs = unfinished});
}

void Arguments::argument(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->type_name("")->required();
}

void Arguments::optional_argument(const std::string& name, std::string& value,
                                  const std::string& help) {
  app_->add_option(name, value, help)->type_name("");
}

void Arguments::arguments(const std::string& name, std::vector<std::string>& values,
                          const std::string& help) {
  app_->add_option(name, values, help)->type_name("")->required();
}

void Arguments::optional_arguments(const std::string& name, std::vector<std::string>& values,
                                   const std::string& help) {
  app_->add_option(name, values, help)->type_name("");
}

void Arguments::offer(const std::string& name, Offered offered) {
  (*offered_)[app_->get_option(name)] = std::move(offered);
}

void Arguments::require(const std::string& name) {
  app_->get_option(name)->required();
}

struct CommandLine::Parser {
  explicit Parser(const ProgramTexts& program)
      : app(program.summary, program.name), footer(program.footer) {}

  CLI::App app;
  std::string footer;
  CommonOptions common;
  std::map<const CLI::App*, Action> actions;
  OfferedByOption offered;

  CLI::App* add(CLI::App& parent, const VerbTexts& texts) {
    CLI::App* verb = parent.add_subcommand(texts.name, texts.summary);
    if (!texts.footer.empty()) verb->footer(texts.footer);
    return verb;
  }

  void add_shared(CLI::App& verb, const VerbTexts& texts) {
    if (!texts.own_output_option) {
      const auto& words = texts.monitor_outputs ? monitor_output_words : output_words;
      add_words(verb, offered, "-o,--output", common.output, words, "Output format");
      verb.add_option("--query", common.query, "JMESPath query of the result, as attempts[0].cause")
          ->type_name("TEXT")
          ->check(query_problem)
          ->group("Shared options");
    }
    add_words(verb, offered, "--color", common.color, color_words, "Colour of messages");
    once_for_each(verb.add_option("--cluster", common.cluster_files, "Cluster file (repeatable)")
                      ->type_name("FILE")
                      ->group("Shared options"));
    verb.add_flag("--only-show-errors", common.only_show_errors, "Print errors only, no notices")
        ->group("Shared options");
    verb.add_flag("--verbose,--debug", common.verbose, "Print more messages")
        ->group("Shared options");
  }
};

CommandLine::CommandLine()
    : CommandLine(ProgramTexts{
          "muster", "muster runs distributed training jobs on the machines you have", footer()}) {}

CommandLine::CommandLine(const ProgramTexts& program) : parser_(std::make_unique<Parser>(program)) {
  CLI::App& app = parser_->app;
  app.require_subcommand(0, 1);
  app.set_help_flag("-h,--help", "Show help");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  app.get_formatter()->column_width(34);
  parser_->add_shared(app, {});  // before the verb too
}

CommandLine::~CommandLine() = default;

void CommandLine::group(const VerbTexts& texts) {
  parser_->add(parser_->app, texts)->require_subcommand(1);
}

void CommandLine::verb_of(const std::string& group, const VerbTexts& texts,
                          const Declare& declare) {
  CLI::App& above = group.empty() ? parser_->app : *parser_->app.get_subcommand(group);
  CLI::App* verb = parser_->add(above, texts);
  Arguments arguments(*verb, parser_->offered);
  parser_->actions[verb] = [action = declare(arguments)](const CommonOptions& common) {
    try {
      if (is_for_monitors(common.output) && !common.query.empty()) {
        throw VerbEnd(usage_error, "--query goes with json, yaml and tsv");
      }
      return action(common);
    } catch (const VerbEnd& end) {
      const std::string why = end.what();
      return why.empty() ? end.exit_code : print_error(why, end.exit_code, common);
    }
  };
  if (texts.azure_scope && !group.empty()) {
    arguments.ignored("-g,--resource-group", "Azure resource group");
    arguments.ignored("-w,--workspace-name", "Azure workspace");
  }
  parser_->add_shared(*verb, texts);
}

namespace {

const CLI::App* chosen_verb(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? &app : chosen_verb(*below.front());
}

std::vector<std::string> ignored_options(const CLI::App& verb) {
  std::vector<std::string> given;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_group() == "Ignored options" && option->count() > 0) {
      given.push_back(option->get_name());
    }
  }
  return given;
}

// An option of the verb above would be read and forgotten: `health --profile x learn`.
std::string misplaced_option(const CLI::App& app, const CLI::App& verb) {
  const CLI::App* above = verb.get_parent();
  if (above == nullptr || above == &app) return "";
  for (const CLI::Option* option : above->get_options()) {
    if (option->get_group() != "Shared options" && option->count() > 0) return option->get_name();
  }
  return "";
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    std::ranges::copy(names_of(*option), std::back_inserter(names));
  }
  return names;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
  return names;
}

// A word that fits nowhere: an option, a verb or an argument, and what it may have been meant for.
std::string misfit_text(const CLI::App& verb, const std::string& word) {
  const bool is_option = word.starts_with("-");
  const bool is_verb = !is_option && !verb_names(verb).empty();
  const char* what = is_option ? "unknown option " : is_verb ? "unknown verb " : "unexpected ";
  const std::string meant = did_you_mean(word, is_option ? option_names(verb) : verb_names(verb));
  return what + quoted_text(word) + (meant.empty() ? "" : "; " + meant);
}

std::string with_help(const CLI::App& app, const CLI::App& verb, const std::string& text) {
  const std::string name = &verb == &app ? "" : " " + full_name(verb);
  return printable("muster: " + text) + "\nSee: " + app.get_name() + name + " --help\n";
}

bool is_error(const CLI::ParseError& error, CLI::ExitCodes code) {
  return error.get_exit_code() == static_cast<int>(code);
}

// What CLI11 says of an option without its value or given twice, and of a missing argument, in
// plain words: of the second argument also which one comes before it.
std::string plain_text(const CLI::App& verb, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string name = text.substr(
      0, text.find(is_error(error, CLI::ExitCodes::RequiredError) ? " is required" : ": "));
  if (is_error(error, CLI::ExitCodes::ArgumentMismatch)) {
    return name + (mentions(text, "At Most") ? " is given more than once" : " needs a value");
  }
  if (!is_error(error, CLI::ExitCodes::RequiredError)) return text;
  std::string before;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    if (option->get_name(true) == name) return text + (before.empty() ? "" : ", after " + before);
    before = option->get_name(true);
  }
  return text;
}

// The words of a wrong line: what does not fit or is missing, and where to read on.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = chosen_verb(app);
  const std::vector<std::string> misfits = app.remaining(true);
  const bool misfit = is_error(error, CLI::ExitCodes::ExtrasError) || !verb_names(*verb).empty();
  const std::string text =
      misfit && !misfits.empty() ? misfit_text(*verb, misfits.front()) : plain_text(*verb, error);
  return with_help(app, *verb, text);
}

// Asked for the help of a verb that does not exist; empty: of one that does.
std::string unknown_verb(const CLI::App& app) {
  const CLI::App* verb = chosen_verb(app);
  const std::vector<std::string> misfits = app.remaining(true);
  if (verb_names(*verb).empty() || misfits.empty() || misfits.front().starts_with("-")) return "";
  return with_help(app, *verb, misfit_text(*verb, misfits.front()));
}

void add_offered(const CLI::Option& option, const Offered& offered, VerbShape& shape) {
  if (option.get_positional()) {
    shape.words.insert(shape.words.end(), offered.words.begin(), offered.words.end());
    shape.unfinished_jobs |= offered.unfinished_jobs;
    return;
  }
  for (const std::string& name : names_of(option)) shape.option_words[name] = offered.words;
}

VerbShape shape_of(const CLI::App& app, const OfferedByOption& offered) {
  VerbShape shape;
  shape.name = app.get_name();
  shape.options = option_names(app);
  for (const CLI::Option* option : app.get_options()) {
    const std::string argument = option->get_name(true);
    shape.takes_files |= argument.starts_with("FILE") || argument.starts_with("DIR");
    shape.takes_jobs |= argument.starts_with("JOB") || argument.starts_with("DIR|JOB");
    shape.takes_nodes |= argument.starts_with("NODE");
    const auto found = offered.find(option);
    if (found != offered.end()) add_offered(*option, found->second, shape);
  }
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!verb->get_group().empty()) shape.verbs.push_back(shape_of(*verb, offered));
  }
  return shape;
}

}  // namespace

ParsedLine CommandLine::parse(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "help") {  // `help run` is `run --help`
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  arguments = with_present_names(std::move(arguments));
  CLI::App& app = parser_->app;
  app.footer(parser_->footer);  // here, so that verbs do not inherit it
  const auto refused = [](std::string text) {
    return ParsedLine{{}, {}, usage_error, std::move(text), {}};
  };
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const std::string unknown = unknown_verb(app);
    return unknown.empty() ? ParsedLine{{}, {}, 0, app.help(), {}} : refused(unknown);
  } catch (const CLI::ParseError& error) {
    return refused(usage_text(app, error));
  }
  const CLI::App* verb = chosen_verb(app);
  const auto found = parser_->actions.find(verb);
  if (found == parser_->actions.end()) return refused(app.help());
  if (const std::string option = misplaced_option(app, *verb); !option.empty()) {
    return refused(with_help(app, *verb, "write " + option + " after '" + full_name(*verb) + "'"));
  }
  return {full_name(*verb), found->second, 0, "", ignored_options(*verb)};
}

const CommonOptions& CommandLine::common() const {
  return parser_->common;
}

VerbShape CommandLine::shape() const {
  return shape_of(parser_->app, parser_->offered);
}

std::vector<std::string> with_present_names(std::vector<std::string> words) {
  for (std::size_t place = 1; place < words.size() && words[place] != "--"; ++place) {
    for (const Renamed& name : renamed) {
      if (words.front() != name.verb || !is_old(name, words[place], place)) continue;
      words[place].replace(0, name.old.size(), name.now);
      break;
    }
  }
  return words;
}

}  // namespace muster
