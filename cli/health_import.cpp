#include "cli/health_import.h"

#include "cli/terminal/escape.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "scheduler/model/exit_code.h"
#include "templates/nhc_conf.h"
#include "templates/profile/reader.h"

namespace muster {

namespace {

constexpr std::size_t file_bytes_max = 1u << 20;
constexpr int some_skipped = 1;

// A profile is a file of its own: several are documents of one stream, each with its target.
std::string profiles_text(const NhcImport& import) {
  std::string text;
  for (const NhcFragment& fragment : import.fragments) {
    if (import.fragments.size() > 1) {
      text += (text.empty() ? "" : "---\n") + ("# for " + one_line(fragment.target)) + "\n";
    }
    text += write_health_profile(fragment.profile);
  }
  return text;
}

}  // namespace

int import_health(const HealthImportOptions& options, const CommonOptions& common) {
  const auto text = read_input(options.file, file_bytes_max);
  if (!text) {
    complain(text.error().message, common);
    return static_cast<int>(ExitCode::invalid_job);
  }
  const NhcImport import =
      options.host.empty() ? import_nhc_conf(*text) : import_nhc_conf_for(*text, options.host);
  for (const std::string& note : import.notes) notice(options.file + ": " + note, common);
  for (const NhcSkippedLine& skipped : import.skipped) {
    complain(options.file + ":" + std::to_string(skipped.line) + ": skipped: " + skipped.why +
                 ": " + skipped.text,
             common);
  }
  if (import.fragments.empty()) notice(options.file + " says nothing for a profile", common);
  write_all(Stream::out, profiles_text(import));
  return import.skipped.empty() ? 0 : some_skipped;
}

}  // namespace muster
