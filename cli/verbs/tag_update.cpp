#include "cli/verbs/tag_update.h"

#include <nlohmann/json.hpp>

#include "cli/grammar/verbs.h"
#include "cli/job/find.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

constexpr std::string_view prefix = "tags.";

Error not_a_tag(const std::string& text) {
  return Error{"'" + text + "' cannot be changed: only tags can, as tags.KEY=VALUE"};
}

}  // namespace

Result<std::string> updated_tags(const std::string& tags, const TagUpdate& update) {
  auto object = nlohmann::json::parse(tags, nullptr, false);
  if (!object.is_object()) object = nlohmann::json::object();
  for (const std::string& change : update.set) {
    const std::size_t equals = change.find('=');
    if (!change.starts_with(prefix) || equals == change.npos || equals == prefix.size()) {
      return not_a_tag(change);
    }
    object[change.substr(prefix.size(), equals - prefix.size())] = change.substr(equals + 1);
  }
  for (const std::string& change : update.removed) {
    if (!change.starts_with(prefix)) return not_a_tag(change);
    object.erase(change.substr(prefix.size()));
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int update_tags(const std::string& typed, const TagUpdate& update, const CommonOptions& common) {
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const Home home = Home::from_environment();
  const auto found = open_job(home, typed);
  if (!found) return without_job(home, found.error(), common);
  auto tags = updated_tags(found->row.tags, update);
  if (!tags) return complain(tags.error().message, 2, common);
  const auto store = Store::open(home.root, Store::Mode::annotate);
  if (!store) return complain(store.error().message, internal, common);
  const Status done = (*store)->set_tags(found->id(), *tags);
  if (!done) return complain(done.error().message, internal, common);
  return wants_table(common) ? 0 : show_job(found->row.name, common);
}

}  // namespace muster
