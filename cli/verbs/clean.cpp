// `muster clean`: what muster does by itself once a day, done now. Nodes clean up after themselves.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/job/cleaning.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
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

int tell(const std::vector<Removed>& all, bool dry_run, const CommonOptions& common) {
  if (wants_table(common)) {
    if (all.empty()) notice("nothing to remove", common);
    for (const Removed& removed : all) write_all(Stream::out, sentence(removed, dry_run));
    return 0;
  }
  const auto one = [](const Removed& removed) {
    return Document{{"what", removed.what}, {"count", removed.count}, {"bytes", removed.bytes}};
  };
  return print_document(list_of(all, one), common);
}

int clean(bool dry_run, const CommonOptions& common) {
  const auto keep = or_end(user_retention(), invalid_file, "nothing is removed: ");
  const auto removed =
      clean_state_directory({Home::from_environment(), keep, wall_clock_now(), dry_run});
  return tell(removed, dry_run, common);
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
