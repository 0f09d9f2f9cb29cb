// `muster init TEMPLATE`: a commented job file to start from.
#include <algorithm>

#include "cli/terminal/files.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/text/spelling.h"
#include "templates/job/starter.h"

namespace muster {

namespace {

struct InitOptions {
  std::string name;
  std::string file;
};

int list_starters(const CommonOptions& common) {
  Table table({"TEMPLATE", "FOR"});
  for (const Starter& starter : starters()) {
    table.add({std::string(starter.name), std::string(starter.summary)});
  }
  write_all(Stream::out, table.text(common));
  return 0;
}

std::vector<std::string> starter_names() {
  std::vector<std::string> names;
  for (const Starter& starter : starters()) names.emplace_back(starter.name);
  return names;
}

int init(const InitOptions& options, const CommonOptions& common) {
  if (options.name.empty()) return list_starters(common);
  const auto starter = std::ranges::find(starters(), options.name, &Starter::name);
  if (starter == starters().end()) {
    throw VerbEnd(usage_error,
                  "there is no template '" + options.name + "'; " +
                      did_you_mean(options.name, starter_names(), "`muster init` lists them"));
  }
  if (options.file.empty()) {
    write_all(Stream::out, starter->text);
  } else {
    write_new_file(options.file, starter->text);
    notice("wrote " + options.file + "; next: muster run " + options.file, common);
  }
  return 0;
}

}  // namespace

void add_init(CommandLine& line) {
  const VerbTexts texts{.name = "init",
                        .summary = "Print a commented job file to start from",
                        .own_output_option = true};
  line.verb<InitOptions>(texts, init, [](Arguments& of, InitOptions& options) {
    of.optional_argument("TEMPLATE", options.name,
                         "Template to print; without one they are listed");
    of.offer("TEMPLATE", {starter_names()});
    of.option("-o,--output", options.file, "Write this file instead of printing");
  });
}

}  // namespace muster
