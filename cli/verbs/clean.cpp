// `muster clean`: what muster does by itself once a day, done now. Nodes clean up after themselves.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/job/cleaning.h"
#include "cli/terminal/document.h"
#include "cli/verbs/verbs.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

std::string sentence(const Removed& removed, bool dry_run) {
  const std::string size =
      removed.bytes == 0 ? "" : ", " + bytes_text(static_cast<std::uint64_t>(removed.bytes));
  return (dry_run ? "would remove " : "removed ") + removed.what + ": " +
         std::to_string(removed.count) + size + "\n";
}

int clean(bool dry_run, const CommonOptions& common) {
  const auto keep = or_end(user_retention(), invalid_file, "nothing is removed: ");
  const auto removed =
      clean_state_directory({Home::from_environment(), keep, wall_clock_now(), dry_run});
  std::string text;
  for (const Removed& one : removed) text += sentence(one, dry_run);
  const Document document = list_of(removed, [](const Removed& one) {
    return Document{{"what", one.what}, {"count", one.count}, {"bytes", one.bytes}};
  });
  return print_result(document, text, common, "nothing to remove");
}

}  // namespace

void add_clean(CommandLine& line) {
  line.verb<bool>(
      {"clean", "Remove what no job needs; limits are in ~/.config/muster/retention.yml"}, clean,
      [](Arguments& of, bool& dry_run) {
        of.flag("-n,--dry-run", dry_run, "Only print what would be removed");
      });
}

}  // namespace muster
