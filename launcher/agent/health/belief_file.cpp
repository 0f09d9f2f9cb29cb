#include "launcher/agent/health/belief_file.h"

#include "launcher/agent/node/log.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

constexpr std::chrono::seconds save_pause{60};
constexpr int version_of_beliefs = 1;

}  // namespace

Result<SavedHealth> decode_health(std::string_view text) {
  return read_versioned_json<SavedHealth>(text, version_of_beliefs);
}

SavedHealth BeliefFile::load() const {
  const std::string text = text_of_file(path_);
  if (text.empty()) return {};
  auto saved = decode_health(text);
  if (saved) return std::move(*saved);
  log_line(path_ + ": starting with empty state: " + saved.error().message);
  return {};
}

void BeliefFile::save(const SavedHealth& saved) {
  saved_at_ = boot_time();
  std::string text = versioned_json(saved, version_of_beliefs);
  if (text == text_) return;
  text_ = std::move(text);
  if (!replace_file(path_, text_, 0600, Durable::in_cache)) log_line("cannot write " + path_);
}

bool BeliefFile::is_due() const {
  return boot_time() - saved_at_ > save_pause;
}

}  // namespace muster
