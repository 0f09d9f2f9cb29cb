// `muster init TEMPLATE`: a commented job file to start from.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "scheduler/model/exit_code.h"
#include "templates/spelling.h"
#include "templates/starter.h"

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
  const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
  write_all(Stream::out, table.text(width, wants_color(common.color, Stream::out)));
  return 0;
}

int unknown_starter(const std::string& name, const CommonOptions& common) {
  std::vector<std::string> names;
  for (const Starter& starter : starters()) names.emplace_back(starter.name);
  const std::string meant = did_you_mean(name, names);
  complain("there is no template '" + name + "'; " +
               (meant.empty() ? "`muster init` lists them" : meant),
           common);
  return 2;
}

// A file that exists is somebody's work: never overwritten.
int write_new(const std::string& path, std::string_view text, const CommonOptions& common) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) {
    complain(path + " exists; choose another name, nothing is overwritten", common);
    return 2;
  }
  const ssize_t written = fd < 0 ? -1 : ::write(fd, text.data(), text.size());
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (written != static_cast<ssize_t>(text.size())) {
    complain("cannot write " + path + ": " + std::strerror(error), common);
    return static_cast<int>(ExitCode::internal);
  }
  notice("wrote " + path + "; next: muster run " + path, common);
  return 0;
}

int init(const InitOptions& options, const CommonOptions& common) {
  if (options.name.empty()) return list_starters(common);
  for (const Starter& starter : starters()) {
    if (starter.name != options.name) continue;
    if (!options.file.empty()) return write_new(options.file, starter.text, common);
    write_all(Stream::out, starter.text);
    return 0;
  }
  return unknown_starter(options.name, common);
}

}  // namespace

void add_init(CommandLine& line) {
  line.verb({.name = "init",
             .summary = "Print a commented job file to start from",
             .own_output_option = true},
            [](Arguments& of) {
              auto options = std::make_shared<InitOptions>();
              of.optional_argument("TEMPLATE", options->name, "Which; without one they are listed");
              of.option("-o,--output", options->file, "Write this file instead of printing");
              return [options](const CommonOptions& common) { return init(*options, common); };
            });
}

}  // namespace muster
